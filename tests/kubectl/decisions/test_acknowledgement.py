"""A change counts as in force only when operator and driver have confirmed it."""

import pytest
from support.plugin.objects import condition, running, stored

from backfill_api.names import OVERRIDE_ANNOTATION
from backfill_api.spec.override import Width
from backfill_kubectl.decisions.acknowledgement import InForce, Recorded, Rejected, Waiting, acknowledgement
from backfill_kubectl.decisions.changes import (
    Pause,
    Rescale,
    Resume,
    Retry,
    RunAgain,
    Suspend,
    TakeReceipt,
    Throttle,
    Unsuspend,
)
from backfill_kubectl.decisions.undo import undo_of

PAUSED = {"desiredState": "Paused"}
NOW_MS = 1_795_000_000_000
EIGHT = Rescale(Width(max_in_flight=8))
ACKED = {"paused": "History", "epoch": 14, "ackedRevision": 3, "desiredRevision": 3}
PENDING = [{"revision": 4, "command": {"type": "Pause", "pause": {"scope": "History"}}}]


def answer(change, status, *, spec=None, token="t", generation=1, **metadata):
    """Return the answer of an object whose write had this generation."""
    written = stored(spec=spec, generation=generation, **metadata)
    return acknowledgement(
        change, token, written, stored(spec=spec, generation=generation, status=status, **metadata), NOW_MS
    )


class TestAPause:
    """It is in force after the commit that contains it."""

    def test_confirmed_pause_has_its_epoch_and_its_place(self):
        """Rows and percent are those of the commit."""
        status = running(
            ACKED, [condition("Paused", reason="AsRequested")], progress={"percent": 8, "rowsDone": 246_015}
        )

        assert answer(Pause(), status, spec=PAUSED) == InForce(
            "paused at 8 % (246,015 rows); changes continue", "epoch 14"
        )

    @pytest.mark.parametrize(
        "status",
        [
            running(ACKED | {"pending": PENDING}, [condition("Paused", "True", "AcknowledgementPending")]),
            running(ACKED, [condition("Paused", "False", "AcknowledgementPending")]),
            running(ACKED | {"paused": "All"}, [condition("Paused", reason="AsRequested")]),
            running(ACKED | {"paused": None}, [condition("Paused", reason="AsRequested")]),
            running(ACKED),
        ],
        ids=["pending", "unconfirmed", "another scope", "another state", "no condition"],
    )
    def test_unconfirmed_pause_is_awaited(self, status):
        """A status of before the change must not count."""
        assert isinstance(answer(Pause(), status, spec=PAUSED), Waiting)

    def test_status_of_an_earlier_generation_is_awaited(self):
        """It is about the spec before the change."""
        status = running(ACKED, [condition("Paused", reason="AsRequested")])

        assert isinstance(answer(Pause(), status, spec=PAUSED, generation=2), Waiting)

    def test_override_counts_once_the_status_has_it(self):
        """An annotation changes no generation."""
        annotations = {OVERRIDE_ANNOTATION: '{"desiredState":"Paused"}'}
        conditions = [condition("Paused", reason="Override")]

        before = answer(Pause(), running(ACKED, conditions), annotations=annotations)
        after = answer(
            Pause(), running(ACKED, conditions, override={"desiredState": "Paused"}), annotations=annotations
        )

        assert isinstance(before, Waiting)
        assert isinstance(after, InForce)

    def test_operator_that_ignores_the_override_is_an_error(self):
        """It is older than a field of the annotation."""
        status = running(
            ACKED, [condition("OverrideIgnored", reason="OverrideIgnored", message="throttle.until: unknown")]
        )

        rejected = answer(Pause(), status, annotations={OVERRIDE_ANNOTATION: '{"desiredState":"Paused"}'})

        assert isinstance(rejected, Rejected)
        assert "throttle.until: unknown" in rejected.why

    def test_driver_that_refuses_is_an_error(self):
        """Waiting longer does not help."""
        refused = condition("ControlSynced", "False", "CommandRefused", "Pause (revision 4): unknown field")

        rejected = answer(Pause(), running(ACKED | {"pending": PENDING}, [refused]), spec=PAUSED)

        assert isinstance(rejected, Rejected)
        assert "Pause (revision 4): unknown field" in rejected.why

    def test_pending_command_of_another_kind_is_not_awaited(self):
        """A receipt takes long."""
        pending = [{"revision": 4, "command": {"type": "Verify"}}]
        status = running(ACKED | {"pending": pending}, [condition("Paused", reason="AsRequested")])

        assert isinstance(answer(Pause(), status, spec=PAUSED), InForce)

    def test_job_without_a_driver_records_the_change(self):
        """The next driver starts with it."""
        status = {"phase": "Suspended", "conditions": [condition("Suspended")]}

        assert answer(Pause(), status, spec=PAUSED) == Recorded("Suspended: no driver runs; the next one starts paused")

    def test_recreated_object_is_another_job(self):
        """The change is gone with the old one."""
        written, now = stored(spec=PAUSED), stored(spec=PAUSED, uid="other")

        assert isinstance(acknowledgement(Pause(), "t", written, now, NOW_MS), Rejected)

    def test_object_that_no_operator_has_seen_names_the_cause(self):
        """A namespace that is not watched is the usual one."""
        waiting = answer(Pause(), {"observedGeneration": -1}, spec=PAUSED)

        assert "none watches the namespace" in waiting.why


class TestOtherChanges:
    """Each has its own sign in the status."""

    def test_limit_is_in_force_with_both_numbers(self):
        """A limit of bytes that is still in force is another limit."""
        spec, throttled = {"throttle": {"rowsPerSecond": 100}}, [condition("Throttled", reason="AsRequested")]

        good = answer(Throttle(100), running({"rowsPerSecond": 100, "epoch": 5}, throttled), spec=spec)
        other = answer(Throttle(100), running({"rowsPerSecond": 100, "bytesPerSecond": 5}, throttled), spec=spec)

        assert good == InForce("limited to 100 rows/s at 0 % (0 rows)", "epoch 5")
        assert isinstance(other, Waiting)

    def test_width_is_in_force_when_the_driver_reports_it(self):
        """An acknowledged command and an older report are no proof."""
        spec = {"strategy": {"type": "Snapshot", "snapshot": {"maxInFlight": 8}}}
        status, pending = running({"maxInFlight": 8, "epoch": 5}), running({"maxInFlight": 2})

        assert answer(EIGHT, status, spec=spec) == InForce(
            "reading at most 8 pieces at a time at 0 % (0 rows)", "epoch 5"
        )
        assert isinstance(answer(EIGHT, status | {"progress": {"maxInFlight": 2}}, spec=spec), Waiting)
        assert isinstance(answer(EIGHT, pending, spec=spec), Waiting)

    @pytest.mark.parametrize(
        ("control", "progress", "expected"),
        [
            ({"maxInFlight": 8, "executors": 3}, {"maxInFlight": 8, "executors": 3}, InForce),
            ({"maxInFlight": 8, "executors": 3}, {"maxInFlight": 8, "executors": 1}, Waiting),
            ({"maxInFlight": 8, "executors": 1}, {"maxInFlight": 8, "executors": 1}, Waiting),
            ({"maxInFlight": 2, "executors": 3}, {"maxInFlight": 2, "executors": 3}, Waiting),
            ({"maxInFlight": 8, "executors": 3, "splitTargetSeconds": 60}, {"splitTargetSeconds": 60}, InForce),
        ],
    )
    def test_each_value_of_a_width_is_confirmed(self, control, progress, expected):
        """Values that the command does not set do not count."""
        spec = {"strategy": {"type": "Snapshot", "snapshot": {"maxInFlight": 8}}, "executor": {"instances": 3}}
        change = Rescale(Width(max_in_flight=8, executors=3))

        assert isinstance(answer(change, running(control, progress=progress), spec=spec), expected)

    def test_number_of_executors_that_is_fixed_in_the_attempt_is_recorded(self):
        """The attempt was launched without executors, or the operator is of an earlier version: the driver gets no command."""
        status = running({"maxInFlight": 8, "epoch": 5})

        assert answer(Rescale(Width(executors=3)), status, spec={"executor": {"instances": 3}}) == Recorded(
            "recorded: the running attempt keeps its executors; the next one starts with this width"
        )

    def test_resume_is_in_force_when_the_pause_is_over(self):
        """The limit that remains is named."""
        spec = {"throttle": {"rowsPerSecond": 100}}
        status = running({"rowsPerSecond": 100, "epoch": 5}, [condition("Paused", "False", "NotRequested")])

        assert answer(Resume(), status, spec=spec) == InForce(
            "running at 0 % (0 rows), limited to 100 rows/s", "epoch 5"
        )

    def test_suspension_is_in_force_when_the_pods_are_gone(self):
        """Not when it is requested."""
        assert isinstance(answer(Suspend(), running(), spec={"suspend": True}), Waiting)
        gone = {"phase": "Suspended", "conditions": [condition("Suspended")]}
        assert isinstance(answer(Suspend(), gone, spec={"suspend": True}), InForce)
        assert isinstance(answer(Unsuspend(), gone), Waiting)

    def test_request_is_done_when_its_token_is_in_the_status(self):
        """An older token is another request."""
        assert isinstance(answer(Retry(), running({"restartToken": "old"})), Waiting)
        assert isinstance(answer(Retry(), running({"restartToken": "t"})), InForce)

    def test_refresh_is_done_when_its_token_is_in_the_status(self):
        """A refresh of a job that has not ended is kept for later; a strategy may refuse it for good."""
        complete = {"phase": "Succeeded", "conditions": [condition("Complete")]}
        message = "the annotation backfill.dev/refresh-requested has no effect: strategy RearrangedChain cannot"
        refused = complete | {"conditions": [condition("Complete") | {"message": message}]}

        assert isinstance(answer(RunAgain(), complete), Waiting)
        assert isinstance(answer(RunAgain(), complete | {"control": {"refreshToken": "t"}}), InForce)
        assert isinstance(answer(RunAgain(), running()), Recorded)
        assert isinstance(answer(RunAgain(), refused), Rejected)

    @pytest.mark.parametrize(
        ("control", "receipt", "expected"),
        [
            ({"verifyToken": "old"}, {"targetVersion": 1, "epoch": 5, "rows": 1, "mismatches": 0}, Waiting),
            ({"verifyToken": "t", "verifyEpoch": 5}, None, Waiting),
            ({"verifyToken": "t", "pending": [{"revision": 4, "command": {"type": "Verify"}}]}, None, Waiting),
            ({"verifyToken": "t"}, {"targetVersion": 1, "epoch": 5, "rows": 1, "mismatches": 0}, InForce),
        ],
        ids=["older request", "running", "pending", "taken"],
    )
    def test_receipt_is_awaited_until_it_is_in_the_status(self, control, receipt, expected):
        """An earlier receipt does not count."""
        assert isinstance(answer(TakeReceipt(), running(control, receipt=receipt)), expected)


class TestUndo:
    """The command that restores the controls before the change."""

    @pytest.mark.parametrize(
        ("change", "spec", "expected"),
        [
            (Pause(), {}, "resume orders -n shop"),
            (Resume(), PAUSED, "pause orders -n shop"),
            (Resume(), PAUSED | {"pause": {"scope": "All"}}, "pause orders --with-changes -n shop"),
            (Resume(), {}, ""),
            (Throttle(5), {}, "throttle orders none -n shop"),
            (EIGHT, {}, "rescale orders 2 -n shop"),
            (Rescale(Width(split_target_seconds=9)), {}, "rescale orders --split-seconds 4 -n shop"),
            (
                Rescale(Width(chunk_rows=9)),
                {"strategy": {"type": "Arrangement"}},
                "rescale orders --chunk-rows 0 -n shop",
            ),
            (
                Rescale(Width(max_in_flight=9, executors=1)),
                {"executor": {"instances": 4}},
                "rescale orders 2 --executors 4 -n shop",
            ),
            (
                Throttle(5),
                {"throttle": {"rowsPerSecond": 7, "bytesPerSecond": 9}},
                "throttle orders 7 --bytes 9B -n shop",
            ),
            (Suspend(), {}, "unsuspend orders -n shop"),
            (Retry(), {}, ""),
        ],
    )
    def test_undo_restores_the_controls_before(self, change, spec, expected):
        """It is printed after each change."""
        assert undo_of(change, stored(spec=spec), NOW_MS) == expected
