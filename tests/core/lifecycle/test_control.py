"""Commands: each has one revision, is recorded before it is sent, is repeated until acknowledged, and is repaired when
lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.crd.crd_specs import of_a_topic
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import (
    T0,
    acked,
    after,
    checked,
    conditions,
    control,
    ended,
    observed,
    reason,
    report,
    running,
    sent,
    spec,
)

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import Control, PendingCommand
from backfill_api.wire import Ack, Command
from backfill_core.lifecycle.actions import PersistIntent
from backfill_core.lifecycle.observation import Observation

UP = observed(status=STATUSES["running"], pods=(running(),), report=report(), finalizers=("backfill.dev/drain",))
PAUSED = spec(desiredState="Paused")
RESUME = Command(type="Resume")


class TestACommand:
    """A command leads from the spec to the condition."""

    def test_a_command_is_recorded_before_it_is_sent(self) -> None:
        """An operator that dies in between sends the same command again under the same number."""
        decision = checked(replace(UP, spec=PAUSED))
        again = checked(after(replace(UP, spec=PAUSED), decision))

        assert isinstance(decision.actions[0], PersistIntent)
        assert sent(decision) == sent(again) == [(1, "Pause")]
        assert control(decision).desired_revision == control(again).desired_revision == 1
        assert not isinstance(again.actions[0], PersistIntent)
        assert decision.status.phase == "Pausing"
        assert conditions(decision.status)["ControlSynced"] == "False"

    def test_a_command_is_in_force_when_the_driver_acknowledged_it(self) -> None:
        """It is not in force when it was sent, or when the driver shows it before its commit."""
        wish = replace(UP, spec=PAUSED)
        requested = checked(wish)
        shown = checked(after(wish, requested, report=report(paused="History", revision=1)))
        done = checked(acked(wish, requested, paused="History"))

        assert conditions(shown.status)["Paused"] == "False"
        assert conditions(done.status)["Paused"] == "True"
        assert reason(done.status) == "AsRequested"
        assert (done.status.phase, control(done).acked_revision, control(done).epoch) == ("Paused", 1, 9)

    @pytest.mark.parametrize("forged", [2**33, 2**52, 2**53 - 1])
    @pytest.mark.parametrize("field", ["desired_revision", "acked_revision", "pending"])
    def test_a_command_has_a_revision_even_with_a_forged_status(self, field: str, forged: int) -> None:
        """No number was once left for the next command, so the operator never decided about the object again (fault
        S10)."""
        edited = {field: forged} if field != "pending" else {field: (PendingCommand(revision=forged, command=RESUME),)}
        status = STATUSES["running"].model_copy(update={"control": Control(attempt=1, **edited)})

        decision = checked(replace(UP, spec=PAUSED, status=status))

        assert sent(decision) == [(1, "Pause")]
        assert (control(decision).desired_revision, control(decision).acked_revision) == (1, 0)

    def test_a_pause_and_a_limit_at_once_are_two_revisions(self) -> None:
        """Each command is acknowledged separately."""
        decision = checked(replace(UP, spec=spec(desiredState="Paused", throttle={"rowsPerSecond": 3})))

        assert sent(decision) == [(1, "Pause"), (2, "Throttle")]
        assert control(decision).desired_revision == 2

    def test_a_newer_command_replaces_a_pending_one(self) -> None:
        """The new command has a higher number, because the older one may have arrived."""
        wish = replace(UP, spec=PAUSED)
        requested = checked(wish)
        back = checked(replace(after(wish, requested), spec=spec()))

        assert sent(back) == [(2, "Resume")]

    def test_a_late_command_is_reported_as_late(self) -> None:
        """The operator sends it again, and the driver continues: a slow commit is no reason to lose work."""
        wish = replace(UP, spec=PAUSED)
        late = checked(after(wish, checked(wish)), T0 + 31_000)

        assert reason(late.status, "ControlSynced") == "AcknowledgementTimeout"
        assert sent(late) == [(1, "Pause")]

    @pytest.mark.parametrize(
        ("barrier", "late_s"),
        [
            ({}, 30),
            ({"intervalMs": 60_000}, 180),
            ({"intervalMs": 1000, "commitEvery": 60}, 180),
            ({"intervalMs": 100}, 30),
        ],
    )
    def test_a_command_is_late_after_three_commits_but_not_before_30_seconds(
        self, barrier: dict[str, int], late_s: int
    ) -> None:
        """An acknowledgement cannot come sooner than the next commit, which may be a minute away."""
        wish = replace(UP, spec=spec(desiredState="Paused", barrier=barrier))
        waiting = after(wish, checked(wish))

        assert reason(checked(waiting, T0 + late_s * 1000 - 1).status, "ControlSynced") == "AcknowledgementPending"
        assert reason(checked(waiting, T0 + late_s * 1000).status, "ControlSynced") == "AcknowledgementTimeout"

    def test_an_acknowledgement_of_an_older_attempt_does_not_count(self) -> None:
        """Such a report belongs to another driver."""
        acks = (Ack(attempt=7, epoch=9, revision=1, outcome="Applied"),)
        wish = replace(UP, spec=PAUSED)
        requested = checked(wish)

        foreign = checked(after(wish, requested, report=report(acks=acks)))
        other = checked(after(wish, requested, report=report(7, paused="History")))

        assert control(foreign).acked_revision == control(other).acked_revision == 0
        assert sent(other) == []


class TestDrift:
    """The driver's report counts, not the command that was sent."""

    def test_a_command_of_another_sender_is_reverted(self) -> None:
        """The revision must be above that of the other sender, or the driver would call it superseded."""
        decision = checked(replace(UP, report=report(paused="All", revision=40)))

        assert sent(decision) == [(41, "Resume")]

    def test_a_superseded_command_is_sent_again(self) -> None:
        """A re-created Backfill starts to count at one; the state of the target has a higher count."""
        wish = replace(UP, spec=PAUSED)
        requested = checked(wish)
        acks = (Ack(attempt=1, epoch=9, revision=1, outcome="Superseded"),)
        again = checked(after(wish, requested, report=report(revision=40, acks=acks)))

        assert sent(again) == [(41, "Pause")]

    @pytest.mark.parametrize(
        ("wish", "word"),
        [
            (replace(UP, annotations={"backfill.dev/verify-requested": "today"}), "Verify"),
            (replace(UP, spec=spec(suspend=True)), "Stop"),
        ],
    )
    def test_a_superseded_stop_or_receipt_is_sent_again(self, wish: Observation, word: str) -> None:
        """Such a command leaves no value that could be compared, so the acknowledgement itself counts."""
        requested = checked(wish)
        acks = (Ack(attempt=1, epoch=9, revision=1, outcome="Superseded"),)
        again = checked(after(wish, requested, report=report(revision=40, acks=acks)))

        assert sent(requested) == [(1, word)]
        assert sent(again) == [(41, word)]

    def test_a_report_older_than_the_acknowledgement_is_no_drift(self) -> None:
        """The progress may be older than the response to the command."""
        wish = replace(UP, spec=PAUSED)
        requested = checked(wish)
        decision = checked(acked(wish, requested, paused=None, revision=0))

        assert sent(decision) == []
        assert decision.status.phase == "Paused"
        assert conditions(decision.status).items() >= {"Paused": "True", "Ready": "True"}.items()

    def test_a_restart_of_the_operator_does_not_change_the_status(self) -> None:
        """The driver has not reported to the new operator yet; the status has the information of the previous one."""
        wish = replace(UP, spec=PAUSED)
        paused = checked(acked(wish, checked(wish), paused="History"))
        restarted = checked(after(wish, paused, report=None))

        assert restarted.status == paused.status

    def test_a_recreated_target_accepts_commands(self) -> None:
        """Its state counts from zero, below the last acknowledged revision."""
        old = Control(desired_revision=9, acked_revision=9, attempt=0)
        status = STATUSES["running"].model_copy(update={"control": old})

        decision = checked(replace(UP, status=status, spec=PAUSED, report=report(revision=0)))

        assert sent(decision) == [(10, "Pause")]


class TestTheOverride:
    """The override is an emergency brake that a GitOps tool does not undo."""

    def test_an_override_takes_precedence_and_shows_in_the_reason(self) -> None:
        """The reason explains why the manifest has no effect."""
        wish = replace(UP, annotations={"backfill.dev/override": '{"desiredState":"Paused"}'})
        done = checked(acked(wish, checked(wish), paused="History"))

        assert (done.status.phase, reason(done.status), reason(done.status, "Paused")) == (
            "Paused",
            "Override",
            "Override",
        )

    @pytest.mark.parametrize(
        "text", ["{", "[]", '{"desiredState":"Off"}', '{"desired_state":"Paused"}', '{"suspend":"yes"}', '{"image":"x"}',
                 '{"desiredState":"Paused","x":1}', '{"throttle":{"rowsPerSecond":-1}}', "null"],
    )  # fmt: skip
    def test_an_unreadable_override_is_ignored_as_a_whole(self, text: str) -> None:
        """An event reports it, and the spec stays in force."""
        decision = checked(replace(UP, annotations={"backfill.dev/override": text}))

        assert [event.reason for event in decision.events if event.reason == "OverrideIgnored"] == ["OverrideIgnored"]
        assert sent(decision) == []

    def test_an_override_may_remove_a_limit(self) -> None:
        """The override accepts null as a value."""
        annotations = {"backfill.dev/override": '{"throttle":{"rowsPerSecond":null}}'}
        wish = replace(UP, spec=spec(throttle={"rowsPerSecond": 5}), annotations=annotations)

        assert sent(checked(replace(wish, report=report(throttle_rows_per_second=5)))) == [(1, "Throttle")]
        assert sent(checked(wish)) == []


class TestALimitOfBytes:
    """A limit of bytes works like a limit of rows, and both can be set."""

    def test_a_limit_of_bytes_is_sent_acknowledged_and_in_force(self) -> None:
        """The operator compares the reported limits as a pair."""
        wish = replace(UP, spec=spec(throttle={"bytesPerSecond": 50}))
        requested = checked(wish)
        (pending,) = control(requested).pending
        done = checked(acked(wish, requested, throttle_bytes_per_second=50))
        other = checked(acked(wish, requested, throttle_bytes_per_second=50, throttle_rows_per_second=1))

        assert pending.command.throttle is not None
        assert (pending.command.throttle.rows_per_second, pending.command.throttle.bytes_per_second) == (None, 50)
        assert conditions(requested.status)["Throttled"] == "False"
        assert (conditions(done.status)["Throttled"], sent(done)) == ("True", [])
        assert sent(other) == [(2, "Throttle")]

    def test_a_limit_of_bytes_in_an_override_is_ignored_for_a_source_without_files(self) -> None:
        """The driver would reject it again and again; the event names the field."""
        annotations = {"backfill.dev/override": '{"throttle":{"bytesPerSecond":5}}'}
        of_topic = BackfillSpec.model_validate(of_a_topic())
        decision = checked(replace(UP, spec=of_topic, annotations=annotations))

        (event,) = [event for event in decision.events if event.reason == "OverrideIgnored"]
        assert "throttle.bytesPerSecond is a limit of the bytes of files" in event.message
        assert sent(decision) == []


class TestRequests:
    """A new annotation value requests one receipt or one restart."""

    def test_the_next_driver_takes_a_receipt_that_is_still_missing(self) -> None:
        """The command has a new number; a pause of the old driver is not repeated."""
        wish = replace(UP, spec=PAUSED, annotations={"backfill.dev/verify-requested": "today"})
        lost = checked(after(wish, checked(wish), pods=(ended(137),), report=None))
        again = checked(after(wish, lost, pods=(running(2),), report=report(2, paused="History", revision=5)))

        assert sent(again) == [(6, "Verify")]

    def test_a_receipt_is_requested_once(self) -> None:
        """The operator may read the annotation many times."""
        wish = replace(UP, annotations={"backfill.dev/verify-requested": "today"})
        requested = checked(wish)
        done = checked(acked(wish, requested))

        assert sent(requested) == [(1, "Verify")]
        assert sent(checked(after(wish, done, report=report(revision=1)))) == []

    def test_a_restart_is_a_stop_and_another_attempt(self) -> None:
        """The stop happens at a barrier and is no failure."""
        wish = replace(UP, annotations={"backfill.dev/restart-requested": "1"})
        stopping = checked(wish)
        stopped = checked(after(wish, stopping, pods=(ended(10),), report=None))
        again = checked(after(wish, stopped, pods=(ended(10),), report=None, live=True))

        assert sent(stopping) == [(1, "Stop")]
        assert (stopped.status.failures, stopped.requeue_after_s) == (0, 0)
        assert again.status.attempts == 2


class TestALagThatDoesNotFall:
    """The condition shows the rates that the driver reports with its warning."""

    @pytest.mark.parametrize(
        ("codes", "message"),
        [
            (("RetentionEnding", "NonConvergent"), "2 versions/s are made, 1 is applied"),
            (("RetentionEnding", "SomethingNewer"), ""),
            ((), ""),
        ],
    )
    def test_a_lag_is_explained_by_the_warning_with_its_code(self, codes: tuple[str, ...], message: str) -> None:
        """The message may be reworded, and older drivers send no codes."""
        warnings = ("version 3 is 6 days old", "2 versions/s are made, 1 is applied")
        decision = checked(replace(UP, report=report(non_convergent=True, warnings=warnings, warning_codes=codes)))

        condition = next(condition for condition in decision.status.conditions if condition.type == "NonConvergent")
        assert (condition.status, condition.message) == ("True", message)
