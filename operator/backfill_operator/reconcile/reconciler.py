"""One look at one Backfill: observe, decide, act, write the status once.

Every decision is made elsewhere (`backfill_core.lifecycle`); here it is carried out. The order is the promise: what must
not happen unrecorded is written first, under the version of the object that was seen, and whoever was quicker makes that
write a conflict, which ends the look. What fails ends the look too, and the next one begins from what is really there.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from backfill_api.names import BACKFILL_LABEL, ROLE_LABEL
from backfill_core.lifecycle.actions import (
    Action,
    AddFinalizer,
    Decision,
    DeleteAttemptObjects,
    DeleteObject,
    DeletePod,
    EnsureObjects,
    EventNote,
    LaunchDriver,
    PersistIntent,
    RefetchPods,
    RemoveFinalizer,
    SendCommand,
)
from backfill_core.lifecycle.decide import decide
from backfill_core.lifecycle.naming import base_name, driver_name
from backfill_core.lifecycle.observation import DriverPod, LaunchFailed, Now, Observation
from backfill_operator.drivers.certificates import NoCertificateError
from backfill_operator.drivers.poller import DriverPoller, DriverRef
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.informer.compact import is_stub
from backfill_operator.informer.parse import StatusUnreadableError, observation_of, pod_of
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import ApiError, ConflictError, NotFoundError, RefusedError, UnavailableError
from backfill_operator.kube.event_recorder import EventRecorder
from backfill_operator.kube.resources import BACKFILLS, PODS, Raw
from backfill_operator.logs import log_context
from backfill_operator.metrics import Metrics
from backfill_operator.reconcile.driver_slots import DriverSlots
from backfill_operator.reconcile.launcher import Launcher
from backfill_operator.reconcile.shared_targets import SharedTargets
from backfill_operator.reconcile.soft_state import SoftState
from backfill_operator.reconcile.status_writer import BackfillWriter, CrdOutdatedError
from backfill_operator.reconcile.workqueue import RetryLaterError

DRIVERS_SELECTOR = f"{ROLE_LABEL}=driver"
UNREADABLE_AGAIN_S = 300.0
UNANSWERED_MAX = 3
"""So often a launch without an answer is tried again at once; then it is worth showing."""

_log = logging.getLogger(__name__)


class Reconciler:
    """Looks at Backfills; called by the work queue, never twice at once for the same one."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        cache: Cache,
        drivers: DriverPoller,
        launcher: Launcher,
        events: EventRecorder,
        metrics: Metrics,
        objects: BackfillWriter,
        slots: DriverSlots,
        enqueue: Callable[[Key], None],
        keep_every_s: float,
        now_ms: Callable[[], int],
    ) -> None:
        """Take the hands.

        Args:
            cluster: Where actions are done.
            cache: Where looks begin.
            drivers: Who hears from drivers.
            launcher: Who makes attempts.
            events: Who tells people.
            metrics: Who counts.
            objects: Who writes Backfills.
            slots: Knows whether there is room for a driver.
            enqueue: Has a Backfill looked at once more.
            keep_every_s: How often the objects of a running attempt are looked for.
            now_ms: Wall time.
        """
        self._cluster = cluster
        self._cache = cache
        self._drivers = drivers
        self.launcher = launcher
        self._events = events
        self._metrics = metrics
        self.objects = objects
        self._enqueue = enqueue
        self._slots = slots
        self._shared_targets = SharedTargets(cache, events, enqueue)
        self._keep_every_s = keep_every_s
        self._now_ms = now_ms
        self._soft_states: dict[Key, SoftState] = {}

    async def __call__(self, key: Key) -> float | None:
        """Look once; return after how long to look again at the latest.

        Raises:
            RetryLaterError: somebody was quicker, or the API server is in trouble.
            ApiError: it would not do it.
        """
        with log_context("/".join(key)), self._metrics.reconcile_seconds.time():
            raw = self._cache.backfill(key)
            if raw is None:
                self._forget(key)
                return None
            try:
                if is_stub(raw):
                    raw = await self._whole(key)
                return await self._look(key, raw)
            except ConflictError as conflict:
                await self._refresh(key)
                raise RetryLaterError(f"{key[0]}/{key[1]} changed meanwhile: {conflict.message}") from conflict
            except NotFoundError:
                await self._refresh(key)
                return None
            except UnavailableError as trouble:
                raise RetryLaterError(str(trouble), after_s=trouble.retry_after or 0.0) from trouble
            except StatusUnreadableError as error:
                return self._notify(raw, error.reason, error)

    async def _whole(self, key: Key) -> Raw:
        """Return a Backfill that is too large to be kept.

        Raises:
            NotFoundError: it is gone.
        """
        raw = await self._cluster.get(BACKFILLS, *key)
        if raw is None:
            raise NotFoundError(404, "NotFound", f"{key[0]}/{key[1]} is gone")
        self._cache.put_backfill(raw)
        return raw

    def _notify(self, raw: Raw, reason: str, error: Exception) -> float:
        """Say by event and log what cannot be said in a status that cannot be kept or read."""
        self._events.note(raw, EventNote("Warning", reason, str(error)))
        _log.error("%s", error)
        return UNREADABLE_AGAIN_S

    def _forget(self, key: Key) -> None:
        self._soft_states.pop(key, None)
        self._shared_targets.forget(key)
        self._slots.forget(key)
        self._drivers.leave(key)

    async def _look(self, key: Key, raw: Raw) -> float | None:
        seen = self._observe(key, raw)
        attempt, heard = seen.status.attempt, seen.report.progress if seen.report else None
        number, epoch = attempt.number if attempt else None, heard.epoch if heard else None
        with log_context("/".join(key), attempt=number, epoch=epoch):
            try:
                return await self._decide(key, raw, seen)
            except CrdOutdatedError as error:
                return self._notify(raw, error.reason, error)

    async def _decide(self, key: Key, raw: Raw, seen: Observation) -> float | None:
        decision = self._decided(key, seen)
        if decision.actions and isinstance(decision.actions[0], RefetchPods):
            pods = await self._live_pods(seen, decision.actions[0].pod_name)
            seen = replace(seen, pods=pods, live=True)
            decision = self._decided(key, seen)
        try:
            return await self._execute(key, raw, seen, decision)
        finally:
            self._slots.release(key)

    def _decided(self, key: Key, seen: Observation) -> Decision:
        """Decide; a launch has its place from here on, with nobody in between."""
        decision = decide(replace(seen, no_room=self._slots.no_room(key)), Now(self._now_ms()))
        if any(isinstance(one, LaunchDriver) for one in decision.actions):
            self._slots.reserve(key)
        return decision

    async def _execute(self, key: Key, raw: Raw, seen: Observation, decision: Decision) -> float | None:
        try:
            return await self._act(key, raw, seen, decision)
        except (RefusedError, CrdOutdatedError):
            if seen.deletion_ms is None:
                raise
        # Whatever its status write says: an object that somebody wants gone goes.
        seen = replace(seen, recordable=False)
        return await self._act(key, raw, seen, decide(seen, Now(self._now_ms())))

    async def _act(self, key: Key, raw: Raw, seen: Observation, decision: Decision) -> float | None:
        self._follow_current_driver(key, seen, decision)
        for note in decision.events:
            self._events.note(raw, note)
        return await _Round(self, key, raw, seen, decision).run()

    # ------------------------------------------------------------ observe
    def _observe(self, key: Key, raw: Raw) -> Observation:
        uid = raw["metadata"]["uid"]
        state = self._soft_states.get(key)
        if state is None or state.uid != uid:
            state = self._soft_states[key] = SoftState(uid)
        seen = observation_of(raw, (), launch_failed=state.launch_failed)
        attempt = seen.status.attempt
        number = attempt.number if attempt is not None else 1
        pods = self._cache.pods(key, driver_name(seen.name, number))
        self._shared_targets.warn_of_pruned_fields(key, raw)
        token_hash = state.token_hash(number if attempt is not None and attempt.state == "Planned" else None)
        report, beside = self._drivers.look(key, number), self._shared_targets.of(key)
        return replace(seen, pods=pods, report=report, beside=beside, token_hash=token_hash)

    async def _live_pods(self, seen: Observation, pod_name: str) -> tuple[DriverPod, ...]:
        """Ask for the pods by label, and for the one by name; what is heard is news for the cache too."""
        labels = f"{DRIVERS_SELECTOR},{BACKFILL_LABEL}={base_name(seen.name)}"
        found: dict[str, DriverPod] = {}
        # A page at a time, and of each pod what the rules read: whoever may make pods may make large ones.
        async for page in self._cluster.pages(PODS, seen.namespace, labels=labels):
            for one in page:
                self._cache.put_pod(one)
                found[one["metadata"]["name"]] = pod_of(one)
        if pod_name not in found:
            named = await self._cluster.get(PODS, seen.namespace, pod_name)
            if named is not None:
                self._cache.put_pod(named)
                found[pod_name] = pod_of(named)
        for pod in self._cache.pods((seen.namespace, seen.name), pod_name):
            if pod.name not in found:
                self._cache.drop_pod((seen.namespace, pod.name), pod.uid)
        return tuple(found.values())

    async def _refresh(self, key: Key) -> None:
        """Take the object as it is now: the watch may need a while to say so."""
        there = await self._cluster.get(BACKFILLS, *key)
        known = self._cache.backfill(key)
        if there is not None:
            self._cache.put_backfill(there)
        elif known is not None:
            self._cache.drop_backfill(key, known["metadata"]["uid"])
            self._enqueue(key)

    def _follow_current_driver(self, key: Key, seen: Observation, decision: Decision) -> None:
        """Follow the driver that the decision stands on, and nobody else's."""
        attempt = decision.status.attempt
        pod = None
        if attempt is not None and attempt.state == "Created" and attempt.kind == "Run":
            pod = next((one for one in seen.pods if one.uid == attempt.pod_uid), None)
        if attempt is None or pod is None or pod.over or pod.phase != "Running":
            self._drivers.leave(key)
            return
        ip = self._cache.ip(seen.namespace, pod.name)
        self._drivers.follow(key, DriverRef(seen.namespace, pod.name, pod.uid, attempt.number, pod.ready, ip))

    # ------------------------------------------------------------ act
    async def launch(self, key: Key, seen: Observation, action: LaunchDriver) -> bool:
        """Make an attempt; when the API server will not, remember its words for the next look, which is at once."""
        began = time.monotonic()
        state = self._soft_states[key]
        try:
            state.token_of = action.attempt
            pod = await self.launcher.launch(seen, action, state.token)
        except (ApiError, NoCertificateError) as error:
            state.unanswered += 1
            if isinstance(error, UnavailableError) and state.unanswered <= UNANSWERED_MAX:
                raise
            status, reason = (error.status, error.reason) if isinstance(error, ApiError) else (0, error.reason)
            words = error.message if isinstance(error, ApiError) else str(error)
            state.launch_failed = LaunchFailed(action.attempt, self._now_ms(), status, reason, words)
            self._metrics.launch_failures.labels(reason or str(status)).inc()
            _log.warning("attempt %d was not made: %s", action.attempt, error)
            self._enqueue(key)
            return False
        state.launch_failed, state.unanswered = None, 0
        self._metrics.launch_seconds.observe(time.monotonic() - began)
        _log.info("attempt %d: pod %s", action.attempt, pod["metadata"]["name"], extra={"attempt": action.attempt})
        self._cache.put_pod(pod)
        self._enqueue(key)
        return True

    async def delete_pod(self, namespace: str, action: DeletePod) -> None:
        """Delete it if it is still the one that was seen."""
        try:
            await self._cluster.delete(PODS, namespace, action.name, uid=action.uid, grace_s=action.grace_s)
        except ConflictError:
            _log.info("pod %s is another one by now", action.name)

    def keep_in_s(self, key: Key) -> float:
        """Return when the objects of an attempt are to be looked for again; a restart spreads them over one period."""
        state, now = self._soft_states[key], time.monotonic()
        if state.kept_at is None:
            state.kept_at = now - random.random() * self._keep_every_s
        return max(0.0, state.kept_at + self._keep_every_s - now)

    async def keep(self, key: Key, raw: Raw, seen: Observation, decision: Decision, action: EnsureObjects) -> Raw:
        """Make again what of a running attempt's objects is gone; return the Backfill, which is written before that."""
        lost = await self.launcher.lost(seen, action.of.attempt)
        if lost:
            pod_name = driver_name(seen.name, action.of.attempt)
            # An attempt may have ended since this look began, and its objects with it: then this is a conflict.
            raw = await self.objects.write(raw, decision.status, fence=True)
            await self.launcher.make_again(seen, action.of, lost)
            if "Secret" in lost:
                words = (
                    f"Secret {pod_name} was deleted: after the operator's next restart nobody can command this driver"
                )
                self._events.note(raw, EventNote("Warning", "SecretMissing", f"{words}; restart the attempt"))
            if mended := ", ".join(sorted(lost - {"Secret"})):
                self._events.note(raw, EventNote("Warning", "ObjectsMissing", f"{pod_name}: made again: {mended}"))
        self._soft_states[key].kept_at = time.monotonic()
        return raw

    def send(self, key: Key, actions: tuple[Action, ...]) -> None:
        """Hand commands over; their acknowledgements make the next look."""
        requests = tuple(one.request for one in actions if isinstance(one, SendCommand))
        if requests:
            self._drivers.send(key, requests)


@dataclass(slots=True)
class _Round:
    """One decision that is carried out."""

    hands: Reconciler
    key: Key
    raw: Raw
    seen: Observation
    decision: Decision

    async def run(self) -> float | None:
        """Do the actions in order, then write the status; the first failure ends it."""
        recorded, version = False, self._version()
        for action in self.decision.actions:
            if isinstance(action, PersistIntent):
                self.raw = await self.hands.objects.write(self.raw, self.decision.status, fence=True)
                recorded = True
            elif not await self._do(action):
                return self.decision.requeue_after_s
        self.hands.send(self.key, self.decision.actions)
        later = None
        if not recorded and self.seen.recordable:
            self.raw, later = await self.hands.objects.write_at_pace(self.raw, self.seen.status, self.decision.status)
        if self._version() != version:
            # What was written is news like any other, and the watch will not tell what the cache knows already.
            return 0.0
        return _earlier(self.decision.requeue_after_s, later, await self._keep())

    async def _keep(self) -> float | None:
        """Look for the objects of the attempt if it is time; return when it will be."""
        action = next((one for one in self.decision.actions if isinstance(one, EnsureObjects)), None)
        if action is None:
            return None
        if self.hands.keep_in_s(self.key) <= 0:
            self.raw = await self.hands.keep(self.key, self.raw, self.seen, self.decision, action)
        return self.hands.keep_in_s(self.key)

    def _version(self) -> str:
        return str(self.raw["metadata"]["resourceVersion"])

    async def _do(self, action: Action) -> bool:
        """Do one thing; False: it did not work, and the next look knows why."""
        hands, seen = self.hands, self.seen
        match action:
            case LaunchDriver():
                return await hands.launch(self.key, seen, action)
            case DeletePod():
                await hands.delete_pod(seen.namespace, action)
            case DeleteAttemptObjects():
                await hands.launcher.remove(seen, action.attempt)
            case AddFinalizer():
                self.raw = await hands.objects.set_finalizer(self.raw, there=True)
            case RemoveFinalizer():
                self.raw = await hands.objects.set_finalizer(self.raw, there=False)
            case DeleteObject():
                await hands.objects.delete(self.raw)
            case PersistIntent() | SendCommand() | EnsureObjects() | RefetchPods():
                pass
        return True


def _earlier(*delays: float | None) -> float | None:
    given = [delay for delay in delays if delay is not None]
    return min(given) if given else None
