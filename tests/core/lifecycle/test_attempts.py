"""Attempts: recorded before they are launched, one at a time, classified by how their pods ended, repeated within
limits."""

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


def minutes_later(minutes: float) -> int:
    return T0 + round(minutes * 60_000)


class TestTheFirstLaunch:
    """A launch takes one write and one pod: it is as fast as it is safe."""

    def test_the_first_launch_is_recorded_before_anything_is_created(self) -> None:
        """The status is set to Planned under the observed resourceVersion, then the driver is launched; no other
        request is needed."""
        decision = checked(observed())

        assert decision.actions == (PersistIntent(), LaunchDriver(1, "Run"))
        assert decision.status.attempt is not None
        assert decision.status.attempt.state == "Planned"
        assert decision.status.attempt.pod_name == "orders-1-driver"
        assert decision.status.phase == "Launching"

    def test_the_first_launch_uses_the_controls_of_spec_and_override(self) -> None:
        """A job that is created paused never runs a split."""
        annotations = {"backfill.dev/override": '{"throttle":{"rowsPerSecond":7}}'}
        paused = spec(desiredState="Paused", pause={"scope": "All"})

        decision = checked(observed(spec=paused, annotations=annotations))

        assert decision.actions[1] == LaunchDriver(1, "Run", "All", 7)

    def test_a_lost_response_is_repaired_by_the_same_name(self) -> None:
        """The operator launches a planned attempt without a pod again, fenced; 'already exists' leads to a refetch and
        an adoption."""
        planned = observed(status=STATUSES["planned"])
        again = checked(planned)
        taken = checked(after(planned, again, launch_failed=LaunchFailed(1, T0, 409, "AlreadyExists")))
        adopted = checked(after(planned, again, pods=(pod(),), live=True))

        assert again.actions == (PersistIntent(), LaunchDriver(1, "Run"))
        assert taken.actions == (RefetchPods("orders-1-driver"),)
        assert adopted.status.attempt is not None
        assert (adopted.status.attempt.state, adopted.status.attempt.pod_uid) == ("Created", "pod-1")

    def test_a_lost_status_is_rebuilt_from_the_pods(self) -> None:
        """After the restore of an old backup, the running driver becomes the current attempt, not a second one."""
        decision = checked(observed(status=BackfillStatus(), pods=(running(4),)))

        assert decision.status.attempt is not None
        assert decision.status.attempt.number == 4
        assert decision.status.phase == "Running"


class TestHowAnAttemptEnds:
    """The exit code of the driver takes precedence over the report of the node."""

    @pytest.mark.parametrize("kind", [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.BackfillError) and error.exit_code >= 20])  # fmt: skip
    def test_every_error_of_the_driver_is_classified(self, kind: type[errors.BackfillError]) -> None:
        """The reason in the termination message identifies the error; the attempt is retried exactly when the error is
        retryable."""
        ending = Ending(outcome="Failed", reason=kind.reason, message="because", hint="Do this.")

        decision = checked(observed(status=STATUSES["running"], pods=(ended(kind.exit_code, ending=ending),)))

        assert decision.status.history[-1].reason == kind.reason
        assert decision.status.history[-1].exit_code == kind.exit_code
        assert decision.status.phase == ("Retrying" if kind.retryable else "Failed")
        assert "because Do this." in decision.status.conditions[0].message

    @pytest.mark.parametrize(
        ("driver_pod", "word", "phase"),
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
            (ended(2), "SubmissionFailed", "Failed"),
            (ended(128, reason="StartError"), "SubmissionFailed", "Failed"),
            (ended(10), "Stopped", "Retrying"),
            (ended(40, disrupted=True), "StateMismatch", "Failed"),
            (ended(0), "Complete", "Succeeded"),
        ],
    )
    def test_each_end_of_a_pod_has_one_reason(self, driver_pod: object, word: str, phase: str) -> None:
        """The objects of the attempt are deleted before its end is recorded."""
        decision = checked(observed(status=STATUSES["running"], pods=(driver_pod,)))

        assert decision.status.history[-1].reason == word
        assert decision.status.phase == phase
        assert decision.actions[0] == DeleteAttemptObjects(1)

    @pytest.mark.parametrize("code", [137, 64, 1])
    def test_an_end_for_lack_of_memory_names_the_limit_to_raise(self, code: int) -> None:
        """A node kills the whole container or its largest process; in the second case the driver only reports that Java
        is gone."""
        own = Ending(outcome="Failed", reason="JavaDied", message="Java is gone", hint="Look at its log.")
        driver_pod = ended(code, oom_killed=True, reason="OOMKilled", ending=own if code == 64 else None)

        decision = checked(observed(status=STATUSES["running"], pods=(driver_pod,)))

        message = next(condition.message for condition in decision.status.conditions if condition.type == "Reconciling")
        assert "OOMKilled: the driver's container ran out of memory" in message
        assert "driver.resources.limits.memory" in message

    @pytest.mark.parametrize("code", [10, 137, 143])
    def test_an_end_by_the_node_has_the_message_of_the_node(self, code: int) -> None:
        """The driver only reports that it received a stop signal."""
        own = Ending(outcome="Stopped", reason="Stopped", message="stopped at a barrier")
        driver_pod = ended(code, reason="Evicted", message="it used more than 64Mi of the disk", ending=own)

        decision = checked(observed(status=STATUSES["running"], pods=(driver_pod,)))

        message = next(condition.message for condition in decision.status.conditions if condition.type == "Reconciling")
        assert "Evicted: it used more than 64Mi of the disk" in message

    def test_the_termination_message_is_kept(self) -> None:
        """The pod contains the message, so an operator that was down reads it too."""
        ending = Ending(
            outcome="Complete", progress=ProgressSummary(percent=100, rows_done=9, rows_per_second=5),
            receipt=ReceiptSummary(source_version=3, target_version=4, rows=9),
        )  # fmt: skip

        decision = checked(observed(status=STATUSES["running"], pods=(ended(0, ending=ending),)))

        assert decision.status.progress == ProgressSummary(percent=100, rows_done=9)
        assert decision.status.receipt is not None
        decision = checked(after(observed(), decision))
        assert conditions(decision.status)["Verified"] == "True"

    def test_the_percent_of_a_job_never_falls(self) -> None:
        """R-PROG-4: a driver that is killed during its receipt commits nothing, and the next attempt continues from its
        percent."""
        seen = ProgressSummary(percent=80, rows_done=9)
        running = STATUSES["running"].model_copy(update={"progress": seen})
        again, other = ProgressSummary(percent=60, rows_done=9), ProgressSummary(percent=1, rows_done=2)
        shown = {}
        for progress in (again, other):
            ending = Ending(outcome="Stopped", reason="Stopped", message="stopped at a barrier", progress=progress)
            shown[progress.percent] = checked(observed(status=running, pods=(ended(0, ending=ending),))).status.progress

        assert shown == {60: seen, 1: other}

    def test_a_missing_pod_is_looked_up_before_it_counts_as_lost(self) -> None:
        """The operator reads it from the API server after a grace period; only then the pod is lost."""
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

    def test_a_pod_on_a_lost_node_is_removed_by_force(self) -> None:
        """The removal follows a minute after its grace period; the fence of the target also protects the data."""
        stuck = running(ready=False, deletion_ms=T0)
        observation = observed(status=STATUSES["running"], pods=(stuck,), finalizers=("backfill.dev/drain",))

        assert checked(observation, T0 + 59_000).actions == ()
        assert checked(observation, T0 + 61_000).actions == (DeletePod("orders-1-driver", "pod-1", 0),)


class TestTryingAgain:
    """The spec limits the number and frequency of attempts."""

    def test_a_retry_waits_longer_each_time_and_then_gives_up(self) -> None:
        """The delay doubles up to the maximum, less up to a fifth; the next attempt starts only after a refetch of the
        pods."""
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

    def test_an_attempt_that_ran_for_an_hour_restarts_the_count(self) -> None:
        """A job that follows for months survives more than four evictions."""
        status = STATUSES["running"].model_copy(update={"failures": 3})

        decision = checked(observed(status=status, pods=(ended(137),)), minutes_later(61))

        assert decision.status.failures == 1
        assert decision.status.phase == "Retrying"

    def test_objects_are_kept_only_while_a_driver_runs(self) -> None:
        """New executors find the driver by its Service; a stopping driver needs none, and a pod without a node reads no
        objects."""
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
        for observation in (stopping, going, over, unreadable, without_node):
            assert kept not in checked(observation).actions

    def test_a_driver_that_does_not_start_ends_in_time(self) -> None:
        """Another attempt may find a node; no attempt finds a missing image."""
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
    def test_a_driver_that_started_too_late_names_where_to_look(self, state: dict[str, object], message: str) -> None:
        """A pod that waits for a volume only reports ContainerCreating; its events contain the cause."""
        starting = observed(status=STATUSES["starting"], pods=(pod(**state),))
        late = checked(after(starting, checked(starting)), minutes_later(11))
        going = checked(after(starting, late, pods=(pod(deletion_ms=T0, **state),)), minutes_later(11))
        over = checked(after(starting, going, pods=(), live=True), minutes_later(12))

        for decision in (late, going, over):
            assert (
                message
                in next(
                    condition for condition in decision.status.conditions if condition.type == "Reconciling"
                ).message
            )

    def test_a_deadline_stops_the_job_at_a_barrier_and_fails_it(self) -> None:
        """The operator sends a command and does not kill the driver."""
        up = observed(
            status=STATUSES["running"], spec=spec(activeDeadlineSeconds=30), pods=(running(),), report=report()
        )
        stopping = checked(up)
        over = checked(after(up, stopping, pods=(ended(10),), report=None))

        assert [action.request.command.type for action in stopping.actions[1:2]] == ["Stop"]
        assert reason(over.status, "Failed") == "DeadlineExceeded"

    def test_a_failed_job_is_restarted_when_its_spec_is_edited(self) -> None:
        """A user who raised a limit expects another attempt; a complete job stays complete."""
        failed = observed(status=STATUSES["failed"], generation=2, live=True)
        complete = observed(status=STATUSES["complete"], generation=2, live=True)

        assert checked(failed).actions == (PersistIntent(), LaunchDriver(2, "Run"))
        assert checked(failed).status.failures == 0
        assert checked(complete).status.phase == "Succeeded"

    def test_a_failed_job_is_restarted_once_when_a_restart_is_requested(self) -> None:
        """The user fixed the cause outside the spec, such as a grant or a table. One annotation value requests one
        attempt."""
        restart = {"backfill.dev/restart-requested": "1"}
        failed = observed(status=STATUSES["failed"], annotations=restart, live=True)
        again = checked(failed)
        over = checked(after(failed, again, pods=(ended(40, 2),), live=True))
        rests = checked(after(failed, over, pods=(), live=True))
        complete = observed(status=STATUSES["complete"], annotations=restart, live=True)

        assert again.actions == (PersistIntent(), LaunchDriver(2, "Run"))
        assert (over.status.phase, rests.status.phase) == ("Failed", "Failed")
        assert rests.status.attempts == 2
        assert checked(complete).status.phase == "Succeeded"

    def test_a_later_attempt_reads_the_pods_from_the_api_server(self) -> None:
        """The cache may not yet show that the previous driver still runs."""
        failed = observed(status=STATUSES["failed"], generation=2, live=False)

        assert checked(failed).actions == (RefetchPods("orders-2-driver"),)

    @pytest.mark.parametrize(("retain", "kept"), [("Always", (0, 40, 137)), ("OnFailure", (40, 137)), ("Never", ())])
    def test_pods_are_kept_according_to_the_spec(self, retain: str, kept: tuple[int, ...]) -> None:
        """Pods are deleted once their end is recorded, not before."""
        for code in (0, 40, 137):
            observation = observed(status=STATUSES["running"], spec=spec(retainDriver=retain), pods=(ended(code),))
            first = checked(observation)
            second = checked(after(observation, first))
            assert not any(isinstance(action, DeletePod) for action in first.actions)
            assert any(isinstance(action, DeletePod) for action in second.actions) is (code not in kept)
