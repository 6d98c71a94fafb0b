"""Finds waiting executor pods periodically, with one list of Pending pods for any number of Backfills.

A watch would deliver every change of every executor. A list for each Backfill would be ten thousand requests. Few pods
are Pending, and a namespace without a recorded driver is not listed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from backfill_api.names import BACKFILL_LABEL, ROLE_LABEL
from backfill_core.lifecycle.observation import WaitingExecutors
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.informer.namespaces import WatchedNamespaces
from backfill_operator.informer.parse import label_of, owner_uid, phase_of, unscheduled_of, waiting_of
from backfill_operator.informer.relist import UNREADABLE
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import ApiError
from backfill_operator.kube.rate import jittered, wait
from backfill_operator.kube.resources import PODS, Raw
from backfill_operator.settings import OperatorSettings

EXECUTORS_SELECTOR: Final = f"{ROLE_LABEL}=executor"
PENDING: Final = "status.phase=Pending"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExecutorPod:
    """An executor pod that has not ended."""

    name: str
    driver_uid: str
    """UID of the driver pod that created it and owns it."""

    label: Key
    """Namespace and label of its Backfill."""

    running: bool
    waiting: str = ""
    """Reason why one of its containers waits."""

    message: str = ""
    """Message of the waiting container, or else of the scheduler."""

    @property
    def waits(self) -> bool:
        """True if the pod reports why it does not start; a new pod does not report it yet."""
        return not self.running and bool(self.waiting or self.message)


def executor_of(raw: Raw) -> ExecutorPod | None:
    """Return an executor pod as the rules read it; `None` if it has ended, is being deleted, or has no owner pod."""
    metadata, driver_uid, phase = raw["metadata"], owner_uid(raw), phase_of(raw)
    if driver_uid is None or metadata.get("deletionTimestamp") or phase in ("Succeeded", "Failed"):
        return None
    waiting, message = waiting_of(raw)
    label = (str(metadata.get("namespace", "")), label_of(raw, BACKFILL_LABEL))
    name, running = str(metadata.get("name", "")), phase == "Running"
    return ExecutorPod(name, driver_uid, label, running, waiting, message or unscheduled_of(raw))


def waiting_executors(pods: Iterable[ExecutorPod], *, running: int | None) -> WaitingExecutors | None:
    """Return one executor that represents the driver's waiting executors; `None` if none waits.

    Args:
        pods: Executors of one driver.
        running: Number of running executors; `None` if only waiting ones were listed.
    """
    # The choice is stable, so it causes no status writes. A container's reason is more specific than a scheduler's.
    first = min((pod for pod in pods if pod.waits), key=lambda pod: (not pod.waiting, pod.name), default=None)
    return None if first is None else WaitingExecutors(first.waiting, first.message, running)


class ExecutorLooks:
    """Refreshes the cached waiting executors every `executors_seconds`."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        settings: OperatorSettings,
        *,
        enqueue: Callable[[Key], None],
        watched: WatchedNamespaces,
        on_unreadable: Callable[[str, object], None] = lambda _plural, _error: None,
    ) -> None:
        """Take the parts.

        Args:
            cluster: Lists the pods.
            cache: Provides the namespaces with drivers, and stores the waiting executors.
            settings: Interval.
            enqueue: Requests a reconcile of a Backfill.
            watched: The namespaces.
            on_unreadable: Called with the resource and the reason when a pod cannot be read.
        """
        self._cluster = cluster
        self._cache = cache
        self._settings = settings
        self._enqueue = enqueue
        self._watched = watched
        self._on_unreadable = on_unreadable

    async def run(self) -> None:
        """List waiting executors until cancelled."""
        while True:
            await wait(jittered(self._settings.executors_seconds))
            await self.once()

    async def once(self) -> None:
        """List once; if a namespace cannot be listed, its cached executors stay unchanged."""
        for namespace in self._watched.lists:
            try:
                waiting = await self._list(namespace) if self._cache.active_attempts(namespace) else {}
            except ApiError as error:
                _log.info("executors of %s cannot be listed: %s", namespace or "all namespaces", error)
                continue
            for key in self._cache.put_executors(waiting, namespace):
                self._enqueue(key)

    async def _list(self, namespace: str | None) -> dict[str, tuple[Key, WaitingExecutors]]:
        pods: dict[str, list[ExecutorPod]] = {}
        async for page in self._cluster.pages(PODS, namespace, labels=EXECUTORS_SELECTOR, fields=PENDING):
            for raw in page:
                pod = self._read(raw)
                if pod is not None and pod.waits:
                    pods.setdefault(pod.driver_uid, []).append(pod)
        by_driver: dict[str, tuple[Key, WaitingExecutors]] = {}
        for uid, waiting in pods.items():
            if (executors := waiting_executors(waiting, running=None)) is not None:
                by_driver[uid] = waiting[0].label, executors
        return by_driver

    def _read(self, raw: Raw) -> ExecutorPod | None:
        try:
            return executor_of(raw)
        except UNREADABLE as error:
            self._on_unreadable(PODS.plural, error)
            return None


async def executors_of_driver(cluster: Cluster, label: Key, driver_uid: str) -> WaitingExecutors | None:
    """Read all executors of one driver from the API server, including running ones."""
    labels = f"{EXECUTORS_SELECTOR},{BACKFILL_LABEL}={label[1]}"
    pods: list[ExecutorPod] = []
    async for page in cluster.pages(PODS, label[0], labels=labels):
        pods += [pod for raw in page if (pod := executor_of(raw)) is not None and pod.driver_uid == driver_uid]
    return waiting_executors(pods, running=sum(pod.running for pod in pods))
