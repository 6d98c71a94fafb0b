"""One reconcile of one Backfill: observe, decide, execute.

`backfill_core.lifecycle` makes every decision; `actions` executes it. `observer` collects its input. This module
converts failures into delays.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace

from backfill_api.spec.change_claim import PauseAll
from backfill_core.lifecycle.actions import Decision, EventNote, LaunchDriver, RefetchPods
from backfill_core.lifecycle.decide import decide
from backfill_core.lifecycle.naming import driver_name
from backfill_core.lifecycle.observation import Observation, SpecRefused
from backfill_operator.drivers.poller import DriverPoller, DriverRef
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.informer.compact import is_stub
from backfill_operator.informer.parse import StatusUnreadableError
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import ConflictError, NotFoundError, RefusedError, UnavailableError
from backfill_operator.kube.event_recorder import EventRecorder
from backfill_operator.kube.resources import Raw
from backfill_operator.logs import log_context
from backfill_operator.metrics import Metrics
from backfill_operator.queues.feed import WorkloadFeed
from backfill_operator.reconcile.actions import Execution, ReconcileActions
from backfill_operator.reconcile.dependencies import Dependencies
from backfill_operator.reconcile.driver_slots import DriverSlots
from backfill_operator.reconcile.observer import Observer
from backfill_operator.reconcile.shared_targets import SharedTargets
from backfill_operator.reconcile.soft_state import SoftState
from backfill_operator.reconcile.status_writer import CrdOutdatedError
from backfill_operator.reconcile.workqueue import RetryLaterError

UNREADABLE_RETRY_S = 300.0

_log = logging.getLogger(__name__)


class Reconciler:
    """Reconciles Backfills; the work queue never calls it twice at once for the same one."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        cache: Cache,
        drivers: DriverPoller,
        executor: ReconcileActions,
        events: EventRecorder,
        metrics: Metrics,
        slots: DriverSlots,
        workloads: WorkloadFeed,
        enqueue: Callable[[Key], None],
        now_ms: Callable[[], int],
        pause_all: Callable[[], PauseAll | None],
    ) -> None:
        """Take the parts.

        Args:
            cluster: Reads the current state.
            cache: Holds the state from lists and watches.
            drivers: Polls the drivers.
            executor: Executes decisions.
            events: Records Kubernetes events.
            metrics: Measures reconciles.
            slots: Limits the number of drivers.
            workloads: The Workloads of jobs with a queue.
            enqueue: Requests a reconcile of a Backfill.
            now_ms: Wall time in milliseconds.
            pause_all: Returns the switch for all jobs.
        """
        self._cache = cache
        self._drivers = drivers
        self._executor = executor
        self._events = events
        self._metrics = metrics
        self._slots = slots
        self._workloads = workloads
        self._shared_targets = SharedTargets(cache, events, enqueue)
        self._dependencies = Dependencies(cache, enqueue)
        self._observer = Observer(cluster, cache, drivers, self._shared_targets, workloads, enqueue)
        self._now_ms = now_ms
        self._pause_all = pause_all
        self._soft_states: dict[Key, SoftState] = {}

    async def __call__(self, key: Key) -> float | None:
        """Reconcile once.

        Returns:
            Seconds until the next reconcile at the latest; `None` to wait for a change.

        Raises:
            RetryLaterError: another writer was faster, or the API server does not answer.
            ApiError: the API server refused a request.
        """
        with log_context("/".join(key)), self._metrics.reconcile_seconds.time(), self._slots.turn(key):
            self._dependencies.announce(key)
            raw = self._cache.backfill(key)
            if raw is None:
                self._forget(key)
                return None
            resting_s = self._resting_s(key)
            if resting_s is not None:
                self._slots.forget(key)  # another process may have written the end of its attempt
                return resting_s if resting_s < math.inf else None
            try:
                if is_stub(raw):
                    raw = await self._observer.fetch_whole(key)
                later = await self._reconcile(key, raw)
                if self._cache.index(key).over:
                    self._workloads.forget(key)
                    self._soft_states.pop(key, None)  # it is only for launches, and thousands of Backfills are finished
                return later
            except ConflictError as conflict:
                await self._observer.refresh(key)
                raise RetryLaterError(f"{key[0]}/{key[1]} changed meanwhile: {conflict.message}") from conflict
            except NotFoundError:
                await self._observer.refresh(key)
                return None
            except UnavailableError as error:
                raise RetryLaterError(str(error), after_s=error.retry_after or 0.0) from error
            except StatusUnreadableError as error:
                return self._notify(raw, error.reason, error)

    def _resting_s(self, key: Key) -> float | None:
        """Return how long a Backfill needs no decision, possibly infinity; `None` if it needs one now."""
        rest = self._cache.rest(key)
        if rest is None or self._cache.pods(key, driver_name(key[1], rest.attempt)):
            return None
        self._shared_targets.of(key)  # the warnings of other Backfills may list it
        self._soft_states.pop(key, None)
        left_s = math.inf if rest.due_ms is None else (rest.due_ms - self._now_ms()) / 1000
        return left_s if left_s > 0 else None

    def _notify(self, raw: Raw, reason: str, error: Exception) -> float:
        """Report an error by event and log, because the status cannot be read or stored; return the retry delay."""
        self._events.note(raw, EventNote("Warning", reason, str(error)))
        _log.error("%s", error)
        return UNREADABLE_RETRY_S

    def _forget(self, key: Key) -> None:
        self._soft_states.pop(key, None)
        self._shared_targets.forget(key)
        self._slots.forget(key)
        self._workloads.forget(key)
        self._drivers.leave(key)

    async def _reconcile(self, key: Key, raw: Raw) -> float | None:
        uid = raw["metadata"]["uid"]
        soft = self._soft_states.get(key)
        if soft is None or soft.uid != uid:
            soft = self._soft_states[key] = SoftState(uid)
        self._shared_targets.warn_of_pruned_fields(key, raw)
        seen = self._observer.observe(key, raw, soft)
        dependencies, cycle = self._dependencies.of(key, seen.spec), self._dependencies.cycle(key)
        seen = replace(seen, pause_all=self._pause_all(), dependencies=dependencies, dependency_cycle=cycle)
        attempt, progress = seen.status.attempt, seen.report.progress if seen.report else None
        number, epoch = attempt.number if attempt else None, progress.epoch if progress else None
        with log_context("/".join(key), attempt=number, epoch=epoch):
            try:
                return await self._decide_and_execute(key, raw, seen)
            except CrdOutdatedError as error:
                return self._notify(raw, error.reason, error)

    async def _decide_and_execute(self, key: Key, raw: Raw, seen: Observation) -> float | None:
        decision = self._decide(key, seen)
        refetch = next((action for action in decision.actions if isinstance(action, RefetchPods)), None)
        if refetch is not None:
            seen = replace(seen, pods=await self._observer.fetch_pods(seen, refetch), live=True)
            decision = self._decide(key, seen)
        try:
            return await self._execute(key, raw, seen, decision)
        except (RefusedError, CrdOutdatedError):
            if seen.deletion_ms is None:
                raise
        finally:
            self._slots.release(key)
        # A deletion proceeds even if the status cannot be written.
        seen = replace(seen, recordable=False)
        return await self._execute(key, raw, seen, decide(seen, self._now_ms()))

    def _decide(self, key: Key, seen: Observation) -> Decision:
        """Decide, and reserve the slot of a launch before any other coroutine runs."""
        priority = 0 if isinstance(seen.spec, SpecRefused) else seen.spec.priority
        deleted = seen.deletion_ms is not None
        no_room = self._slots.no_room(key, priority, deleted=deleted)
        decision = decide(replace(seen, no_room=no_room), self._now_ms())
        if any(isinstance(action, LaunchDriver) for action in decision.actions):
            self._slots.reserve(key, deleted=deleted)
        elif not any(isinstance(action, RefetchPods) for action in decision.actions):
            waits = bool(no_room) and decision.waits_for_room
            self._slots.note(key, waits=waits, priority=priority, deleted=deleted)
        return decision

    async def _execute(self, key: Key, raw: Raw, seen: Observation, decision: Decision) -> float | None:
        self._follow_current_driver(key, seen, decision)
        for note in decision.events:
            self._events.note(raw, note)
        return await self._executor.execute(Execution(key, raw, seen, decision, self._soft_states[key]))

    def _follow_current_driver(self, key: Key, seen: Observation, decision: Decision) -> None:
        """Poll only the driver of the decision's attempt."""
        attempt = decision.status.attempt
        pod = None
        if attempt is not None and attempt.state == "Created" and attempt.kind == "Run":
            pod = next((candidate for candidate in seen.pods if candidate.uid == attempt.pod_uid), None)
        if attempt is None or pod is None or pod.over or not (pod.started or pod.phase == "Running"):
            self._drivers.leave(key)
            return
        ip = self._cache.ip(seen.namespace, pod.name)
        self._drivers.follow(key, DriverRef(seen.namespace, pod.name, pod.uid, attempt.number, pod.ready, ip))
