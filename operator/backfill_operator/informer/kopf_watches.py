"""The two watches, run by kopf: each event updates the cache and enqueues its Backfill.

kopf does login and watch streams only. Its finalizers, annotations, timers, daemons, indices, events and peering are off,
so kopf writes nothing to the cluster. docs/adr/0032 explains why.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar, cast

import aiohttp
import kopf
from kubernetes.aio.client.configuration import Configuration

from backfill_api.names import GROUP, PLURAL, ROLE_LABEL, VERSION
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.informer.discovery import Feed
from backfill_operator.informer.pace import WatchPace
from backfill_operator.informer.watch_session import ITEMS_OF_A_LIST, StartVersion, open_session
from backfill_operator.kube.read_budget import ReadBudgetError, read_budget
from backfill_operator.kube.resources import PODS, Raw, key_of
from backfill_operator.metrics import Metrics
from backfill_operator.settings import OperatorSettings

T = TypeVar("T")


def registry_of(
    configuration: Configuration,
    cache: Cache,
    metrics: Metrics,
    namespaces: Feed,
    settings: OperatorSettings,
    *,
    admitted: Callable[[], Awaitable[None]],
    enqueue: Callable[[Key], None],
    on_event: Callable[[str], None],
    start_version: StartVersion,
    on_unreadable: Callable[[str, object], None],
) -> kopf.OperatorRegistry:
    """Return kopf's registry with our two event handlers.

    Args:
        configuration: Address and credentials, the same as our own client's.
        cache: Updated with each event.
        metrics: Counts reconnects and failures.
        namespaces: The served namespaces, which kopf reads unless they are fixed.
        settings: The longest silence of a watch, and the longest pause before a failed one is tried again.
        admitted: Waits for a place in the rate limit.
        enqueue: Called with the Backfill to reconcile.
        on_event: Called with the resource of each event.
        start_version: Returns the version from which a watch starts.
        on_unreadable: Called with the resource and the reason when a line of a watch is skipped.
    """
    registry, on_watch = kopf.OperatorRegistry(), ReconnectCounter(metrics)
    pace = WatchPace(settings.watch_retry_max_seconds, lambda path: metrics.watch_failures.labels(_plural(path)).inc())

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        http = open_session(
            configuration, pace, start_version=start_version, on_watch=on_watch, on_unreadable=on_unreadable,
            admitted=admitted, namespaces=namespaces, silence_s=settings.watch_silence_seconds,
        )  # fmt: skip
        return kopf.AiohttpSession(server=configuration.host, aiohttp_session=cast("aiohttp.ClientSession", http))

    # Coroutines, because kopf runs plain functions in threads, and cache and queue belong to the event loop.
    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def backfill(event: Any, **_: Any) -> None:
        raw: Raw = event["object"]
        on_event(PLURAL)
        if event["type"] == "DELETED":
            cache.drop_backfill(key_of(raw), raw["metadata"]["uid"])
            enqueue(key_of(raw))
        elif _read(cache.put_backfill, raw, PLURAL, on_unreadable):
            enqueue(key_of(raw))

    @kopf.on.event("", "v1", "pods", labels={ROLE_LABEL: "driver"}, registry=registry)
    async def driver_pod(event: Any, **_: Any) -> None:
        raw: Raw = event["object"]
        on_event(PODS.plural)
        deleted = event["type"] == "DELETED"
        for key in cache.drop_pod(raw) if deleted else _read(cache.put_pod, raw, PODS.plural, on_unreadable) or ():
            enqueue(key)

    return registry


def _plural(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _read(put: Callable[[Raw], T], raw: Raw, plural: str, on_unreadable: Callable[[str, object], None]) -> T | None:
    """Store an object; if reading it takes too long, report it and skip it until it changes."""
    try:
        with read_budget():
            return put(raw)
    except ReadBudgetError as error:
        on_unreadable(plural, error)
        return None


def kopf_settings(settings: OperatorSettings) -> kopf.OperatorSettings:
    """Return kopf's settings: watch, and write nothing."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.peering.standalone = True
    # The definitions of resources are fixed; namespaces too, unless a label selects them.
    made.scanning.disabled = not settings.namespace_selector
    made.watching.chunk_size = ITEMS_OF_A_LIST
    # `WatchSession` ends a silent watch. kopf's own time-out may end kopf's watcher.
    made.watching.inactivity_timeout = math.inf
    made.watching.label_selectors["", "v1", "pods"] = f"{ROLE_LABEL}=driver"
    made.networking.request_timeout = settings.request_timeout_seconds
    made.networking.error_backoffs = NoBackoffs()
    # kopf keeps a task for each object. Our handlers return at once, so the tasks can end.
    made.queueing.idle_timeout = 0.1
    made.persistence.diffbase_storage = NoDiffBase()
    made.persistence.progress_storage = NoProgress()
    made.process.ultimate_exiting_timeout = None
    return made


class NoBackoffs:
    """An endless series of zero delays for kopf's requests, because `WatchPace` delays each request.

    By default kopf waits up to 21 seconds, and ends the process after the ninth failure. But a restarting API server may
    answer at any time, and a forbidden namespace must not affect other namespaces.
    """

    def __iter__(self) -> Iterator[float]:
        """Yield the delays of one request."""
        return itertools.repeat(0.0)


class NoDiffBase(kopf.DiffBaseStorage):
    """Replaces kopf's record of the last handled state, which no handler of ours reads.

    kopf's own storage deep-copies every object at every event. That took half of the operator's CPU time.
    """

    def build(self, **_: Any) -> Any:
        """Return the same empty essence for every object."""
        return {}

    def fetch(self, **_: Any) -> Any:
        """Nothing was ever stored."""
        return None

    def store(self, **_: Any) -> None:
        """Nothing is stored."""


class NoProgress(kopf.ProgressStorage):
    """Replaces kopf's record of unfinished handlers; ours finish at once."""

    def fetch(self, **_: Any) -> Any:
        """Nothing was ever stored."""
        return None

    def store(self, **_: Any) -> None:
        """Nothing is stored."""

    def purge(self, **_: Any) -> None:
        """Nothing is stored."""

    def touch(self, **_: Any) -> None:
        """Nothing is stored."""

    def clear(self, *, essence: Any) -> Any:
        """Return the essence unchanged; nothing is stored in it."""
        return essence


class ReconnectCounter:
    """Counts the watches of a path that the API server accepts after the first one."""

    def __init__(self, metrics: Metrics) -> None:
        """Take the metrics that hold the count."""
        self._metrics = metrics
        self._watched: set[str] = set()

    def __call__(self, path: str) -> None:
        """Count an accepted watch of this path."""
        if path in self._watched:
            self._metrics.watch_reconnects.labels(_plural(path)).inc()
        self._watched.add(path)
