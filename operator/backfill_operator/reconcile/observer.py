"""The input of a decision: the object, its pods and its driver's report, from the cache or from the API server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from backfill_api.names import BACKFILL_LABEL, ROLE_LABEL
from backfill_core.lifecycle.actions import RefetchPods
from backfill_core.lifecycle.naming import base_name, driver_name
from backfill_core.lifecycle.observation import DriverPod, Observation, SpecRefused
from backfill_operator.drivers.poller import DriverPoller
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.informer.executors import executors_of_driver
from backfill_operator.informer.parse import observation_of, pod_of
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import NotFoundError
from backfill_operator.kube.resources import BACKFILLS, PODS, Raw
from backfill_operator.queues.feed import WorkloadFeed
from backfill_operator.reconcile.shared_targets import SharedTargets
from backfill_operator.reconcile.soft_state import SoftState

DRIVERS_SELECTOR = f"{ROLE_LABEL}=driver"


class Observer:
    """Collects observations, and updates the cache with each object that it reads."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        drivers: DriverPoller,
        shared_targets: SharedTargets,
        workloads: WorkloadFeed,
        enqueue: Callable[[Key], None],
    ) -> None:
        """Take the sources; `enqueue` requests a reconcile of a Backfill that is gone from the API server."""
        self._cluster = cluster
        self._cache = cache
        self._drivers = drivers
        self._shared_targets = shared_targets
        self._workloads = workloads
        self._enqueue = enqueue

    def observe(self, key: Key, raw: Raw, soft: SoftState) -> Observation:
        """Return the observation of a Backfill: its object, its pods from the cache, and its driver's report."""
        seen = observation_of(raw, (), launch_failed=soft.launch_failed)
        attempt = seen.status.attempt
        number = attempt.number if attempt is not None else 1
        pods = self._cache.pods(key, driver_name(seen.name, number))
        token_hash = soft.token_hash(number if attempt is not None and attempt.state == "Planned" else None)
        report, shared_with = self._drivers.report(key, number), self._shared_targets.of(key)
        seen = replace(seen, pods=pods, report=report, shared_with=shared_with, token_hash=token_hash)
        return self._with_workload(key, seen)

    def _with_workload(self, key: Key, seen: Observation) -> Observation:
        """Add the Workload of a Backfill that has a queue, or had one."""
        attempt = seen.status.attempt
        queued = not isinstance(seen.spec, SpecRefused) and seen.spec.queue is not None
        queued = queued or (attempt is not None and attempt.workload_uid is not None)
        if not queued and not self._workloads.has_user(key):
            return seen
        workload, problem = self._workloads.observed(key, seen.uid)
        if not queued and workload is None and not problem:
            self._workloads.forget(key)
        return replace(seen, workload=workload, queue_problem=problem)

    async def fetch_pods(self, seen: Observation, refetch: RefetchPods) -> tuple[DriverPod, ...]:
        """Fetch the pods with the Backfill's label, and the named one; update the cache with them."""
        pod_name = refetch.pod_name
        labels = f"{DRIVERS_SELECTOR},{BACKFILL_LABEL}={base_name(seen.name)}"
        # A watch may deliver a newer pod before an older response arrives.
        before = self._cache.pod_versions((seen.namespace, seen.name), pod_name)
        pods: dict[str, DriverPod] = {}
        # One page at a time, and only the fields that the rules read: users may create large pods.
        async for page in self._cluster.pages(PODS, seen.namespace, labels=labels):
            for raw in page:
                self._cache.put_pod(raw)
                pods[raw["metadata"]["name"]] = pod_of(raw)
        if pod_name not in pods:
            named = await self._cluster.get(PODS, seen.namespace, pod_name)
            if named is not None:
                self._cache.put_pod(named)
                pods[pod_name] = pod_of(named)
        for key, (uid, version) in before.items():
            if key[1] not in pods:
                self._cache.evict_pod(key, uid, version)
        return tuple([await self._with_executors(seen, pod, refetch.executors_of) for pod in pods.values()])

    async def _with_executors(self, seen: Observation, pod: DriverPod, executors_of: str) -> DriverPod:
        """Return a driver pod with its waiting executors: from the API server for `executors_of`, else from the cache."""
        if pod.uid != executors_of:
            return self._cache.with_executors(pod)
        label = (seen.namespace, base_name(seen.name))
        return self._cache.put_executors_of(pod, await executors_of_driver(self._cluster, label, pod.uid))

    async def refresh(self, key: Key) -> None:
        """Read the object again, because the watch may deliver its change later."""
        cached = self._cache.backfill(key)
        current = await self._cluster.get(BACKFILLS, *key)
        if current is not None:
            self._cache.put_backfill(current)
        elif cached is not None:
            self._cache.drop_backfill(key, cached["metadata"]["uid"])
            self._enqueue(key)

    async def fetch_whole(self, key: Key) -> Raw:
        """Return a Backfill that the cache holds only as a stub.

        Raises:
            NotFoundError: it is gone.
        """
        raw = await self._cluster.get(BACKFILLS, *key)
        if raw is None:
            raise NotFoundError(404, "NotFound", f"{key[0]}/{key[1]} is gone")
        self._cache.put_backfill(raw)
        return raw
