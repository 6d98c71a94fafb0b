"""A `World` whose Backfill waits in a queue of Kueue, which admits, evicts and is edited by users at random."""

from __future__ import annotations

from dataclasses import replace

from support.operators.observations import NAME
from support.operators.world import RefusedError, World

from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.actions import (
    CreateWorkload,
    Decision,
    DeleteWorkload,
    FinishWorkload,
    LaunchDriver,
    ReportPodsReady,
    RequeueWorkload,
)
from backfill_core.lifecycle.observation import Observation
from backfill_core.lifecycle.queue.workload import ObservedWorkload, made_of

QUEUE = "team"


class QueuedWorld(World):
    """The cluster, the user, the shell and Kueue."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.workload: ObservedWorkload | None = None
        self.seen_before: list[ObservedWorkload | None] = [None]
        self.workloads = 0
        self.evictions = 0
        self.taken = False
        """True while a user has deleted the Workload of a driver."""

        self.edit(queue=QUEUE)

    # -------------------------------------------------------------- Kueue
    def tick(self, seconds: float = 1.0) -> None:
        """Let time pass for Kueue, too."""
        super().tick(seconds)
        self._remember()
        workload = self.workload
        if self.cr is None:
            self.workload = None
        elif workload is not None and not workload.finished:
            self.workload = self._considered(workload)

    def _considered(self, workload: ObservedWorkload) -> ObservedWorkload:
        if workload.active and not workload.reserved and self.chance.random() < 0.5:
            return replace(workload, reserved=True, admitted=True, evicted="")
        if self.faults and workload.admitted and self.chance.random() < 0.05:
            self.evictions += 1
            return replace(workload, evicted="Preempted: by another job")
        return workload

    def _remember(self) -> None:
        self.seen_before = [*self.seen_before[-3:], self.workload]

    # -------------------------------------------------------------- the user
    def whim(self) -> None:
        """Do something to the job or its Workload."""
        choice = self.chance.randrange(8)
        if choice == 0 and self.workload is not None:
            evicted = "Deactivated: by a user" if self.workload.active and self.workload.reserved else ""
            self.workload = replace(self.workload, active=not self.workload.active, evicted=evicted)
        elif choice == 1 and self.workload is not None:
            self.workload, self.taken = None, True
        elif choice == 2:
            self.edit(priority=self.chance.randrange(3))
        elif choice == 3:
            self.edit(queue=self.chance.choice([QUEUE, "other", None]))
        else:
            super().whim()

    def calm(self) -> None:
        """End all faults; the job stays in its queue."""
        super().calm()
        self.edit(queue=QUEUE)
        if self.workload is not None:
            self.workload = replace(self.workload, active=True)

    # -------------------------------------------------------------- the shell
    def _seen(self, observation: Observation) -> Observation:
        if self.faults and self.chance.random() < 0.1:
            return replace(observation, queue_problem="the Workloads are not listed yet")
        stale = self.faults and self.chance.random() < 0.2
        return replace(observation, workload=self.chance.choice(self.seen_before) if stale else self.workload)

    def _look_at_what_is_replaced(self, observation: Observation, decision: Decision) -> None:
        super()._look_at_what_is_replaced(observation, decision)
        if any(isinstance(action, LaunchDriver) for action in decision.actions) and observation.spec.queue is not None:
            workload, kind = observation.workload, decision.status.attempt.kind
            assert workload is not None, "a driver starts without a Workload"
            assert workload.may_run, "a driver starts before its admission"
            assert workload.made_of == made_of(observation.spec, kind)
            assert decision.status.attempt.workload_uid == workload.uid

    def _act(self, action: object, status: BackfillStatus) -> None:
        workload = self.workload
        match action:
            case CreateWorkload():
                if workload is None and self.cr is not None:
                    self.workloads += 1
                    uid = f"workload-{self.workloads}"
                    self.workload = ObservedWorkload(NAME, uid, made_of=made_of(self.cr.spec, action.kind))
            case DeleteWorkload():
                if workload is not None and workload.uid == action.uid:
                    assert self._unused(action.uid), "quota is returned while a driver runs"
                    self.workload = None
            case RequeueWorkload():
                if workload is not None and workload.uid == action.uid and workload.reserved:
                    assert self._unused(action.uid), "quota is returned while a driver runs"
                    self.workload = replace(workload, reserved=False, admitted=False)
            case FinishWorkload():
                if workload is not None and workload.uid == action.uid:
                    self.workload = replace(workload, finished=True, reserved=False)
            case ReportPodsReady():
                if workload is not None and workload.uid == action.uid:
                    self.workload = replace(workload, pods_ready=True)
            case LaunchDriver() if status.attempt is not None and status.attempt.workload_uid is not None:
                # The shell reads the Workload before it creates a driver.
                if workload is None or not workload.may_run or workload.uid != status.attempt.workload_uid:
                    raise RefusedError("409")
                super()._act(action, status)
            case _:
                super()._act(action, status)
        self._remember()

    def _unused(self, uid: str) -> bool:
        """Return whether no driver runs that this Workload admitted."""
        attempt = None if self.cr is None else self.cr.status.attempt
        runs = any(not pod.over for pod in self.pods.values())
        return not runs or attempt is None or attempt.workload_uid != uid
