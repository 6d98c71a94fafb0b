"""Commands: one revision each, on record before they are sent, repeated until acknowledged, repaired when they are lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.crd_rows import of_a_topic
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import (
    T0,
    after,
    checked,
    conditions,
    ended,
    observed,
    reason,
    report,
    running,
    spec,
)

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import Control, PendingCommand
from backfill_api.wire import Ack, Command
from backfill_core.lifecycle.actions import Decision, PersistIntent, SendCommand
from backfill_core.lifecycle.observation import Observation

UP = observed(status=STATUSES["running"], pods=(running(),), report=report(), finalizers=("backfill.dev/drain",))
PAUSED = spec(desiredState="Paused")
RESUME = Command(type="Resume")


def sent(decision: Decision) -> list[tuple[int, str]]:
    """Return what is sent: revision and type."""
    return [
        (one.request.revision, one.request.command.type) for one in decision.actions if isinstance(one, SendCommand)
    ]


def control(decision: Decision) -> Control:
    """Return the control state."""
    assert decision.status.control is not None
    return decision.status.control


def acked(observation: Observation, decision: Decision, **progress: object) -> Observation:
    """Let the driver acknowledge everything that waits."""
    acks = tuple(Ack(attempt=1, epoch=9, revision=one.revision, outcome="Applied") for one in control(decision).pending)
    newest = max((one.revision for one in acks), default=0)
    return after(observation, decision, report=report(acks=acks, **({"revision": newest} | progress)))


class TestACommand:
    """From the spec to the condition."""

    def test_is_on_record_before_it_is_sent(self) -> None:
        """An operator that dies in between sends the same command under the same number."""
        decision = checked(replace(UP, spec=PAUSED))
        again = checked(after(replace(UP, spec=PAUSED), decision))

        assert isinstance(decision.actions[0], PersistIntent)
        assert sent(decision) == sent(again) == [(1, "Pause")]
        assert control(decision).desired_revision == control(again).desired_revision == 1
        assert not isinstance(again.actions[0], PersistIntent)
        assert decision.status.phase == "Pausing"
        assert conditions(decision.status)["ControlSynced"] == "False"

    def test_is_in_force_when_the_driver_acknowledged_it(self) -> None:
        """Not when it was sent, and not when the driver shows it before its commit."""
        wish = replace(UP, spec=PAUSED)
        asked = checked(wish)
        shown = checked(after(wish, asked, report=report(paused="History", revision=1)))
        done = checked(acked(wish, asked, paused="History"))

        assert conditions(shown.status)["Paused"] == "False"
        assert conditions(done.status)["Paused"] == "True"
        assert reason(done.status) == "AsRequested"
        assert (done.status.phase, control(done).acked_revision, control(done).epoch) == ("Paused", 1, 9)

    @pytest.mark.parametrize("forged", [2**33, 2**52, 2**53 - 1])
    @pytest.mark.parametrize("field", ["desired_revision", "acked_revision", "pending"])
    def test_has_a_number_also_where_a_person_gave_one_to_the_status(self, field: str, forged: int) -> None:
        """No number was left for the next command, so the object was never decided again (fault S10)."""
        edited = {field: forged} if field != "pending" else {field: (PendingCommand(revision=forged, command=RESUME),)}
        status = STATUSES["running"].model_copy(update={"control": Control(attempt=1, **edited)})

        decision = checked(replace(UP, spec=PAUSED, status=status))

        assert sent(decision) == [(1, "Pause")]
        assert (control(decision).desired_revision, control(decision).acked_revision) == (1, 0)

    def test_pause_and_limit_at_once_are_two_revisions(self) -> None:
        """Each is acknowledged for itself."""
        decision = checked(replace(UP, spec=spec(desiredState="Paused", throttle={"rowsPerSecond": 3})))

        assert sent(decision) == [(1, "Pause"), (2, "Throttle")]
        assert control(decision).desired_revision == 2

    def test_a_change_of_mind_takes_the_place_of_what_waits(self) -> None:
        """Under a newer number, because the older one may have arrived."""
        wish = replace(UP, spec=PAUSED)
        asked = checked(wish)
        back = checked(replace(after(wish, asked), spec=spec()))

        assert sent(back) == [(2, "Resume")]

    def test_that_is_late_is_reported_as_late(self) -> None:
        """It is sent again, and the driver goes on: a slow commit is no reason to lose work."""
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
    def test_is_late_after_three_commits_but_not_before_half_a_minute(
        self, barrier: dict[str, int], late_s: int
    ) -> None:
        """Where a commit comes every minute, an acknowledgement cannot come sooner."""
        wish = replace(UP, spec=spec(desiredState="Paused", barrier=barrier))
        waiting = after(wish, checked(wish))

        assert reason(checked(waiting, T0 + late_s * 1000 - 1).status, "ControlSynced") == "AcknowledgementPending"
        assert reason(checked(waiting, T0 + late_s * 1000).status, "ControlSynced") == "AcknowledgementTimeout"

    def test_of_an_older_attempt_does_not_count(self) -> None:
        """Its report and acknowledgements are about another driver."""
        acks = (Ack(attempt=7, epoch=9, revision=1, outcome="Applied"),)
        wish = replace(UP, spec=PAUSED)
        asked = checked(wish)

        foreign = checked(after(wish, asked, report=report(acks=acks)))
        other = checked(after(wish, asked, report=report(7, paused="History")))

        assert control(foreign).acked_revision == control(other).acked_revision == 0
        assert sent(other) == []


class TestDrift:
    """What the driver reports counts, not what it was commanded."""

    def test_another_senders_command_is_taken_back(self) -> None:
        """Under a revision above theirs, or the driver would call it superseded."""
        decision = checked(replace(UP, report=report(paused="All", revision=40)))

        assert sent(decision) == [(41, "Resume")]

    def test_a_superseded_command_is_asked_for_again(self) -> None:
        """A re-created Backfill starts to count at one; the target's state has counted on."""
        wish = replace(UP, spec=PAUSED)
        asked = checked(wish)
        acks = (Ack(attempt=1, epoch=9, revision=1, outcome="Superseded"),)
        again = checked(after(wish, asked, report=report(revision=40, acks=acks)))

        assert sent(again) == [(41, "Pause")]

    @pytest.mark.parametrize(
        ("wish", "word"),
        [
            (replace(UP, annotations={"backfill.dev/verify-requested": "today"}), "Verify"),
            (replace(UP, spec=spec(suspend=True)), "Stop"),
        ],
    )
    def test_a_superseded_stop_or_receipt_is_asked_for_again(self, wish: Observation, word: str) -> None:
        """It leaves nothing behind that could be compared, so the answer itself counts."""
        asked = checked(wish)
        acks = (Ack(attempt=1, epoch=9, revision=1, outcome="Superseded"),)
        again = checked(after(wish, asked, report=report(revision=40, acks=acks)))

        assert sent(asked) == [(1, word)]
        assert sent(again) == [(41, word)]

    def test_a_report_from_before_the_acknowledgement_is_no_drift(self) -> None:
        """The progress may be older than the answer to the command."""
        wish = replace(UP, spec=PAUSED)
        asked = checked(wish)
        decision = checked(acked(wish, asked, paused=None, revision=0))

        assert sent(decision) == []
        assert decision.status.phase == "Paused"
        assert conditions(decision.status).items() >= {"Paused": "True", "Ready": "True"}.items()

    def test_a_restart_of_the_operator_changes_nothing_that_people_see(self) -> None:
        """The driver has not reported to it yet; the status has what the one before knew."""
        wish = replace(UP, spec=PAUSED)
        paused = checked(acked(wish, checked(wish), paused="History"))
        restarted = checked(after(wish, paused, report=None))

        assert restarted.status == paused.status

    def test_a_target_that_was_made_anew_is_steered_too(self) -> None:
        """Its state counts from zero, below what was once acknowledged."""
        old = Control(desired_revision=9, acked_revision=9, attempt=0)
        status = STATUSES["running"].model_copy(update={"control": old})

        decision = checked(replace(UP, status=status, spec=PAUSED, report=report(revision=0)))

        assert sent(decision) == [(10, "Pause")]


class TestTheOverride:
    """An emergency brake that a GitOps tool does not undo."""

    def test_is_above_the_spec_and_shows_in_the_reason(self) -> None:
        """So that people see why the manifest does not count."""
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
    def test_that_cannot_be_read_is_ignored_as_a_whole(self, text: str) -> None:
        """With an event; the spec stays in force."""
        decision = checked(replace(UP, annotations={"backfill.dev/override": text}))

        assert [one.reason for one in decision.events if one.reason == "OverrideIgnored"] == ["OverrideIgnored"]
        assert sent(decision) == []

    def test_may_take_a_limit_away(self) -> None:
        """null is a value there."""
        annotations = {"backfill.dev/override": '{"throttle":{"rowsPerSecond":null}}'}
        wish = replace(UP, spec=spec(throttle={"rowsPerSecond": 5}), annotations=annotations)

        assert sent(checked(replace(wish, report=report(throttle_rows_per_second=5)))) == [(1, "Throttle")]
        assert sent(checked(wish)) == []


class TestALimitOfBytes:
    """Beside one of rows, by the same way."""

    def test_is_sent_acknowledged_and_in_force(self) -> None:
        """What the driver reports is compared as a pair."""
        wish = replace(UP, spec=spec(throttle={"bytesPerSecond": 50}))
        asked = checked(wish)
        (one,) = control(asked).pending
        done = checked(acked(wish, asked, throttle_bytes_per_second=50))
        other = checked(acked(wish, asked, throttle_bytes_per_second=50, throttle_rows_per_second=1))

        assert one.command.throttle is not None
        assert (one.command.throttle.rows_per_second, one.command.throttle.bytes_per_second) == (None, 50)
        assert conditions(asked.status)["Throttled"] == "False"
        assert (conditions(done.status)["Throttled"], sent(done)) == ("True", [])
        assert sent(other) == [(2, "Throttle")]

    def test_of_an_override_is_ignored_where_the_source_has_no_files(self) -> None:
        """The driver would refuse it again and again; the event names the field."""
        annotations = {"backfill.dev/override": '{"throttle":{"bytesPerSecond":5}}'}
        of_topic = BackfillSpec.model_validate(of_a_topic())
        decision = checked(replace(UP, spec=of_topic, annotations=annotations))

        (event,) = [one for one in decision.events if one.reason == "OverrideIgnored"]
        assert "throttle.bytesPerSecond is a limit of the bytes of files" in event.message
        assert sent(decision) == []


class TestRequests:
    """Verify and restart: once for each new text."""

    def test_a_receipt_that_was_not_taken_is_taken_by_the_next_driver(self) -> None:
        """Under a new number; a pause of the old one is not carried along."""
        wish = replace(UP, spec=PAUSED, annotations={"backfill.dev/verify-requested": "today"})
        lost = checked(after(wish, checked(wish), pods=(ended(137),), report=None))
        again = checked(after(wish, lost, pods=(running(2),), report=report(2, paused="History", revision=5)))

        assert sent(again) == [(6, "Verify")]

    def test_a_receipt_is_asked_for_once(self) -> None:
        """However often the annotation is seen."""
        wish = replace(UP, annotations={"backfill.dev/verify-requested": "today"})
        asked = checked(wish)
        done = checked(acked(wish, asked))

        assert sent(asked) == [(1, "Verify")]
        assert sent(checked(after(wish, done, report=report(revision=1)))) == []

    def test_a_restart_is_a_stop_and_another_attempt(self) -> None:
        """At a barrier, and no failure."""
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
    def test_is_explained_by_the_warning_with_its_code(self, codes: tuple[str, ...], message: str) -> None:
        """The message may be reworded without harm, and older drivers send no codes."""
        warnings = ("version 3 is 6 days old", "2 versions/s are made, 1 is applied")
        decision = checked(replace(UP, report=report(non_convergent=True, warnings=warnings, warning_codes=codes)))

        condition = next(one for one in decision.status.conditions if one.type == "NonConvergent")
        assert (condition.status, condition.message) == ("True", message)
