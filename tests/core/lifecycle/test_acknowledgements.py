"""The status lists the last commands with their latency, and the author that an annotation claims."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, observed, report, running, spec

from backfill_api.names import CHANGED_BY_ANNOTATION, OVERRIDE_ANNOTATION, RESTART_ANNOTATION
from backfill_api.status.progress import LimitInForce, Progress
from backfill_api.status.status import Acknowledgement, Control
from backfill_api.wire import Ack
from backfill_core.lifecycle.actions import Decision
from backfill_core.lifecycle.observation import Observation

UP = observed(status=STATUSES["running"], pods=(running(),), report=report(), finalizers=("backfill.dev/drain",))
PAUSED = spec(desiredState="Paused")
ANNA = '{"by": "anna", "note": "incident 4711", "time": "2026-11-26T21:37:02Z"}'


def control(decision: Decision) -> Control:
    """Return the control state."""
    assert decision.status.control is not None
    return decision.status.control


def changed(observation: Observation, claim: str, **fields: object) -> Observation:
    """Return the object after a request that changed it and claimed an author."""
    return replace(observation, annotations={**observation.annotations, CHANGED_BY_ANNOTATION: claim}, **fields)


def acknowledged(observation: Observation, decision: Decision, **progress: object) -> Observation:
    """Let the driver acknowledge every pending command."""
    acks = tuple(
        Ack(attempt=1, epoch=9, revision=wait.revision, outcome="Applied") for wait in control(decision).pending
    )
    newest = max(ack.revision for ack in acks)
    return after(observation, decision, report=report(acks=acks, **({"revision": newest} | progress)))


def acked(observation: Observation, at_ms: int = T0, **progress: object) -> Decision:
    """Decide about a change, and about the driver's acknowledgement of it."""
    return checked(acknowledged(observation, checked(observation, T0), **progress), at_ms)


class TestAcknowledgements:
    """Each confirmed command is listed once, with the time that it took."""

    def test_a_confirmed_command_has_its_latency(self) -> None:
        """The latency is that from the decision to the acknowledgement, not from the last time that it was sent."""
        [ack] = control(acked(replace(UP, spec=PAUSED), T0 + 640, paused="History")).acks

        assert (ack.revision, ack.type, ack.epoch, ack.ms, ack.by, ack.note) == (1, "Pause", 9, 640, "", "")
        assert ack.time == "2027-01-15T08:00:00Z"

    def test_a_command_of_an_earlier_build_has_no_latency(self) -> None:
        """A pending command that an earlier operator decided has no time."""
        wish = replace(UP, spec=PAUSED)
        decision = checked(wish)
        old = tuple(wait.model_copy(update={"time": None}) for wait in control(decision).pending)
        stored = decision.status.model_copy(update={"control": control(decision).model_copy(update={"pending": old})})

        [ack] = control(checked(acknowledged(wish, replace(decision, status=stored), paused="History"))).acks

        assert ack.ms is None

    def test_the_last_eight_are_kept(self) -> None:
        """An object is small, also after a thousand commands."""
        acks = tuple(Acknowledgement(revision=number, type="Verify", epoch=1, time="t") for number in range(1, 9))
        status = STATUSES["running"].model_copy(
            update={"control": Control(attempt=1, desired_revision=8, acked_revision=8, acks=acks)}
        )
        decision = acked(replace(UP, spec=PAUSED, status=status, report=report(revision=8)), paused="History")

        assert [ack.revision for ack in control(decision).acks] == [2, 3, 4, 5, 6, 7, 8, 9]

    def test_commands_of_earlier_attempts_stay_listed(self) -> None:
        """A restart of the driver is no reason to forget who paused the job."""
        first = acked(replace(UP, spec=PAUSED), paused="History")
        moved = first.status.model_copy(
            update={
                "attempt": first.status.attempt
                and first.status.attempt.model_copy(update={"number": 2, "pod_uid": None})
            }
        )
        second = checked(
            replace(UP, spec=PAUSED, status=moved, pods=(running(2),), report=report(2, paused="History", revision=1))
        )

        assert [ack.revision for ack in control(second).acks] == [1]


class TestClaims:
    """An annotation names the author of one change."""

    def test_a_command_carries_the_claim_of_the_change_that_caused_it(self) -> None:
        """A person on call asks first who did it, and why."""
        [ack] = control(acked(changed(UP, ANNA, spec=PAUSED), paused="History")).acks

        assert (ack.by, ack.note) == ("anna", "incident 4711")

    def test_a_later_change_of_somebody_else_does_not_carry_it(self) -> None:
        """The annotation stays on the object, and `kubectl edit` does not remove it."""
        wish = changed(UP, ANNA, spec=PAUSED)
        paused = acked(wish, paused="History")
        resumed = acked(after(replace(wish, spec=spec()), paused, report=report(paused="History", revision=1)))

        assert [(ack.type, ack.by) for ack in control(resumed).acks] == [("Pause", "anna"), ("Resume", "")]

    def test_the_same_author_claims_again_with_another_time(self) -> None:
        """The time makes an equal claim new."""
        wish = changed(UP, ANNA, spec=PAUSED)
        paused = acked(wish, paused="History")
        again = changed(wish, ANNA.replace(":02Z", ":59Z"), spec=spec())
        resumed = acked(after(again, paused, report=report(paused="History", revision=1)))

        assert [ack.by for ack in control(resumed).acks] == ["anna", "anna"]

    def test_a_change_without_a_command_uses_its_claim_up(self) -> None:
        """Otherwise the next change, of somebody else, would carry it."""
        idle = checked(changed(UP, ANNA))
        paused = acked(after(changed(UP, ANNA, spec=PAUSED), idle, report=report()), paused="History")

        assert [ack.by for ack in control(paused).acks] == [""]

    def test_a_claim_waits_while_the_driver_does_not_answer(self) -> None:
        """The command follows with the driver's next answer, and still has the author of the change."""
        silent = checked(changed(replace(UP, report=None), ANNA, spec=PAUSED))
        paused = acked(after(changed(UP, ANNA, spec=PAUSED), silent, report=report()), paused="History")

        assert [ack.by for ack in control(paused).acks] == ["anna"]

    def test_a_requested_end_carries_a_claim(self) -> None:
        """A restart is a command, too."""
        wish = changed(replace(UP, annotations={RESTART_ANNOTATION: "1"}), ANNA)

        [waiting] = control(checked(wish)).pending

        assert (waiting.command.type, waiting.by) == ("Stop", "anna")

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("anna", "not JSON"),
            ('["anna"]', "valid dictionary"),
            ('{"by": 7}', "by: "),
            (f'{{"by": "{"x" * 65}"}}', "by: "),
            ('{"note": "\\ud800"}', "not JSON"),
            ("[" * 100_000, "not JSON"),
        ],
    )
    def test_an_unreadable_claim_is_ignored_with_an_event(self, text: str, reason: str) -> None:
        """The pause counts, whoever asked for it."""
        wish = changed(UP, text, spec=PAUSED)
        decision = checked(wish)
        [event] = [note for note in decision.events if note.reason == "AnnotationIgnored"]
        [ack] = control(checked(acknowledged(wish, decision, paused="History"))).acks

        assert reason in event.message
        assert CHANGED_BY_ANNOTATION in event.message
        assert (ack.type, ack.by) == ("Pause", "")
        assert [note for note in checked(after(wish, decision)).events if note.reason == "AnnotationIgnored"] == []

    def test_a_claim_of_a_later_plug_in_is_read(self) -> None:
        """A plug-in of a later version may write more fields."""
        [ack] = control(acked(changed(UP, '{"by": "anna", "ticket": 3}', spec=PAUSED), paused="History")).acks

        assert ack.by == "anna"

    def test_a_claim_cannot_command_a_terminal(self) -> None:
        """A terminal obeys escape sequences in a name."""
        [ack] = control(
            acked(changed(UP, '{"by": "a\\u001b[2Jb", "note": "x\\ny"}', spec=PAUSED), paused="History")
        ).acks

        assert (ack.by, ack.note) == ("a [2Jb", "x y")


class TestTheLimitInForce:
    """The status shows the driver's limit, and where it was set."""

    def limit(self, decision: Decision) -> LimitInForce:
        """Return the limit of the status."""
        assert decision.status.progress is not None
        assert decision.status.progress.limit is not None
        return decision.status.progress.limit

    def test_an_override_is_named_with_its_author(self) -> None:
        """The frame shows `100,000 rows/s (override, anna)`."""
        wish = changed(replace(UP, annotations={OVERRIDE_ANNOTATION: '{"throttle": {"rowsPerSecond": 7}}'}), ANNA)
        reported = LimitInForce(rows_per_second=7, revision=1, origin="Command")

        limit = self.limit(acked(wish, throttle_rows_per_second=7, limit=reported))

        assert (limit.rows_per_second, limit.origin, limit.by, limit.revision) == (7, "Override", "anna", 1)

    def test_the_author_stays_when_the_command_is_no_longer_listed(self) -> None:
        """Eight later commands do not make the limit nobody's."""
        held = LimitInForce(rows_per_second=7, revision=1, origin="Override", by="anna")
        status = STATUSES["running"].model_copy(
            update={"progress": Progress(percent=40, limit=held), "control": Control(attempt=1, rows_per_second=7)}
        )
        reported = report(throttle_rows_per_second=7, limit=LimitInForce(rows_per_second=7, revision=1), revision=1)

        decision = checked(replace(UP, spec=spec(throttle={"rowsPerSecond": 7}), status=status, report=reported))

        assert (self.limit(decision).by, self.limit(decision).origin) == ("anna", "Spec")

    def test_the_limit_of_an_earlier_driver_is_shown(self) -> None:
        """An earlier driver reports the numbers, and not the command that set them."""
        wish = replace(UP, spec=spec(throttle={"rowsPerSecond": 7}), report=report(throttle_rows_per_second=7))

        assert self.limit(checked(wish)) == LimitInForce(rows_per_second=7, origin="Spec")

    def test_a_limit_of_another_program_is_a_command(self) -> None:
        """Somebody who reached the driver directly limited it; the operator corrects it."""
        limit = self.limit(checked(replace(UP, report=report(throttle_bytes_per_second=9))))

        assert (limit.bytes_per_second, limit.origin) == (9, "Command")

    def test_there_is_none_without_a_limit(self) -> None:
        """An absent limit is no limit of zero."""
        decision = checked(UP)

        assert decision.status.progress is not None
        assert decision.status.progress.limit is None
