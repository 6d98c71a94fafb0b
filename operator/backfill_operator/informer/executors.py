"""Looks at intervals for executor pods that wait: one list of those that are Pending, whatever the number of Backfills.

A watch would bring every change of every executor, and a list for each Backfill ten thousand requests. Pods that are Pending are
few, and where no driver is on record none is asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from backfill_api.names import BACKFILL_LABEL, ROLE_LABEL
from backfill_core.lifecycle.observation import WaitingExecutors
from backfill_operator.informer.cache import Cache, Key
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
    """One executor pod that is not over."""

    name: str
    driver_uid: str
    """UID of the driver pod that made it, which owns it."""

    label: Key
    """Namespace and label of its Backfill."""

    running: bool
    waiting: str = ""
    """Why one of its containers waits."""

    message: str = ""
    """Of the container, else of the scheduler."""

    @property
    def waits(self) -> bool:
        """Does it say why it does not start? One that was just made does not."""
        return not self.running and bool(self.waiting or self.message)


def executor_of(raw: Raw) -> ExecutorPod | None:
    """Return an executor pod as the rules read it; None: it is over or being deleted, or no pod owns it."""
    metadata, driver_uid, phase = raw["metadata"], owner_uid(raw), phase_of(raw)
    if driver_uid is None or metadata.get("deletionTimestamp") or phase in ("Succeeded", "Failed"):
        return None
    waiting, message = waiting_of(raw)
    label = (str(metadata.get("namespace", "")), label_of(raw, BACKFILL_LABEL))
    name, running = str(metadata.get("name", "")), phase == "Running"
    return ExecutorPod(name, driver_uid, label, running, waiting, message or unscheduled_of(raw))


def waiting_executors(pods: Iterable[ExecutorPod], *, running: int | None) -> WaitingExecutors | None:
    """Return what stands for the executors of one driver that wait; None: none does.

    Args:
        pods: Executors of one driver.
        running: How many of its executors run; None: only those that wait were listed.
    """
    # The same one at each look, so that the status is not written for its sake; a container's reason says more than a scheduler's.
    found = min((one for one in pods if one.waits), key=lambda one: (not one.waiting, one.name), default=None)
    return None if found is None else WaitingExecutors(found.waiting, found.message, running)


class ExecutorLooks:
    """Keeps the cache's word of executors that wait as old as `executors_seconds` at most."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        settings: OperatorSettings,
        *,
        enqueue: Callable[[Key], None],
        on_unreadable: Callable[[str, object], None] = lambda _plural, _error: None,
    ) -> None:
        """Take the parts.

        Args:
            cluster: Lists the pods.
            cache: Knows where drivers are, and keeps what is found.
            settings: Interval and namespaces.
            enqueue: Requests a reconcile of a Backfill.
            on_unreadable: Called with the resource and the reason when a pod cannot be read.
        """
        self._cluster = cluster
        self._cache = cache
        self._settings = settings
        self._enqueue = enqueue
        self._on_unreadable = on_unreadable

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await wait(jittered(self._settings.executors_seconds))
            await self.once()

    async def once(self) -> None:
        """Look once; what is known of a namespace that cannot be listed stays as it was."""
        for namespace in self._settings.namespaces or (None,):
            try:
                found = await self._list(namespace) if self._cache.active_attempts(namespace) else {}
            except ApiError as error:
                _log.info("executors of %s cannot be listed: %s", namespace or "all namespaces", error)
                continue
            for key in self._cache.put_executors(found, namespace):
                self._enqueue(key)

    async def _list(self, namespace: str | None) -> dict[str, tuple[Key, WaitingExecutors]]:
        pods: dict[str, list[ExecutorPod]] = {}
        async for page in self._cluster.pages(PODS, namespace, labels=EXECUTORS_SELECTOR, fields=PENDING):
            for raw in page:
                one = self._read(raw)
                if one is not None and one.waits:
                    pods.setdefault(one.driver_uid, []).append(one)
        found: dict[str, tuple[Key, WaitingExecutors]] = {}
        for uid, waiting in pods.items():
            if (executors := waiting_executors(waiting, running=None)) is not None:
                found[uid] = waiting[0].label, executors
        return found

    def _read(self, raw: Raw) -> ExecutorPod | None:
        try:
            return executor_of(raw)
        except UNREADABLE as error:
            self._on_unreadable(PODS.plural, error)
            return None


async def executors_of_driver(cluster: Cluster, label: Key, driver_uid: str) -> WaitingExecutors | None:
    """Ask the API server for the executors of one driver, those that run included."""
    labels = f"{EXECUTORS_SELECTOR},{BACKFILL_LABEL}={label[1]}"
    found: list[ExecutorPod] = []
    async for page in cluster.pages(PODS, label[0], labels=labels):
        found += [one for raw in page if (one := executor_of(raw)) is not None and one.driver_uid == driver_uid]
    return waiting_executors(found, running=sum(one.running for one in found))
