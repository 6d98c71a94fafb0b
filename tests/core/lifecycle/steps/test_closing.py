"""Deletion with a policy: a last attempt closes the job, and no deletion waits for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, ended, observed, pod, reason, report, running, spec
from support.operators.switched_world import commands, launches

from backfill_api.names import SKIP_CLOSING_ANNOTATION
from backfill_api.status.ending import Ending
from backfill_api.status.procedure import ClosingRun, ProcedureEnd, SwitchRun
from backfill_core.lifecycle.actions import (
    AddFinalizer,
    Decision,
    DeleteAttemptObjects,
    DeletePod,
    LaunchDriver,
    PersistIntent,
    RemoveFinalizer,
)
from backfill_core.lifecycle.closing import CLOSING_MS
from backfill_core.lifecycle.observation import NAMESPACE_TERMINATING, LaunchFailed, Observation, SpecRefused

HELD = ("backfill.dev/drain",)
EXTENDS = {"source": {"type": "Delta", "delta": {"path": "/data/a", "key": ["id"], "hold": "Extend"}}}
TERMINATING = LaunchFailed(2, T0, 403, "Forbidden", "no new content in namespace shop", (NAMESPACE_TERMINATING,))


def gone(policy: str = "Release", status: str = "suspended", **fields: Any) -> Observation:
    """Return a deleted Backfill without pods."""
    given: dict[str, Any] = {
        "spec": spec(deletionPolicy=policy), "status": STATUSES[status], "deletion_ms": T0 - 1000, "finalizers": HELD, "live": True,
    }  # fmt: skip
    return observed(**(given | fields))


def begun(**fields: Any) -> Observation:
    """Return a deleted Backfill whose last attempt was launched."""
    status = fields.pop("status_of", STATUSES["suspended"])
    seen = replace(gone(**fields), status=status)
    decision = checked(seen)
    assert launches(decision) == [(2, "Close")]
    return after(seen, decision, live=True)


def closed(seen: Observation, end: str | None, code: int = 0, number: int = 2, **fields: Any) -> Observation:
    """Return the observation after the end of the last attempt."""
    detail = None if end is None else ProcedureEnd(kind="Close", end=end)
    ending = Ending(outcome="Failed" if code else "Complete", procedure=detail, **fields)
    up = checked(replace(seen, pods=(running(number),), report=report(number)))
    past = replace(ended(code, number), ending=None if code == 137 else ending)
    return after(seen, up, pods=(past,), report=None, live=True)


def events(decision: Decision) -> list[str]:
    """Return the reasons of the events."""
    return [event.reason for event in decision.events]


class TestWhichDeletionsNeedADriver:
    """A driver starts only if there may be something to give back, to release or to drop."""

    @pytest.mark.parametrize(
        ("policy", "status", "source", "needed"),
        [
            ("Drain", "suspended", {}, False),
            ("Retain", "suspended", {}, False),
            ("Drain", "suspended", EXTENDS, True),
            ("Retain", "failed", EXTENDS, True),
            ("Retain", "complete", EXTENDS, False),
            ("Release", "suspended", {}, True),
            ("Release", "complete", {}, True),
            ("Drop", "failed", {}, True),
            ("Drop", "complete", EXTENDS, True),
            ("Drop", "planned, unapproved", {}, False),
            ("Release", "new", EXTENDS, False),
        ],
    )
    def test_policy_and_history_decide(self, policy: str, status: str, source: dict[str, Any], needed: bool) -> None:
        """The end of a complete job gave the retention back, and a job without a driver took nothing."""
        decision = checked(gone(spec=spec(deletionPolicy=policy, **source), status=status))

        assert launches(decision) == ([(2, "Close")] if needed else [])
        assert (RemoveFinalizer() in decision.actions) is not needed

    @pytest.mark.parametrize(
        ("run", "needed"),
        [
            ({"goal": "Switch", "state": "Running", "attempts": 1}, True),
            ({"goal": "Switch", "state": "Interrupted", "place": "Between", "attempts": 1}, True),
            ({"goal": "Undo", "state": "Running"}, True),
            ({"goal": "Switch", "state": "Running"}, False),
            ({"goal": "Switch", "state": "Refused", "attempts": 1}, False),
            ({"goal": "Switch", "state": "Switched", "place": "Target", "attempts": 1}, False),
            ({"goal": "Undo", "state": "Running", "place": "Target"}, False),
            ({"goal": "Undo", "state": "Running", "place": "Target", "attempts": 1}, True),
        ],
    )
    def test_an_unfinished_switch_over_may_have_made_the_source_read_only(
        self, run: dict[str, Any], needed: bool
    ) -> None:
        """Without a driver its fence would stay, and no object on the cluster would show its owner."""
        status = STATUSES["suspended"].model_copy(update={"switch": SwitchRun(start="2027-01-15T08:00:00Z", **run)})
        seen = replace(gone("Retain", "suspended"), status=status)
        full = replace(seen, no_room="the operator's limit of 1 running driver is reached")

        for decision in (checked(seen), checked(full)):
            assert launches(decision) == ([(2, "Close")] if needed else [])

    def test_the_driver_of_the_job_stops_first(self) -> None:
        """Two drivers must not write the same target."""
        up = gone(status="running", pods=(running(),), report=report(), live=False)
        drains = checked(up)
        over = checked(after(up, drains, pods=(ended(10),), report=None, live=True))

        assert commands(drains) == ["Stop"]
        assert launches(drains) == []
        assert launches(over) == [(2, "Close")]
        assert over.status.phase == "Terminating"
        assert reason(over.status) == "Closing"

    @pytest.mark.parametrize("held", [HELD, ()])
    @pytest.mark.parametrize("status", ["suspended", "failed", "complete"])
    def test_the_finalizer_stays_for_a_later_deletion(self, status: str, held: tuple[str, ...]) -> None:
        """Without it the object would be gone before a driver could start; an edited policy adds it again."""
        kept = gone("Drop", status, deletion_ms=None, finalizers=held)
        if status == "suspended":
            kept = replace(kept, spec=spec(deletionPolicy="Drop", suspend=True))
        decision = checked(kept)

        assert RemoveFinalizer() not in decision.actions
        assert (AddFinalizer() in decision.actions) is (not held)

    def test_other_holds_do_not_keep_it(self) -> None:
        """Neither a suspension nor a pause of all jobs, a queue or an open circuit of the job's own retries matters."""
        current = spec(deletionPolicy="Release", suspend=True, queue="team", activeDeadlineSeconds=1)
        seen = begun(spec=current)
        up = checked(replace(seen, pods=(running(2),), report=report(2)), T0 + 60_000)

        assert not any(isinstance(action, DeletePod) for action in up.actions)
        assert up.status.attempt is not None
        assert up.status.attempt.stop is None
        assert (up.requeue_after_s or 0) > 1

    def test_a_foreground_deletion_gets_a_driver_without_an_owner(self) -> None:
        """The garbage collector deletes everything that the object owns before the object."""
        foreground = gone(finalizers=(*HELD, "foregroundDeletion"))
        [launch] = [action for action in checked(foreground).actions if isinstance(action, LaunchDriver)]
        [plain] = [action for action in checked(gone()).actions if isinstance(action, LaunchDriver)]

        assert (launch.detached, plain.detached) == (True, False)


class TestTheEnd:
    """The object disappears with an event that says what became of the tables."""

    @pytest.mark.parametrize(
        ("end", "event"),
        [("Kept", "Closed"), ("Released", "Closed"), ("Dropped", "Closed"), ("Refused", "DropRefused")],
    )
    def test_a_reported_end_releases_the_object(self, end: str, event: str) -> None:
        """A target that may not be dropped stays, and the event has the reason."""
        over = closed(begun(), end, message="the table stays: others wrote to it.")
        done = checked(over)

        assert RemoveFinalizer() in checked(after(over, done, live=True)).actions
        assert DeleteAttemptObjects(2) in done.actions
        assert launches(done) == []
        assert [note.message for note in done.events if note.reason == event] == [
            "the table stays: others wrote to it."
        ]

    def test_is_on_record_before_the_pod_that_reported_it_is_deleted(self) -> None:
        """Another writer may prevent the removal of the finalizer, such as the collector of a foreground deletion."""
        over = closed(begun(), "Released")
        over = replace(over, pods=(replace(over.pods[0], owner_uid=None, backfill_uid=over.uid),))
        done = checked(over)
        leaves = checked(after(over, done, live=True))

        assert done.status.closing is not None
        assert done.status.closing.state == "Released"
        assert [type(action) for action in done.actions] == [DeleteAttemptObjects]
        assert {DeletePod, RemoveFinalizer} <= {type(action) for action in leaves.actions}

    def test_an_error_that_no_retry_corrects_is_the_last(self) -> None:
        """No edit can correct a deleted object."""
        over = closed(begun(), None, 27, reason="PermissionDenied", message="no right.")
        failed = checked(over)

        assert RemoveFinalizer() in checked(after(over, failed, live=True)).actions
        assert events(failed) == ["ClosingAbandoned"]
        assert "no right." in failed.events[0].message
        assert "backfill release --force" in failed.events[0].message

    def test_three_failures_end_it(self) -> None:
        """Each retry waits; the last failure is in the event."""
        seen, now_ms = begun(), T0
        for number in (2, 3, 4):
            over = closed(seen, None, 61, number, reason="Transient", message="no answer.")
            decision = checked(over, now_ms)
            assert launches(decision) == []
            if number < 4:
                assert RemoveFinalizer() not in decision.actions
                waits = after(over, decision, live=True)
                now_ms += 600_000
                again = checked(waits, now_ms)
                assert launches(again) == [(number + 1, "Close")]
                seen = after(waits, again, pods=(), live=True)

        assert RemoveFinalizer() in checked(after(over, decision, live=True), now_ms).actions
        assert events(decision) == ["ClosingAbandoned"]
        assert "3 attempts failed; the last one: Transient: no answer." in decision.events[0].message

    def test_a_lost_driver_counts_no_failure(self) -> None:
        """A drained node is no fault of the job."""
        over = checked(replace(closed(begun(), None, 137), pods=(ended(None, 2, reason="Evicted"),)))

        assert over.status.closing is not None
        assert (over.status.closing.state, over.status.closing.failures) == ("Running", 0)

    def test_a_lost_driver_is_followed_by_another_without_an_approval(self) -> None:
        """The spec was approved before its first driver, of which the status may say nothing any more."""
        manual = spec(deletionPolicy="Release", approval="Manual")
        running_job = STATUSES["running"].model_copy(update={"progress": None})
        seen = begun(spec=manual, status_of=running_job)
        lost = replace(seen, pods=(ended(None, 2, reason="Evicted"),))
        over = checked(lost)
        again = checked(after(seen, over, pods=(), live=True), T0 + 600_000)

        assert launches(again) == [(3, "Close")]

    @pytest.mark.parametrize("pods", [(), (pod(2),)])
    def test_half_an_hour_ends_it(self, pods: tuple[Any, ...]) -> None:
        """A quota without room, a missing image or a full cluster must not hold a deletion for ever."""
        seen = replace(begun(), pods=pods)
        late = checked(seen, T0 + CLOSING_MS)

        if pods:
            assert any(isinstance(action, DeletePod) for action in late.actions)
            assert RemoveFinalizer() not in late.actions
            late = checked(after(seen, late, pods=(), live=True), T0 + CLOSING_MS + 1000)
        assert RemoveFinalizer() in late.actions
        assert events(late) == ["ClosingAbandoned"]

    def test_an_administrator_skips_it(self) -> None:
        """Before it began, or while its pod waits."""
        skip = {SKIP_CLOSING_ANNOTATION: "true"}
        first = checked(gone(annotations=skip))
        waits = replace(begun(), annotations=skip, pods=(pod(2),))
        stopped = checked(waits)
        over = checked(after(waits, stopped, pods=(), live=True))

        assert RemoveFinalizer() in first.actions
        assert events(first) == ["ClosingSkipped"]
        assert any(isinstance(action, DeletePod) for action in stopped.actions)
        assert RemoveFinalizer() in over.actions
        assert events(over) == ["ClosingSkipped"]

    def test_stop_that_the_job_did_not_acknowledge_is_none_of_the_last_driver(self) -> None:
        """The pod of the job may be gone first. A skipped closing then waited for the drain of a driver that never started."""
        planned = begun(status_of=STATUSES["stopping, commanded"])
        works = replace(planned, pods=(running(2),), report=report(2))
        skipped = replace(planned, pods=(pod(2),), annotations={SKIP_CLOSING_ANNOTATION: "true"})

        assert commands(checked(works)) == []
        assert any(isinstance(action, DeletePod) for action in checked(skipped).actions)

    def test_a_deleted_namespace_ends_it_at_once(self) -> None:
        """No pod can be created there any more."""
        refused = replace(begun(), launch_failed=TERMINATING)
        decision = checked(refused)

        assert decision.actions == (RemoveFinalizer(),)
        assert events(decision) == ["ClosingAbandoned"]

    def test_words_of_a_message_end_nothing(self) -> None:
        """A webhook may write any text, also about another namespace."""
        text = "denied: namespace shop-old is being terminated, move the job"
        refused = replace(begun(), launch_failed=LaunchFailed(2, T0, 403, "Forbidden", text))

        assert RemoveFinalizer() not in checked(refused).actions

    def test_a_job_of_a_deleted_namespace_is_released_before_its_own_deletion(self) -> None:
        """Afterwards the operator may have no right to remove the finalizer."""
        refused = replace(TERMINATING, attempt=1)
        ran = STATUSES["planned"].model_copy(update={"progress": STATUSES["suspended"].progress})
        kept = gone("Drop", status="planned", deletion_ms=None, launch_failed=refused)

        assert RemoveFinalizer() in checked(replace(kept, status=ran)).actions

    def test_an_unwritable_status_ends_it(self) -> None:
        """An attempt that is not on record could be made twice."""
        decision = checked(gone(recordable=False))

        assert decision.actions == (RemoveFinalizer(),)
        assert events(decision) == ["ClosingAbandoned"]

    def test_it_waits_for_a_slot_without_losing_its_time(self) -> None:
        """A thousand Backfills that are deleted at once do not start a thousand drivers."""
        waits = checked(gone(no_room="the operator's limit of 5 running drivers is reached"))

        assert launches(waits) == []
        assert waits.waits_for_room
        assert waits.status.closing is None
        assert waits.requeue_after_s is not None

    def test_an_operator_that_restarts_goes_on(self) -> None:
        """The attempt is on record before its pod."""
        seen = begun()
        decision = checked(seen)

        assert isinstance(decision.actions[0], PersistIntent)
        assert launches(decision) == [(2, "Close")]
        assert seen.status.closing == ClosingRun(state="Running", start="2027-01-15T08:00:00Z")


class TestASpecThatBecomesUnreadable:
    """An edit, or an upgrade of the operator, may come between the record of the last attempt and its pod."""

    def test_the_operator_decides_again_when_the_deletion_is_given_up(self) -> None:
        """No watch would report that time, so the object stayed until a restart of the operator."""
        seen = replace(begun(), spec=SpecRefused(("spec.source: is unknown",)), pods=())
        waits = checked(seen)

        assert launches(waits) == []
        assert (waits.status.phase, reason(waits.status)) == ("Terminating", "SpecRefused")
        assert waits.requeue_after_s == CLOSING_MS / 1000
        over = checked(replace(after(seen, waits, pods=(), live=True), spec=seen.spec), T0 + CLOSING_MS)
        assert RemoveFinalizer() in over.actions
