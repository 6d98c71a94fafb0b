"""Builds the operator from its parts and runs them.

kopf's watches, relist -> cache -> queue -> reconciler -> cluster
                            drivers -> queue
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import kopf
from kubernetes.aio.client.configuration import Configuration

from backfill_operator.drivers.addresses import AddressBook, Reach, by_pod_ip
from backfill_operator.drivers.control_client import ControlClient
from backfill_operator.drivers.poller import DriverPoller
from backfill_operator.health import Health
from backfill_operator.informer.all_jobs import AllJobsSwitch
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.informer.executors import ExecutorLooks
from backfill_operator.informer.kopf_watches import kopf_settings, registry_of
from backfill_operator.informer.namespaces import NamespaceFeed, NamespaceSelection, WatchedNamespaces
from backfill_operator.informer.pace import WatchPace
from backfill_operator.informer.relist import Relist
from backfill_operator.informer.watch_session import WatchSession, open_session
from backfill_operator.job_metrics import JobMetrics
from backfill_operator.kube.client import Call, Cluster
from backfill_operator.kube.election import Election
from backfill_operator.kube.errors import ApiError
from backfill_operator.kube.event_recorder import EventRecorder
from backfill_operator.kube.resources import WORKLOADS
from backfill_operator.kube.server_clock import ServerClock, wall_ms
from backfill_operator.manifests.attempt import Installation
from backfill_operator.metrics import Metrics
from backfill_operator.queues.feed import WorkloadFeed
from backfill_operator.queues.workloads import Workloads
from backfill_operator.reconcile.actions import ReconcileActions
from backfill_operator.reconcile.driver_slots import DriverSlots
from backfill_operator.reconcile.launcher import Launcher, manifests_of, workloads_of
from backfill_operator.reconcile.reconciler import Reconciler
from backfill_operator.reconcile.status_writer import BackfillWriter
from backfill_operator.reconcile.workqueue import RetryLaterError, WorkQueue
from backfill_operator.settings import OperatorSettings

_log = logging.getLogger(__name__)


class Operator:
    """One operator process; made inside the event loop that it runs in."""

    def __init__(
        self,
        configuration: Configuration,
        settings: OperatorSettings,
        *,
        reach: Reach = by_pod_ip,
        observe: Callable[[Call], None] | None = None,
        own_ms: Callable[[], int] = wall_ms,
    ) -> None:
        """Build the parts; nothing runs yet.

        Args:
            configuration: Address and credentials of the API server.
            settings: All other settings.
            reach: Returns the address of a driver.
            observe: Called for each request to the API server, in addition to the metrics.
            own_ms: Wall time of this machine in milliseconds; it may be wrong.
        """
        self.settings = settings
        self.cache = Cache()
        clock = ServerClock(own_ms)
        self.jobs = JobMetrics(self.cache, settings.job_metrics_max, leads=self._leads, now_ms=clock.now_ms)
        self.metrics = Metrics(self.cache.phases, self.jobs.chunks)
        self.queue: WorkQueue[Key] = WorkQueue(
            on_waited=self.metrics.queue_wait_seconds.observe, on_failed=self._on_failed
        )
        self.metrics.queue_depth.set_function(lambda: len(self.queue))
        self.cluster = Cluster(configuration, settings, observe=self._observed(observe), clock=clock)
        self.control = ControlClient(settings.control_timeout_seconds)
        self.events = EventRecorder(self.cluster, settings.identity, clock.now_ms)
        self.drivers = DriverPoller(
            self.control, AddressBook(self.cluster, reach).locate, settings, self.metrics,
            enqueue=self.queue.add, now_ms=clock.now_ms,
        )  # fmt: skip
        writer = BackfillWriter(
            self.cluster, self.cache, self.metrics, settings.progress_writes_per_second,
            notify=self.events.note, now_ms=clock.now_ms, monotonic=time.monotonic,
        )  # fmt: skip
        self.watched = WatchedNamespaces(settings)
        self.slots = DriverSlots(self.cache, settings, self.queue.add)
        self.relist = Relist(
            self.cluster, self.cache, settings, self.metrics, enqueue=self.queue.add, monotonic=time.monotonic,
            on_unreadable=self._on_unreadable, watched=self.watched,
        )  # fmt: skip
        self.executors = ExecutorLooks(
            self.cluster, self.cache, settings, enqueue=self.queue.add, on_unreadable=self._on_unreadable,
            watched=self.watched,
        )  # fmt: skip
        self.all_jobs, self.selection = self._own_watches(configuration)
        self.workloads = WorkloadFeed(
            self.cluster, self.watched, open_session=self._sessions_of(configuration, WORKLOADS.plural),
            enqueue=self.queue.add,
        )  # fmt: skip
        self.reconciler = self._reconciler(writer, clock)
        self.election = Election(self.cluster, settings, now_ms=clock.now_ms) if settings.leader_election else None
        self.health = Health(settings, self.relist, self.election, self.metrics)
        self.watching = asyncio.Event()
        """Set when kopf's watches have started."""

        self._registry = self._registry_of(configuration)

    def _reconciler(self, writer: BackfillWriter, clock: ServerClock) -> Reconciler:
        installation = _installation(self.settings)
        launcher = Launcher(self.cluster, manifests_of(installation))
        workloads = Workloads(self.cluster, self.workloads, workloads_of(installation), clock.now_ms)
        executor = ReconcileActions(
            cluster=self.cluster, cache=self.cache, drivers=self.drivers, launcher=launcher, workloads=workloads,
            writer=writer, events=self.events, metrics=self.metrics, enqueue=self.queue.add,
            ensure_every_s=self.settings.relist_max_seconds, now_ms=clock.now_ms,
        )  # fmt: skip
        return Reconciler(
            cluster=self.cluster, cache=self.cache, drivers=self.drivers, executor=executor, events=self.events,
            metrics=self.metrics, slots=self.slots, workloads=self.workloads, enqueue=self.queue.add, now_ms=clock.now_ms,
            pause_all=lambda: self.all_jobs.value,
        )  # fmt: skip

    def _own_watches(self, configuration: Configuration) -> tuple[AllJobsSwitch, NamespaceSelection]:
        """Return the watches that kopf does not run."""
        return AllJobsSwitch(
            self.cluster, self.cache, self.settings, open_session=self._sessions_of(configuration, "configmaps"),
            enqueue=self.queue.add,
        ), NamespaceSelection(
            self.cluster, self.settings, self.watched, open_session=self._sessions_of(configuration, "namespaces"),
            on_change=self.relist.release,
        )  # fmt: skip

    def _sessions_of(self, configuration: Configuration, plural: str) -> Callable[[], WatchSession]:
        """Return the maker of sessions for a watch of our own."""
        pace = WatchPace(
            self.settings.watch_retry_max_seconds, lambda _: self.metrics.watch_failures.labels(plural).inc()
        )
        return partial(
            open_session, configuration, pace, start_version=lambda _path, version: version, on_watch=lambda _path: None,
            on_unreadable=self._on_unreadable, admitted=self.cluster.admitted, silence_s=self.settings.watch_silence_seconds,
        )  # fmt: skip

    def _registry_of(self, configuration: Configuration) -> kopf.OperatorRegistry:
        return registry_of(
            configuration, self.cache, self.metrics, NamespaceFeed(self.watched), self.settings, admitted=self.cluster.admitted, enqueue=self.queue.add, on_event=self.relist.on_watch_event,
            start_version=self.relist.start_version, on_unreadable=self._on_unreadable,
        )  # fmt: skip

    def _leads(self) -> bool:
        return self.election is None or self.election.leading.is_set()

    async def run(self) -> None:
        """Run until cancelled, or until a part fails; then the other parts end too.

        Raises:
            ExceptionGroup: the errors of the parts; if it contains a LeadershipLostError, the process must end.
        """
        async with self.cluster, self.control, self.health.served(), asyncio.TaskGroup() as group:
            group.create_task(self.relist.run(), name="relist")
            if self.settings.namespace_selector:
                group.create_task(self.selection.run(), name="namespaces")
            group.create_task(self.health.watch_the_loop(), name="event loop")
            group.create_task(self.events.run(), name="events")
            group.create_task(self._watch(), name="watches")
            group.create_task(self._work(), name="workers")
            if self.election is not None:
                group.create_task(self.election.run(), name="election")

    async def _watch(self) -> None:
        # kopf's watches start from the version at which our own list began.
        await self.relist.complete.wait()
        by_label = bool(self.settings.namespace_selector)
        await kopf.operator(
            registry=self._registry,
            settings=kopf_settings(self.settings),
            namespaces=["*"] if by_label else self.settings.namespaces,
            clusterwide=self.watched.all,
            standalone=True,
            ready_flag=self.watching,
        )
        raise RuntimeError("kopf has stopped")

    async def _work(self) -> None:
        """Reconcile after the first complete list, and while this process is the leader."""
        # Before the first list, the pod of a running Backfill would seem to be missing.
        await self.relist.complete.wait()
        if self.election is not None:
            await self.election.leading.wait()
        # Before the first decision, so that no driver starts while all jobs are paused.
        with suppress(TimeoutError, ApiError):
            async with asyncio.timeout(self.settings.request_timeout_seconds):
                await self.all_jobs.once()
        # Before the first decision, so that a change of leader does not remove waiting executors from a status.
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.request_timeout_seconds):
                await self.executors.once()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.executors.run(), name="executors")
                group.create_task(self.all_jobs.run(), name="all jobs")
                group.create_task(self.workloads.run(), name="workloads")
                await self.queue.run(self.reconciler, self.settings.workers)
        finally:
            await self.drivers.close()
            if self.election is not None:
                await self.election.release()

    def _on_unreadable(self, plural: str, error: object) -> None:
        """Count and log an unreadable object."""
        self.metrics.unreadable.labels(plural).inc()
        _log.warning("an object of %s cannot be read and is left out: %s", plural, str(error)[:500])

    def _on_failed(self, key: Key, error: Exception) -> None:
        self.metrics.reconcile_errors.labels(type(error).__name__).inc()
        if isinstance(error, RetryLaterError):
            _log.info("%s/%s is reconciled again later: %s", *key, error)
        else:
            _log.error("%s/%s: the reconcile failed", *key, exc_info=error, extra={"job": "/".join(key)})

    def _observed(self, observe: Callable[[Call], None] | None) -> Callable[[Call], None]:
        if observe is None:
            return self.metrics.observe_call

        def both(call: Call) -> None:
            self.metrics.observe_call(call)
            observe(call)

        return both


def _installation(settings: OperatorSettings) -> Installation:
    return Installation(
        image=settings.default_image,
        service_account=settings.service_account,
        user=None if settings.pod_user == "none" else int(settings.pod_user),
        limits=settings.limits,
        encrypt=settings.encrypt_spark,
        labels=settings.labels,
        templates=settings.templates,
    )
