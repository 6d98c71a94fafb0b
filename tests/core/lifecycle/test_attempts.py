"""Attempts: on record before they are made, one at a time, classified by how their pods ended, repeated within limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import (
    T0,
    after,
    checked,
    conditions,
    ended,
    observed,
    pod,
    reason,
    report,
    running,
    spec,
)

from backfill_api.status.ending import Ending
from backfill_api.status.progress import ProgressSummary
from backfill_api.status.receipt import ReceiptSummary
from backfill_api.status.status import BackfillStatus
from backfill_core import errors
from backfill_core.lifecycle.actions import (
    DeleteAttemptObjects,
    DeletePod,
    EnsureObjects,
    LaunchDriver,
    PersistIntent,
    RefetchPods,
)
from backfill_core.lifecycle.observation import LaunchFailed, SpecRefused

OURS, THEIRS = "0f" * 16, "1e" * 16


def minutes_later(minutes: float) -> int:
    return T0 + round(minutes * 60_000)


class TestTheFirstLaunch:
    """One write, one pod: the launch must be as quick as it is safe."""

    def test_is_on_record_before_anything_is_made(self) -> None:
        """The status says Planned under the observed resourceVersion, then the driver is launched; no other request is needed."""
        decision = checked(observed())

        assert decision.actions == (PersistIntent(), LaunchDriver(1, "Run"))
        assert decision.status.attempt is not None
        assert decision.status.attempt.state == "Planned"
        assert decision.status.attempt.pod_name == "orders-1-driver"
        assert decision.status.phase == "Launching"

    def test_starts_with_the_controls_of_spec_and_override(self) -> None:
        """A job that is created paused never runs a split."""
        annotations = {"backfill.dev/override": '{"throttle":{"rowsPerSecond":7}}'}
        paused = spec(desiredState="Paused", pause={"scope": "All"})

        decision = checked(observed(spec=paused, annotations=annotations))

        assert decision.actions[1] == LaunchDriver(1, "Run", "All", 7)

    def test_an_answer_that_was_lost_is_repaired_by_the_same_name(self) -> None:
        """A planned attempt without a pod is launched again, fenced; 'already exists' leads to a refetch and an adoption."""
        planned = observed(status=STATUSES["planned"])
        again = checked(planned)
        taken = checked(after(planned, again, launch_failed=LaunchFailed(1, T0, 409, "AlreadyExists")))
        found = checked(after(planned, again, pods=(pod(),), live=True))

        assert again.actions == (PersistIntent(), LaunchDriver(1, "Run"))
        assert taken.actions == (RefetchPods("orders-1-driver"),)
        assert found.status.attempt is not None
        assert (found.status.attempt.state, found.status.attempt.pod_uid) == ("Created", "pod-1")

    def test_a_status_that_was_lost_is_read_off_the_pods(self) -> None:
        """After the restore of an old backup the driver that runs is the current attempt, not a second one."""
        decision = checked(observed(status=BackfillStatus(), pods=(running(4),)))

        assert decision.status.attempt is not None
        assert decision.status.attempt.number == 4
        assert decision.status.phase == "Running"


class TestTheTokenOfAnAttempt:
    """Its hash is on record before any Secret has it, so a forged Secret is recognized."""

    def test_is_on_record_with_the_attempt(self) -> None:
        """In the same write."""
        decision = checked(observed(token_hash=OURS))

        assert decision.actions == (PersistIntent(), LaunchDriver(1, "Run", token_hashes=(OURS,)))
        assert decision.status.attempt is not None
        assert decision.status.attempt.token_hashes == (OURS,)

    def test_of_an_operator_that_is_no_more_stays_good(self) -> None:
        """It may have made the Secret; so may its successor, once."""
        first = observed(token_hash=OURS)
        second = checked(after(first, checked(first), token_hash=THEIRS))
        again = checked(after(first, second, token_hash=THEIRS))

        for one in (second, again):
            assert one.actions == (PersistIntent(), LaunchDriver(1, "Run", token_hashes=(OURS, THEIRS)))
            assert one.status.attempt is not None
            assert one.status.attempt.token_hashes == (OURS, THEIRS)

    def test_is_no_more_of_too_many(self) -> None:
        """An operator that dies at each launch fills no status."""
        decision = checked(observed(token_hash=OURS))
        for number in range(20):
            decision = checked(after(observed(), decision, token_hash=f"{number:032x}"))
        assert decision.status.attempt is not None
        assert decision.status.attempt.token_hashes == tuple(f"{number:032x}" for number in range(12, 20))

    def test_is_asked_of_no_attempt_of_an_earlier_version(self) -> None:
        """The token of its Secret is not on record, and the Secret must stay good."""
        decision = checked(observed(status=STATUSES["planned"], token_hash=OURS))

        assert decision.actions == (PersistIntent(), LaunchDriver(1, "Run"))

    def test_is_another_one_of_the_next_attempt(self) -> None:
        """A token that leaked with one attempt must not open the next."""
        failed = checked(observed(status=STATUSES["failed"], generation=2, live=True, token_hash=THEIRS))

        assert failed.actions == (PersistIntent(), LaunchDriver(2, "Run", token_hashes=(THEIRS,)))


class TestHowAnAttemptEnds:
    """The exit code counts first, then what the node reports."""

    @pytest.mark.parametrize("kind", [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.BackfillError) and one.exit_code >= 20])  # fmt: skip
    def test_every_error_of_the_driver_is_known(self, kind: type[errors.BackfillError]) -> None:
        """By the reason in its termination message; retried exactly when the error says so."""
        ending = Ending(outcome="Failed", reason=kind.reason, message="because", hint="Do this.")

        decision = checked(observed(status=STATUSES["running"], pods=(ended(kind.exit_code, ending=ending),)))

        assert decision.status.history[-1].reason == kind.reason
        assert decision.status.history[-1].exit_code == kind.exit_code
        assert decision.status.phase == ("Retrying" if kind.retryable else "Failed")
        assert "because Do this." in decision.status.conditions[0].message

    @pytest.mark.parametrize(
        ("one", "word", "phase"),
        [
            (ended(None, reason="Evicted", message="low on memory"), "Infrastructure", "Retrying"),
            (ended(None, reason="NodeLost"), "Infrastructure", "Retrying"),
            (ended(None, disrupted=True), "Infrastructure", "Retrying"),
            (ended(137, oom_killed=True), "Infrastructure", "Retrying"),
            (ended(64, oom_killed=True), "Infrastructure", "Retrying"),
            (ended(64), "JavaDied", "Retrying"),
            (ended(40, oom_killed=True), "StateMismatch", "Failed"),
            (ended(143), "Infrastructure", "Retrying"),
            (ended(1), "Unexpected", "Retrying"),
            (ended(79), "Unexpected", "Retrying"),
            (ended(59), "Unexpected", "Failed"),
            (ended(2), "SubmissionFailed", "Failed"),
            (ended(128, reason="StartError"), "SubmissionFailed", "Failed"),
            (ended(10), "Stopped", "Retrying"),
            (ended(40, disrupted=True), "StateMismatch", "Failed"),
            (ended(0), "Complete", "Succeeded"),
        ],
    )
    def test_a_death_has_one_reason(self, one: object, word: str, phase: str) -> None:
        """And the attempt's objects go before its end is on record."""
        decision = checked(observed(status=STATUSES["running"], pods=(one,)))

        assert decision.status.history[-1].reason == word
        assert decision.status.phase == phase
        assert decision.actions[0] == DeleteAttemptObjects(1)

    @pytest.mark.parametrize("code", [137, 64, 1])
    def test_one_for_want_of_memory_says_what_to_raise(self, code: int) -> None:
        """A node kills all of a container or its largest process; then the driver's own word is only that Java is gone."""
        own = Ending(outcome="Failed", reason="JavaDied", message="Java is gone", hint="Look at its log.")
        one = ended(code, oom_killed=True, reason="OOMKilled", ending=own if code == 64 else None)

        decision = checked(observed(status=STATUSES["running"], pods=(one,)))

        message = next(one.message for one in decision.status.conditions if one.type == "Reconciling")
        assert "OOMKilled: the driver's container ran out of memory" in message
        assert "driver.resources.limits.memory" in message

    @pytest.mark.parametrize("code", [10, 137, 143])
    def test_one_by_its_node_has_the_words_of_the_node(self, code: int) -> None:
        """The driver was told to stop, and says no more than that."""
        own = Ending(outcome="Stopped", reason="Stopped", message="stopped at a barrier")
        one = ended(code, reason="Evicted", message="it used more than 64Mi of the disk", ending=own)

        decision = checked(observed(status=STATUSES["running"], pods=(one,)))

        message = next(one.message for one in decision.status.conditions if one.type == "Reconciling")
        assert "Evicted: it used more than 64Mi of the disk" in message

    def test_its_termination_message_is_kept(self) -> None:
        """They are in the pod, so an operator that was away reads them too."""
        ending = Ending(
            outcome="Complete", progress=ProgressSummary(percent=100, rows_done=9, rows_per_second=5),
            receipt=ReceiptSummary(source_version=3, target_version=4, rows=9),
        )  # fmt: skip

        decision = checked(observed(status=STATUSES["running"], pods=(ended(0, ending=ending),)))

        assert decision.status.progress == ProgressSummary(percent=100, rows_done=9)
        assert decision.status.receipt is not None
        decision = checked(after(observed(), decision))
        assert conditions(decision.status)["Verified"] == "True"

    def test_its_percent_never_falls(self) -> None:
        """R-PROG-4: of a driver that was killed in its receipt, which commits nothing, and of the one after it."""
        seen = ProgressSummary(percent=80, rows_done=9)
        running = STATUSES["running"].model_copy(update={"progress": seen})
        again, other = ProgressSummary(percent=60, rows_done=9), ProgressSummary(percent=1, rows_done=2)
        told = {}
        for one in (again, other):
            ending = Ending(outcome="Stopped", reason="Stopped", message="stopped at a barrier", progress=one)
            told[one.percent] = checked(observed(status=running, pods=(ended(0, ending=ending),))).status.progress

        assert told == {60: seen, 1: other}

    def test_a_pod_that_is_not_seen_is_looked_for(self) -> None:
        """After a grace, live; only then it is lost."""
        up = observed(status=STATUSES["running"])
        unseen = checked(up)
        waiting = checked(after(up, unseen), T0 + 3_000)
        late = checked(after(up, waiting), T0 + 6_000)
        gone = checked(after(up, waiting, live=True), T0 + 6_000)
        back = checked(after(up, waiting, pods=(running(),), report=report(), live=True), T0 + 6_000)

        assert reason(unseen.status) == reason(waiting.status) == "DriverMissing"
        assert late.actions == (RefetchPods("orders-1-driver"),)
        assert gone.status.history[-1].reason == "Infrastructure"
        assert back.status.phase == "Running"

    def test_one_that_is_stuck_on_a_lost_node_is_removed(self) -> None:
        """A minute after its grace; the target's fence is the second wall."""
        stuck = running(ready=False, deletion_ms=T0)
        observation = observed(status=STATUSES["running"], pods=(stuck,), finalizers=("backfill.dev/drain",))

        assert checked(observation, T0 + 59_000).actions == ()
        assert checked(observation, T0 + 61_000).actions == (DeletePod("orders-1-driver", "pod-1", 0),)


class TestTryingAgain:
    """Within the limits of the spec."""

    def test_waits_longer_each_time_and_then_gives_up(self) -> None:
        """Doubled, at most the maximum, less up to a fifth; the next attempt only after a refetch of the pods."""
        wish = spec(backoffLimit=3, backoff={"initialSeconds": 10, "maxSeconds": 30})
        now_ms, waits = T0, []
        observation = observed(spec=wish)
        for attempt in range(1, 5):
            decision = checked(after(observation, checked(observation, now_ms), pods=(ended(137, attempt),)), now_ms)
            if attempt == 4:
                break
            assert decision.requeue_after_s is not None
            waits.append(decision.requeue_after_s)
            early = checked(after(observation, decision), now_ms + round(waits[-1] * 1000) - 1)
            assert early.status.phase == "Retrying"
            now_ms += round(waits[-1] * 1000)
            assert checked(after(observation, decision), now_ms).actions == (
                RefetchPods(f"orders-{attempt + 1}-driver"),
            )
            observation = after(observation, decision, live=True)

        assert [low <= wait <= high for wait, low, high in zip(waits, (8, 16, 24), (10, 20, 30), strict=True)] == [
            True
        ] * 3
        assert reason(decision.status, "Failed") == "BackoffLimitExceeded"
        assert "Infrastructure" in decision.status.conditions[0].message

    def test_an_attempt_that_ran_for_an_hour_starts_the_count_anew(self) -> None:
        """A job that follows for months survives more than four evictions."""
        status = STATUSES["running"].model_copy(update={"failures": 3})

        decision = checked(observed(status=status, pods=(ended(137),)), minutes_later(61))

        assert decision.status.failures == 1
        assert decision.status.phase == "Retrying"

    def test_objects_are_kept_while_a_driver_runs_and_no_longer(self) -> None:
        """New executors find it by its Service; one that stops needs none, and nothing reads them before a node has its pod."""
        kept = EnsureObjects(LaunchDriver(1, "Run"))
        up = observed(status=STATUSES["running"], pods=(running(),), report=report())
        stopping = replace(up, spec=spec(suspend=True))
        going = replace(up, pods=(running(deletion_ms=T0),))
        over = replace(up, pods=(ended(137),))
        unreadable = replace(up, spec=SpecRefused(("spec: no",)))
        without_node = observed(status=STATUSES["starting"], pods=(pod(unscheduled="0/3 nodes"),))
        with_node = replace(without_node, pods=(pod(scheduled=True),))

        assert kept in checked(up).actions
        assert kept in checked(with_node).actions
        for one in (stopping, going, over, unreadable, without_node):
            assert kept not in checked(one).actions

    def test_a_driver_that_does_not_start_ends_in_time(self) -> None:
        """Another attempt may find a node; no attempt finds an image that is not there."""
        starting = observed(status=STATUSES["starting"], pods=(pod(scheduled=True),))
        late = checked(starting, minutes_later(11))
        no_image = pod(waiting="ErrImagePull", waiting_message="not found: x")
        hopeless = after(starting, checked(starting), pods=(no_image,))
        expected = checked(hopeless, minutes_later(11))
        over = checked(after(hopeless, expected, pods=(), live=True), minutes_later(12))

        assert reason(checked(starting).status) == "Launching"
        assert reason(late.status) == "StartupTimeout"
        assert DeletePod("orders-1-driver", "pod-1", 60) in late.actions
        assert reason(over.status, "Failed") == "SubmissionFailed"
        assert "not found: x" in over.status.conditions[0].message

    @pytest.mark.parametrize(
        ("state", "message"),
        [
            ({"scheduled": True}, "a volume, Secret or ConfigMap"),
            ({"scheduled": True, "phase": "Running"}, "kubectl logs orders-1-driver"),
        ],
    )
    def test_one_that_started_too_late_says_where_to_look(self, state: dict[str, object], message: str) -> None:
        """A pod that waits for a volume says nothing but ContainerCreating; its events do."""
        starting = observed(status=STATUSES["starting"], pods=(pod(**state),))
        late = checked(after(starting, checked(starting)), minutes_later(11))
        going = checked(after(starting, late, pods=(pod(deletion_ms=T0, **state),)), minutes_later(11))
        over = checked(after(starting, going, pods=(), live=True), minutes_later(12))

        for decision in (late, going, over):
            assert message in next(one for one in decision.status.conditions if one.type == "Reconciling").message

    def test_a_deadline_stops_at_a_barrier_and_fails(self) -> None:
        """Told by command, not by a kill."""
        up = observed(
            status=STATUSES["running"], spec=spec(activeDeadlineSeconds=30), pods=(running(),), report=report()
        )
        stopping = checked(up)
        over = checked(after(up, stopping, pods=(ended(10),), report=None))

        assert [one.request.command.type for one in stopping.actions[1:2]] == ["Stop"]
        assert reason(over.status, "Failed") == "DeadlineExceeded"

    def test_a_failed_job_is_taken_up_when_its_spec_is_edited(self) -> None:
        """A user who raised a limit expects another attempt; a complete job stays complete."""
        failed = observed(status=STATUSES["failed"], generation=2, live=True)
        complete = observed(status=STATUSES["complete"], generation=2, live=True)

        assert checked(failed).actions == (PersistIntent(), LaunchDriver(2, "Run"))
        assert checked(failed).status.failures == 0
        assert checked(complete).status.phase == "Succeeded"

    def test_a_failed_job_is_taken_up_once_when_a_restart_is_requested(self) -> None:
        """Its cause was mended outside of the spec: a grant, a table. One text asks for one attempt."""
        asked = {"backfill.dev/restart-requested": "1"}
        failed = observed(status=STATUSES["failed"], annotations=asked, live=True)
        again = checked(failed)
        over = checked(after(failed, again, pods=(ended(40, 2),), live=True))
        rests = checked(after(failed, over, pods=(), live=True))
        complete = observed(status=STATUSES["complete"], annotations=asked, live=True)

        assert again.actions == (PersistIntent(), LaunchDriver(2, "Run"))
        assert (over.status.phase, rests.status.phase) == ("Failed", "Failed")
        assert rests.status.attempts == 2
        assert checked(complete).status.phase == "Succeeded"

    def test_a_later_attempt_looks_at_the_pods_themselves(self) -> None:
        """The cache may not show yet that the driver before it still runs."""
        failed = observed(status=STATUSES["failed"], generation=2, live=False)

        assert checked(failed).actions == (RefetchPods("orders-2-driver"),)

    @pytest.mark.parametrize(("retain", "kept"), [("Always", (0, 40, 137)), ("OnFailure", (40, 137)), ("Never", ())])
    def test_pods_are_kept_as_the_spec_says(self, retain: str, kept: tuple[int, ...]) -> None:
        """Once their end is on record, not before."""
        for code in (0, 40, 137):
            observation = observed(status=STATUSES["running"], spec=spec(retainDriver=retain), pods=(ended(code),))
            first = checked(observation)
            second = checked(after(observation, first))
            assert not any(isinstance(one, DeletePod) for one in first.actions)
            assert any(isinstance(one, DeletePod) for one in second.actions) is (code not in kept)
