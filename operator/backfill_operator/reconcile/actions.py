"""Executes decisions: the actions in order, then the status, written once.

The order gives the guarantee. An action that must be recorded is written to the status first, with the resourceVersion
that was read. If another writer was faster, that write is a conflict and no later action is executed. The first failure
ends the execution, and the next reconcile starts from the actual state.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from backfill_core.lifecycle.actions import (
    Action,
    AddFinalizer,
    CreateWorkload,
    Decision,
    DeleteAttemptObjects,
    DeleteObject,
    DeletePod,
    DeleteWorkload,
    EnsureObjects,
    EventNote,
    FinishWorkload,
    LaunchDriver,
    PersistIntent,
    RefetchPods,
    RemoveFinalizer,
    ReportPodsReady,
    RequeueWorkload,
    SendCommand,
)
from backfill_core.lifecycle.naming import driver_name
from backfill_core.lifecycle.observation import LaunchFailed, Observation
from backfill_operator.drivers.certificates import NoCertificateError
from backfill_operator.drivers.poller import DriverPoller
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import ApiError, ConflictError, UnavailableError
from backfill_operator.kube.event_recorder import EventRecorder
from backfill_operator.kube.resources import PODS, Raw
from backfill_operator.metrics import Metrics
from backfill_operator.queues.workloads import Workloads
from backfill_operator.reconcile.launcher import Launcher
from backfill_operator.reconcile.soft_state import SoftState
from backfill_operator.reconcile.status_writer import BackfillWriter

UNANSWERED_MAX = 3
"""Number of launches without a response before the status reports the failure."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Execution:
    """One decision under execution."""

    key: Key
    raw: Raw
    """The object as last read or written; its resourceVersion is the condition of the next write."""

    seen: Observation
    decision: Decision
    soft: SoftState

    @property
    def version(self) -> str:
        """The resourceVersion of the object."""
        return str(self.raw["metadata"]["resourceVersion"])


class ReconcileActions:
    """Executes decisions; never two of the same Backfill at once."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        cache: Cache,
        drivers: DriverPoller,
        launcher: Launcher,
        workloads: Workloads,
        writer: BackfillWriter,
        events: EventRecorder,
        metrics: Metrics,
        enqueue: Callable[[Key], None],
        ensure_every_s: float,
        now_ms: Callable[[], int],
    ) -> None:
        """Take the parts.

        Args:
            cluster: Deletes pods.
            cache: Updated with each pod that is created.
            drivers: Sends commands.
            launcher: Creates and deletes the objects of attempts.
            workloads: Writes the Workloads of jobs with a queue.
            writer: Writes Backfills.
            events: Records Kubernetes events.
            metrics: Counts launches.
            enqueue: Requests a reconcile of a Backfill.
            ensure_every_s: How often the objects of a running attempt are checked.
            now_ms: Wall time in milliseconds.
        """
        self._cluster = cluster
        self._cache = cache
        self._drivers = drivers
        self._launcher = launcher
        self._workloads = workloads
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._enqueue = enqueue
        self._ensure_every_s = ensure_every_s
        self._now_ms = now_ms

    async def execute(self, run: Execution) -> float | None:
        """Execute the actions, then write the status.

        Returns:
            Seconds until the next reconcile at the latest; `None` to wait for a change.

        Raises:
            ConflictError: another writer was faster.
            ApiError: the API server did not execute a request.
            CrdOutdatedError: the API server dropped fields of the status.
        """
        recorded, version = False, run.version
        for action in run.decision.actions:
            if isinstance(action, PersistIntent):
                run.raw = await self._writer.write(run.raw, run.decision.status, fence=True)
                recorded = True
            elif not await self._do(run, action):
                return run.decision.requeue_after_s
        requests = tuple(action.request for action in run.decision.actions if isinstance(action, SendCommand))
        if requests:
            self._drivers.send(run.key, requests)
        later = None
        if not recorded and run.seen.recordable:
            run.raw, later = await self._writer.write_at_pace(run.raw, run.seen.status, run.decision.status)
        if run.version != version:
            # The cache holds this write already, so the watch will not report it as a change.
            return 0.0
        return _earliest(run.decision.requeue_after_s, later, await self._ensure(run))

    async def _do(self, run: Execution, action: Action) -> bool:
        """Execute one action; `False` if it failed, with the reason in the soft state."""
        match action:
            case LaunchDriver():
                return await self._launch(run, action)
            case DeletePod():
                await self._delete_pod(run.seen.namespace, action)
            case DeleteAttemptObjects():
                await self._launcher.remove(run.seen, action.attempt)
            case AddFinalizer():
                run.raw = await self._writer.set_finalizer(run.raw, there=True)
            case RemoveFinalizer():
                run.raw = await self._writer.set_finalizer(run.raw, there=False)
            case DeleteObject():
                await self._writer.delete(run.raw)
            case CreateWorkload() | DeleteWorkload() | RequeueWorkload() | FinishWorkload() | ReportPodsReady():
                await self._workloads.execute(run.seen, action)
            case PersistIntent() | SendCommand() | EnsureObjects() | RefetchPods():
                pass
        return True

    async def _launch(self, run: Execution, action: LaunchDriver) -> bool:
        """Create an attempt. A refusal is stored in the soft state, and an immediate reconcile reports it."""
        began, soft = time.monotonic(), run.soft
        try:
            soft.token_of = action.attempt
            placements = await self._workloads.placements(run.seen)
            pod = await self._launcher.launch(run.seen, action, soft.token, placements)
        except (ApiError, NoCertificateError) as error:
            soft.unanswered += 1
            if isinstance(error, UnavailableError) and soft.unanswered <= UNANSWERED_MAX:
                raise
            status, reason = (error.status, error.reason) if isinstance(error, ApiError) else (0, error.reason)
            message = error.message if isinstance(error, ApiError) else str(error)
            causes = error.causes if isinstance(error, ApiError) else ()
            soft.launch_failed = LaunchFailed(action.attempt, self._now_ms(), status, reason, message, causes)
            self._metrics.launch_failures.labels(reason or str(status)).inc()
            _log.warning("attempt %d was not created: %s", action.attempt, error)
            self._enqueue(run.key)
            return False
        soft.launch_failed, soft.unanswered = None, 0
        self._metrics.launch_seconds.observe(time.monotonic() - began)
        _log.info("attempt %d: pod %s", action.attempt, pod["metadata"]["name"], extra={"attempt": action.attempt})
        self._cache.put_pod(pod)
        self._enqueue(run.key)
        return True

    async def _delete_pod(self, namespace: str, action: DeletePod) -> None:
        """Delete the pod if it still has the UID that was seen."""
        try:
            await self._cluster.delete(PODS, namespace, action.name, uid=action.uid, grace_s=action.grace_s)
        except ConflictError:
            _log.info("pod %s was replaced by another one", action.name)

    # ------------------------------------------------------------ objects of a running attempt
    async def _ensure(self, run: Execution) -> float | None:
        """Check the objects of the attempt if a check is due; return the seconds until the next check."""
        action = next((candidate for candidate in run.decision.actions if isinstance(candidate, EnsureObjects)), None)
        if action is None:
            return None
        if self._ensure_in_s(run.soft) <= 0:
            await self._recreate_missing(run, action.of)
            run.soft.ensured_at = time.monotonic()
        return self._ensure_in_s(run.soft)

    def _ensure_in_s(self, soft: SoftState) -> float:
        """Return the seconds until the next check; after a restart the checks are spread over one period."""
        now = time.monotonic()
        if soft.ensured_at is None:
            soft.ensured_at = now - random.random() * self._ensure_every_s
        return max(0.0, soft.ensured_at + self._ensure_every_s - now)

    async def _recreate_missing(self, run: Execution, launched: LaunchDriver) -> None:
        missing = await self._launcher.missing(run.seen, launched.attempt)
        if not missing:
            return
        name = driver_name(run.seen.name, launched.attempt)
        # If the attempt and its objects have ended since the object was read, this write is a conflict.
        run.raw = await self._writer.write(run.raw, run.decision.status, fence=True)
        await self._launcher.recreate(run.seen, launched, missing, await self._workloads.placements(run.seen))
        if "Secret" in missing:
            message = (
                f"Secret {name} was deleted: after its next restart the operator cannot command this driver; "
                "restart the attempt"
            )
            self._events.note(run.raw, EventNote("Warning", "SecretMissing", message))
        if recreated := ", ".join(sorted(missing - {"Secret"})):
            self._events.note(run.raw, EventNote("Warning", "ObjectsMissing", f"{name}: recreated: {recreated}"))


def _earliest(*delays: float | None) -> float | None:
    given = [delay for delay in delays if delay is not None]
    return min(given) if given else None
