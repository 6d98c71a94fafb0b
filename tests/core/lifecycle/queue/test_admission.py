"""A job with a queue: it waits for its Workload's admission, and its attempt ends with the admission."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.observations import T0, after, checked, ended, observed, reason, report, running, spec

from backfill_api.status.status import Attempt, BackfillStatus
from backfill_core.lifecycle.actions import (
    CreateWorkload,
    DeletePod,
    DeleteWorkload,
    FinishWorkload,
    LaunchDriver,
    PersistIntent,
    ReportPodsReady,
    RequeueWorkload,
    SendCommand,
)
from backfill_core.lifecycle.inputs.dependencies import ObservedDependency
from backfill_core.lifecycle.observation import Observation
from backfill_core.lifecycle.queue.workload import ObservedWorkload, made_of

QUEUED = spec(queue="team")
WORKLOAD = ObservedWorkload("orders", "workload-1", made_of=made_of(QUEUED, "Run"))
ADMITTED = replace(WORKLOAD, reserved=True, admitted=True)
EVICTED = replace(ADMITTED, evicted="Preempted: to accommodate a workload of higher priority")


def queued(workload: ObservedWorkload | None, **fields: object) -> Observation:
    """Return an observation of a job with a queue."""
    return observed(**({"spec": QUEUED, "workload": workload} | fields))


def at_work(workload: ObservedWorkload | None, **fields: object) -> Observation:
    """Return an observation of a job whose driver runs under the Workload."""
    first = checked(queued(ADMITTED))
    up = checked(after(queued(ADMITTED), first, pods=(running(),), report=report()))
    return queued(workload, **({"status": up.status, "pods": (running(),), "report": report()} | fields))


def kinds(observation: Observation, now_ms: int = T0) -> list[type]:
    return [type(action) for action in checked(observation, now_ms).actions]


class TestBeforeTheAdmission:
    """No pod exists, and no attempt is used."""

    def test_job_asks_its_queue_first(self) -> None:
        """The Workload needs no pods: it would wait for executors that only a running driver creates."""
        decision = checked(queued(None))

        assert decision.actions == (CreateWorkload("Run"),)
        assert (decision.status.phase, decision.status.attempts) == ("Pending", 0)
        assert reason(decision.status) == "WaitingForQueue"

    def test_waiting_job_shows_the_words_of_kueue(self) -> None:
        """The reason of a queue without room."""
        waiting = replace(WORKLOAD, reason="Pending", message="insufficient unused quota for cpu, 2 more needed")

        decision = checked(queued(waiting))

        assert decision.actions == ()
        assert "insufficient unused quota" in decision.status.conditions[0].message

    def test_missing_queue_is_named_with_the_remedy(self) -> None:
        """Kueue reports it in the Workload."""
        waiting = replace(WORKLOAD, reason="Inadmissible", message="LocalQueue team doesn't exist")

        decision = checked(queued(waiting))

        assert reason(decision.status, "Reconciling") == "QueueUnavailable"
        assert "LocalQueue team doesn't exist; create or start that queue" in decision.status.conditions[0].message

    def test_unknown_workloads_start_no_driver(self) -> None:
        """Without Kueue a job with a queue waits. It does not run outside its quota."""
        decision = checked(queued(None, queue_problem="install Kueue, or remove spec.queue"))

        assert decision.actions == ()
        assert reason(decision.status) == "QueueUnavailable"

    def test_reserved_quota_is_no_admission(self) -> None:
        """An admission check, such as new nodes, may still be missing."""
        assert kinds(queued(replace(WORKLOAD, reserved=True))) == []

    def test_admission_starts_the_driver(self) -> None:
        """The attempt records the Workload that admitted it."""
        decision = checked(queued(ADMITTED))

        assert [type(action) for action in decision.actions] == [PersistIntent, LaunchDriver]
        assert decision.status.attempt is not None
        assert decision.status.attempt.workload_uid == "workload-1"

    def test_job_without_a_queue_ignores_kueue(self) -> None:
        """Also while Kueue is away."""
        assert LaunchDriver in kinds(observed(queue_problem="not installed"))

    @pytest.mark.parametrize("edit", [{"priority": 5}, {"queue": "other"}, {"executor": {"instances": 4}}])
    def test_edit_replaces_a_workload_that_waits(self, edit: dict[str, object]) -> None:
        """Quota is for the pods of the current spec."""
        edited = queued(WORKLOAD, spec=spec(**({"queue": "team"} | edit)))

        assert kinds(edited) == [PersistIntent, DeleteWorkload]

    def test_workload_of_another_owner_is_a_collision(self) -> None:
        """It is not changed."""
        decision = checked(queued(replace(ADMITTED, ours=False)))

        assert decision.actions == ()
        assert reason(decision.status, "Stalled") == "NameCollision"

    def test_deactivated_workload_needs_a_person(self) -> None:
        """A user or Kueue set `active: false`, and the operator does not undo it."""
        decision = checked(queued(replace(WORKLOAD, active=False)))

        assert decision.actions == ()
        assert reason(decision.status, "Stalled") == "QueueDeactivated"

    def test_recorded_attempt_without_a_pod_waits_too(self) -> None:
        """The queue was added after the record."""
        attempt = Attempt(number=1, state="Planned")
        status = BackfillStatus(attempt=attempt, attempts=1)

        assert kinds(queued(None, status=status)) == [CreateWorkload]
        launched = checked(queued(ADMITTED, status=status))
        assert launched.status.attempt is not None
        assert launched.status.attempt.workload_uid == "workload-1"


class TestEvictions:
    """The driver stops at a barrier, and the job continues after the next admission."""

    def test_eviction_stops_the_driver_at_a_barrier(self) -> None:
        """By the command of every other stop, so that the last commit holds all finished work."""
        decision = checked(at_work(EVICTED))

        (stop,) = [action.request for action in decision.actions if isinstance(action, SendCommand)]
        assert stop.command.type == "Stop"
        assert decision.status.attempt is not None
        assert decision.status.attempt.stop is not None
        assert decision.status.attempt.stop.reason == "EvictedByQueue"
        assert "higher priority" in decision.status.conditions[0].message

    @pytest.mark.parametrize(
        "workload",
        [
            None,
            replace(ADMITTED, uid="workload-2"),
            replace(ADMITTED, active=False),
            replace(ADMITTED, admitted=False),
            replace(WORKLOAD, reserved=False),
        ],
    )
    def test_lost_admission_stops_the_driver(self, workload: ObservedWorkload | None) -> None:
        """A deleted, a replaced and a deactivated Workload hold no quota for the driver."""
        decision = checked(at_work(workload))

        assert decision.status.attempt is not None
        assert decision.status.attempt.stop is not None

    def test_unknown_workloads_stop_no_driver(self) -> None:
        """Kueue or the API server may be away for a while."""
        decision = checked(at_work(None, queue_problem="503"))

        assert decision.status.phase == "Running"
        assert [action for action in decision.actions if isinstance(action, DeletePod)] == []

    def test_evicted_attempt_counts_as_no_failure_and_its_quota_returns(self) -> None:
        """Kueue gives the quota to the other job only after that."""
        stopping = checked(at_work(EVICTED))
        over = queued(EVICTED, status=stopping.status, pods=(ended(10),))

        decision = checked(over)

        assert decision.status.failures == 0
        assert reason(decision.status) == "EvictedByQueue"
        assert decision.status.history[-1].reason == "EvictedByQueue"
        assert RequeueWorkload("orders", "workload-1") in decision.actions
        waiting = replace(WORKLOAD, evicted=EVICTED.evicted, reason="Pending", message="waits for quota")
        again = checked(after(over, decision, workload=waiting))
        assert reason(again.status) == "WaitingForQueue"
        assert again.status.start_time is None, "the deadline is for work"
        assert kinds(after(over, again, workload=replace(ADMITTED, evicted=""), live=True)) == [
            PersistIntent,
            LaunchDriver,
            DeletePod,
        ]

    def test_quota_stays_while_a_driver_may_run(self) -> None:
        """Kueue would start another job on the nodes that the driver still uses."""
        stopping = checked(at_work(EVICTED))
        still = queued(EVICTED, status=stopping.status, pods=(running(),), report=report())

        assert RequeueWorkload not in kinds(still)

    def test_ready_driver_is_reported_to_kueue(self) -> None:
        """Kueue may be configured to evict Workloads whose pods do not start."""
        assert ReportPodsReady("orders", "workload-1") in checked(at_work(ADMITTED)).actions
        assert ReportPodsReady not in kinds(at_work(replace(ADMITTED, pods_ready=True)))


class TestReturnedQuota:
    """A job that needs no pods holds no quota."""

    @pytest.mark.parametrize("fields", [{"suspend": True}, {"dependsOn": [{"name": "first"}]}])
    def test_suspended_or_dependent_job_has_no_workload(self, fields: dict[str, object]) -> None:
        """Others can use the quota."""
        given = spec(queue="team", **fields)
        dependencies = (ObservedDependency("first", "Complete"),) if "dependsOn" in fields else ()
        workload = replace(ADMITTED, made_of=made_of(given, "Run"))

        assert DeleteWorkload in kinds(queued(workload, spec=given, dependencies=dependencies))

    def test_plan_returns_its_quota_while_a_user_decides(self) -> None:
        """Plan and job differ in their pods, so each has a Workload."""
        given = spec(queue="team", approval="Manual")

        first = checked(queued(None, spec=given))

        assert first.actions == (CreateWorkload("Plan"),)
        planned = replace(ADMITTED, made_of=made_of(given, "Plan"))
        assert LaunchDriver in kinds(queued(planned, spec=given))

    def test_complete_job_finishes_its_workload(self) -> None:
        """The status is on record before the quota returns."""
        decision = checked(at_work(ADMITTED, pods=(ended(0),), report=None))

        assert decision.status.phase == "Succeeded"
        assert decision.actions[0] == PersistIntent()
        assert FinishWorkload("orders", "workload-1", True, "Complete") in decision.actions

    def test_complete_job_finishes_a_workload_that_is_not_known(self) -> None:
        """A job that is over is not looked at again, and the operator may have just started."""
        decision = checked(at_work(None, pods=(ended(0),), report=None, queue_problem="not listed yet"))

        assert FinishWorkload("orders", "workload-1", True, "Complete") in decision.actions

    def test_failed_job_finishes_its_workload(self) -> None:
        """With Kueue's reason of a failure."""
        decision = checked(at_work(ADMITTED, pods=(ended(20),), report=None))

        (finish,) = [action for action in decision.actions if isinstance(action, FinishWorkload)]
        assert not finish.succeeded

    def test_job_that_backs_off_keeps_its_quota(self) -> None:
        """As a Job of Kubernetes does between its pods."""
        decision = checked(at_work(ADMITTED, pods=(ended(1),), report=None))

        assert decision.status.phase == "Retrying"
        assert [action for action in decision.actions if isinstance(action, DeleteWorkload | RequeueWorkload)] == []

    def test_job_whose_queue_was_removed_deletes_the_workload(self) -> None:
        """Between two attempts, or before the first."""
        assert DeleteWorkload in kinds(queued(WORKLOAD, spec=spec()))
