"""A cluster with one Backfill in it, and an operator that may die between any two lines: an adversary for `decide`.

The API server keeps resource versions and rejects stale writes. Pods start, get ready, stop at SIGTERM, are evicted and vanish.
The driver obeys revisions as the real one does. The shell's view may be arbitrarily old, unless it reads live.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace

from support.drivers.commanded_driver import Driver
from support.operators.observations import NAME, T0, UID, checked, spec

from backfill_api.names import DRAIN_FINALIZER, OVERRIDE_ANNOTATION, RESTART_ANNOTATION, VERIFY_ANNOTATION
from backfill_api.spec.change_claim import PauseAll
from backfill_api.status.progress import Progress
from backfill_api.status.status import BackfillStatus
from backfill_api.timestamps import rfc3339
from backfill_api.width import width_of
from backfill_api.wire import Ack, CommandRequest
from backfill_core.lifecycle.actions import (
    AddFinalizer,
    Decision,
    DeleteAttemptObjects,
    DeleteObject,
    DeletePod,
    LaunchDriver,
    PersistIntent,
    RefetchPods,
    RemoveFinalizer,
    SendCommand,
)
from backfill_core.lifecycle.inputs.launched_of import executors_of, launched_fields, launched_of
from backfill_core.lifecycle.naming import driver_name
from backfill_core.lifecycle.observation import DriverPod, DriverReport, LaunchFailed, Observation, WaitingExecutors

WORK = 12
"""Ticks of work until a job is done."""


class ShellDiedError(Exception):
    """The operator's process ended here."""


class RefusedError(Exception):
    """The API server rejected a request, or did not answer."""


class World:
    """The cluster, the user and the shell in one object, so that a seed determines the whole run."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_ms = T0
        self.faults = True
        self.starts = 0.7
        """Probability that a pending pod starts within a tick."""

        self.executors_wait = 0.05
        """Probability that a driver at work has waiting executors."""

        self.executors: dict[str, int] = {}
        """Number of running executors of a driver, by the UID of its pod; the operator sees it only after a live read."""

        self.cr: Observation | None = Observation("shop", NAME, UID, 1, spec(), resource_version="1")
        self.pods: dict[str, DriverPod] = {}
        self.drivers: dict[str, Driver] = {}
        self.objects: set[int] = set()
        self.work, self.work_wanted = 0, WORK
        self.sealed = Driver(0)
        self.acks: dict[int, Ack] = {}
        self.launch_failed: LaunchFailed | None = None
        self.pause_all: PauseAll | None = None
        """The switch for all jobs, as the operator sees it."""

        self.past: list[tuple[Observation, tuple[DriverPod, ...]]] = []
        self.alive_max = 0
        self.launched: list[int] = []
        self.uids = 0
        self.replaced = 0
        """Pods that an edit of the spec replaced before they started."""

    # -------------------------------------------------------------- the cluster
    def tick(self, seconds: float = 1.0) -> None:
        """Let time pass: kubelets, drivers, and random failures."""
        self.now_ms += round(seconds * 1000)
        for name, pod in list(self.pods.items()):
            self.pods[name] = self._lived(pod)
            if self.pods[name].over and pod.deletion_ms is not None:
                del self.pods[name]
        if self.cr is not None and self.cr.deletion_ms is not None and not self.cr.finalizers:
            self.cr = None
        if self.cr is None:
            # The garbage collector: the Backfill owns everything.
            self.objects.clear()
            for pod in list(self.pods.values()):
                self._delete(pod, 30)

    def _lived(self, pod: DriverPod) -> DriverPod:
        if pod.over:
            return pod
        driver = self.drivers[pod.uid]
        if pod.deletion_ms is not None and (self.now_ms >= pod.deletion_ms or self.chance.random() < 0.5):
            return self._ends(pod, 10 if pod.ready else 143)
        if self.faults and self.chance.random() < 0.04:
            code = self.chance.choice([137, 1, 61, 62, 10, None])
            return self._ends(pod, code, disrupted=code is None)
        if pod.phase == "Pending":
            return replace(pod, phase="Running", started=True) if self.chance.random() < self.starts else pod
        if not pod.ready:
            return replace(pod, ready=self.chance.random() < 0.7)
        driver.end_limit(self.now_ms)
        self.executors[pod.uid] = self.chance.choice([0, 0, 2])
        wait = self.chance.random() < self.executors_wait
        for_an_image = self.chance.random() < 0.5
        waits = (
            WaitingExecutors("ImagePullBackOff", "no such image") if for_an_image else WaitingExecutors("", "no node")
        )
        pod = replace(pod, executors=waits if wait else None)
        if driver.stopping:
            return self._ends(pod, 10)
        self.work += driver.paused is None
        self.sealed = replace(driver)
        return self._ends(pod, 0) if self.work >= self.work_wanted else pod

    def _ends(self, pod: DriverPod, code: int | None, *, disrupted: bool = False) -> DriverPod:
        return replace(
            pod, phase="Succeeded" if code == 0 else "Failed", exit_code=code, ready=False,
            disrupted=disrupted,
        )  # fmt: skip

    def _delete(self, pod: DriverPod, grace_s: int) -> None:
        if grace_s == 0 or pod.over:
            self.pods.pop(pod.name, None)
        elif pod.deletion_ms is None:
            self.pods[pod.name] = replace(pod, deletion_ms=self.now_ms + grace_s * 1000)

    def vanish(self) -> None:
        """Remove a node with its pod, without an event."""
        for name in [name for name, pod in self.pods.items() if not pod.over]:
            del self.pods[name]

    # -------------------------------------------------------------- the user
    def edit(self, **fields: object) -> None:
        """Apply a manifest."""
        if self.cr is not None:
            given = self.cr.spec.model_dump(mode="json", by_alias=True, exclude_none=True) | fields
            given.pop("throttle", None) if fields.get("throttle", 0) is None else None
            self._write(replace(self.cr, spec=spec(**given), generation=self.cr.generation + 1))

    def annotate(self, name: str, value: str) -> None:
        """Annotate."""
        if self.cr is not None:
            self._write(replace(self.cr, annotations={**self.cr.annotations, name: value}))

    def delete(self) -> None:
        """Delete the object; it stays until its finalizers are gone."""
        if self.cr is not None and self.cr.deletion_ms is None:
            self._write(replace(self.cr, deletion_ms=self.now_ms, generation=self.cr.generation + 1))

    def whim(self) -> None:
        """Do a random action of a user."""
        choice = self.chance.randrange(12)
        if choice == 0:
            self.edit(
                desiredState=self.chance.choice(["Running", "Paused"]),
                pause={"scope": self.chance.choice(["All", "History"])},
            )
        elif choice == 1:
            limit = {self.chance.choice(["rowsPerSecond", "bytesPerSecond"]): self.chance.randrange(5)}
            until = {"until": rfc3339(self.now_ms + self.chance.randrange(-5, 60) * 1000)}
            self.edit(throttle=limit | (until if self.chance.random() < 0.5 else {}))
        elif choice == 2:
            self.edit(suspend=self.chance.random() < 0.5)
        elif choice == 3:
            self.annotate(
                OVERRIDE_ANNOTATION,
                self.chance.choice(
                    [
                        '{"desiredState":"Paused"}',
                        "{broken",
                        "",
                        '{"suspend":true}',
                        '{"maxInFlight":7,"executors":2}',
                        self._limited_for_a_while(),
                    ]
                ),
            )
        elif choice == 4:
            self.annotate(RESTART_ANNOTATION, str(self.now_ms))
        elif choice == 5:
            self.annotate(VERIFY_ANNOTATION, str(self.now_ms))
        elif choice == 6:
            self.vanish()
        elif choice == 7 and self.drivers and self.chance.random() < 0.5:
            for driver in self.drivers.values():
                driver.paused, driver.revision = "All", driver.revision + 3  # a user with another tool
                driver.width = driver.width.model_copy(update={"max_in_flight": 9})
        elif choice == 8:
            self.edit(spark={"image": f"localhost/spark:{self.now_ms}"})
        elif choice == 9:
            self.pause_all = self.chance.choice(
                [None, PauseAll(enabled=False), PauseAll(enabled=True, note="incident")]
            )
        elif choice == 10:
            self.edit(
                executor=self.chance.choice([{}, {"instances": 3}, {"instances": 5}, {"instances": 0}, {"dynamic": {}}])
            )
        elif choice == 11:
            width = {"maxInFlight": self.chance.randrange(1, 5), "splitTargetSeconds": self.chance.randrange(1, 5)}
            self.edit(strategy={"type": "Snapshot", "snapshot": width})

    def _limited_for_a_while(self) -> str:
        until = rfc3339(self.now_ms + self.chance.randrange(-5, 60) * 1000)
        return json.dumps({"throttle": {"rowsPerSecond": 3, "until": until}})

    def calm(self) -> None:
        """End all faults, and let the user finish the job."""
        self.faults, self.pause_all = False, PauseAll(enabled=False)
        self.annotate(OVERRIDE_ANNOTATION, "")
        self.edit(desiredState="Running", suspend=False, throttle=None, backoffLimit=1000)

    # -------------------------------------------------------------- the API server
    def _write(self, cr: Observation) -> None:
        self.cr = replace(cr, resource_version=str(int(cr.resource_version) + 1))
        self.past = [*self.past[-6:], (self.cr, tuple(self.pods.values()))]

    def _write_status(self, status: BackfillStatus, resource_version: str) -> None:
        if self.cr is None or self.cr.resource_version != resource_version:
            raise RefusedError("409")
        self._write(replace(self.cr, status=status))

    def _create(self, action: LaunchDriver) -> None:
        self.objects.add(action.attempt)
        name = driver_name(NAME, action.attempt)
        if self.faults and self.chance.random() < 0.1:
            self.launch_failed = LaunchFailed(action.attempt, self.now_ms, *self.chance.choice([(403, "Forbidden", "exceeded quota: q"), (500,)]))  # fmt: skip
            raise RefusedError("no")
        if name in self.pods:
            self.launch_failed = LaunchFailed(action.attempt, self.now_ms, 409, "AlreadyExists")
            raise RefusedError("409")
        if self.cr is None:
            return  # made and collected at once
        self.uids += 1
        uid = f"pod-{self.uids}"
        self.pods[name] = DriverPod(
            name,
            uid,
            UID,
            action.attempt,
            action.kind,
            created_ms=self.now_ms,
            launched_of=launched_of(self.cr.spec, action.kind),
            executors_of=executors_of(self.cr.spec),
            launched_fields=launched_fields(self.cr.spec),
        )
        self.drivers[uid] = Driver(
            action.attempt, action.paused, (action.rows_per_second, action.bytes_per_second), self.sealed.revision,
            until=action.until, clock_ahead_ms=self.chance.choice([-4000, 0, 0, 4000]),
            width=width_of(self.cr.spec).model_copy(update=action.width.given),
        )  # fmt: skip
        self.launched.append(action.attempt)
        self.launch_failed = None

    # -------------------------------------------------------------- the shell
    def reconcile(self) -> None:
        """Observe, decide and act once, as the shell does; it may die anywhere."""
        cr, pods = self.cr, tuple(self.pods.values())
        if cr is None:
            return
        if self.faults and self.past and self.chance.random() < 0.3:
            cr, pods = self.chance.choice(self.past)
        report = None if self.faults and self.chance.random() < 0.2 else self._report()
        cr = replace(cr, pods=pods, report=report, launch_failed=self.launch_failed, pause_all=self.pause_all)
        observation = self._seen(cr)
        decision = checked(observation, self.now_ms)
        if decision.actions and isinstance(decision.actions[0], RefetchPods):
            looked_at = decision.actions[0].executors_of
            pods = tuple(self._with_running(pod) if pod.uid == looked_at else pod for pod in self.pods.values())
            observation = replace(observation, pods=pods, live=True)
            decision = checked(observation, self.now_ms)
        self._look_at_what_is_replaced(observation, decision)
        self.version = observation.resource_version
        try:
            for action in decision.actions:
                self._maybe_die()
                self._act(action, decision.status)
                self._count()
            self._maybe_die()
            if self.cr is not None and decision.status != observation.status:
                self._write_status(decision.status, self.version)
        except (RefusedError, ShellDiedError):
            pass
        self._count()

    def _seen(self, observation: Observation) -> Observation:
        """Return the observation with the objects that only some worlds have."""
        return observation

    def _look_at_what_is_replaced(self, observation: Observation, decision: Decision) -> None:
        """Assert that an edit of the spec ends no driver whose executors run or wait for a node, however old the operator's cache is."""
        before, after = observation.status.attempt, decision.status.attempt
        if after is None or after.stop is None or after.stop.reason != "SpecChanged" or (before and before.stop):
            return
        self.replaced += 1
        for pod in self.pods.values():
            if pod.uid == after.pod_uid and pod.started:
                assert pod.executors is not None
                assert self.executors[pod.uid] == 0 or pod.executors.waiting

    def _with_running(self, pod: DriverPod) -> DriverPod:
        """Return a driver with the number of its running executors."""
        if pod.executors is None:
            return pod
        return replace(pod, executors=replace(pod.executors, running=self.executors[pod.uid]))

    def _maybe_die(self) -> None:
        if self.faults and self.chance.random() < 0.05:
            self.launch_failed, self.acks = None, {}
            raise ShellDiedError

    def _act(self, action: object, status: BackfillStatus) -> None:
        if isinstance(action, PersistIntent):
            self._write_status(status, self.version)
            self.version = self.cr.resource_version
        elif isinstance(action, LaunchDriver):
            self._create(action)
            self._maybe_die()
        elif isinstance(action, SendCommand):
            self._send(action.request)
        elif isinstance(action, DeletePod):
            pod = self.pods.get(action.name)
            if pod is not None and pod.uid == action.uid:
                self._delete(pod, action.grace_s)
        elif isinstance(action, DeleteAttemptObjects):
            self.objects.discard(action.attempt)
        elif isinstance(action, DeleteObject):
            self.delete()
        elif isinstance(action, AddFinalizer | RemoveFinalizer) and self.cr is not None:
            if self.cr.resource_version != self.version:
                raise RefusedError("409")
            if isinstance(action, AddFinalizer) and self.cr.deletion_ms is not None:
                raise RefusedError("422: no finalizers on a deleted object")
            self._write(replace(self.cr, finalizers=(DRAIN_FINALIZER,) if isinstance(action, AddFinalizer) else ()))
            self.version = self.cr.resource_version

    def _send(self, request: CommandRequest) -> None:
        for pod in self.pods.values():
            if pod.attempt == request.attempt and pod.ready and not (self.faults and self.chance.random() < 0.2):
                ack = self.drivers[pod.uid].command(request)
                if not (self.faults and self.chance.random() < 0.3):
                    self.acks[request.revision] = ack
                return
        raise RefusedError("no answer")

    def _report(self) -> DriverReport | None:
        for pod in self.pods.values():
            if pod.ready:
                driver = self.drivers[pod.uid]
                progress = Progress(
                    phase="Snapshot", percent=min(100, 100 * self.work // self.work_wanted), paused=driver.paused, table_version=1,
                    throttle_rows_per_second=driver.limits[0], throttle_bytes_per_second=driver.limits[1],
                    throttle_until=driver.until, revision=driver.revision, **driver.width.given,
                )  # fmt: skip
                acks = tuple(ack for ack in self.acks.values() if ack.attempt == driver.attempt)
                return DriverReport(driver.attempt, self.now_ms, progress, None, acks)
        return None

    def _count(self) -> None:
        self.alive_max = max(self.alive_max, sum(not pod.over for pod in self.pods.values()))
