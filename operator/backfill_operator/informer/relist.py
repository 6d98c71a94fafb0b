"""Lists all objects periodically: finds changes that a watch missed, and drops deleted objects.

A forbidden namespace is skipped, and its cached objects stay: it is being deleted, or has no Role yet. Other namespaces
must not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from backfill_api.names import ROLE_LABEL
from backfill_core.errors import BackfillError
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.informer.list_watch import FAILED_AGAIN_S
from backfill_operator.informer.namespaces import WatchedNamespaces
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import FORBIDDEN, ApiError, RefusedError
from backfill_operator.kube.rate import wait
from backfill_operator.kube.read_budget import read_budget
from backfill_operator.kube.resources import BACKFILLS, PODS, Raw, Resource, key_of
from backfill_operator.metrics import Metrics
from backfill_operator.settings import OperatorSettings

VERSION: Final = re.compile(r"[0-9]{1,20}")
"""An etcd revision."""

UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that parsing a malformed object may raise."""

_log = logging.getLogger(__name__)


class ClusterRestoredError(BackfillError):
    """The cluster is older than the cache: its store was restored, so the process must restart with an empty cache."""

    reason = "ClusterRestored"
    exit_code = 1


class Relist:
    """Compares the cache with the cluster at intervals; the first run fills the cache."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        settings: OperatorSettings,
        metrics: Metrics,
        *,
        enqueue: Callable[[Key], None],
        monotonic: Callable[[], float],
        watched: WatchedNamespaces | None = None,
        on_unreadable: Callable[[str, object], None] = lambda _plural, _error: None,
    ) -> None:
        """Take the parts.

        Args:
            cluster: Lists the objects.
            cache: Compared and repaired.
            settings: Interval.
            metrics: Counts repairs.
            enqueue: Requests a reconcile of a Backfill.
            monotonic: Clock for the age of the last list, in seconds.
            watched: The namespaces; `None` for those of the settings.
            on_unreadable: Called with the resource and the reason when an object cannot be read.
        """
        self._on_unreadable = on_unreadable
        self._cluster = cluster
        self._cache = cache
        self._settings = settings
        self._metrics = metrics
        self._watched_namespaces = watched or WatchedNamespaces(settings)
        self._enqueue = enqueue
        self._monotonic = monotonic
        self._done_at: float | None = None
        self._watched_since_list: set[str] = set()
        """Resources with a watch event since the last list."""

        self._missed: Counter[str] = Counter()
        """Consecutive lists that found changes of a resource without any watch event."""

        self._forbidden: set[str] = set()
        """Namespaces that the last list skipped."""

        self._versions: dict[str, int] = {}
        """The version at which the last list of each path began."""

        self._watched: set[str] = set()
        self._wake = asyncio.Event()
        self.complete = asyncio.Event()
        """Set after the first complete list; before that, the cache may lack existing objects."""

    @property
    def synced(self) -> bool:
        """True after the first complete list."""
        return self.complete.is_set()

    def on_watch_event(self, plural: str) -> None:
        """Record an event of this resource's watch."""
        self._watched_since_list.add(plural)

    @property
    def missed(self) -> int:
        """Number of consecutive lists with changes that a silent watch should have delivered."""
        return max(self._missed.values(), default=0)

    def age_s(self) -> float | None:
        """Return the seconds since the last complete list; `None` before the first one."""
        return None if self._done_at is None else self._monotonic() - self._done_at

    def start_version(self, path: str, version: str) -> str:
        """Return the version at which a watch of this path starts, so that list and watch together miss no change.

        Args:
            path: Path of the watched resource.
            version: The current version.
        """
        if path not in self._watched and path in self._versions:
            self._watched.add(path)
            return str(self._versions[path])
        # This watch starts at the current version; the next list finds the changes in between.
        self._wake.set()
        return version

    def release(self) -> None:
        """Drop the objects of namespaces that are no longer served, without a change in the cluster; list again soon."""
        serves = self._watched_namespaces.serves
        for key, stored in self._cache.stored():
            if not serves(key[0]) and self._cache.evict_backfill(key, stored.uid):
                self._enqueue(key)
        self._wake.set()

    async def run(self) -> None:
        """List until cancelled.

        Raises:
            ClusterRestoredError: the cluster is older than the cache.
        """
        await self._watched_namespaces.known.wait()
        while True:
            try:
                self._wake.clear()
                await self.once()
                await wait(min(FAILED_AGAIN_S, self._settings.relist_min_seconds))
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause_s()):
                        await self._wake.wait()
            except ApiError as error:
                _log.warning("the cluster could not be listed: %s", error)
                await wait(min(FAILED_AGAIN_S, self._settings.relist_min_seconds))

    def _pause_s(self) -> float:
        quiet_s = min(FAILED_AGAIN_S, self._settings.relist_min_seconds)
        return random.uniform(self._settings.relist_min_seconds, self._settings.relist_max_seconds) - quiet_s

    def _began(self, resource: Resource, namespace: str | None, newest: int, version: str) -> None:
        """Record the version of a list.

        Raises:
            ClusterRestoredError: the version is older than the cache's version at the start of the list.
        """
        if not VERSION.fullmatch(version):
            return
        if int(version) < newest:
            raise ClusterRestoredError(
                f"{resource.plural} are listed at version {version}, and {newest} was seen before"
            )
        self._versions[resource.path(namespace)] = int(version)

    def _take(self, raw: Raw, resource: Resource, unlisted: dict[Key, str]) -> tuple[Key, ...]:
        """Store one object of a page; return the Backfills to reconcile. An unreadable object is reported and skipped."""
        try:
            unlisted.pop(key_of(raw), None)
            with read_budget():
                if resource is PODS:
                    return self._cache.put_pod(raw)
                return (key_of(raw),) if self._cache.put_backfill(raw) else ()
        except UNREADABLE as error:
            self._on_unreadable(resource.plural, error)
            return ()

    async def _list(
        self,
        namespace: str | None,
        newest: dict[str, int],
        backfills: dict[Key, str],
        pods: dict[Key, str],
        repaired: dict[str, int],
    ) -> None:
        """List one namespace; remove listed objects from `backfills` and `pods`, and count undelivered changes."""
        for resource, labels, unlisted in (
            (BACKFILLS, "", backfills), (PODS, f"{ROLE_LABEL}=driver", pods),
        ):  # fmt: skip
            began = partial(self._began, resource, namespace, newest[resource.plural])
            async for page in self._cluster.pages(resource, namespace, labels=labels, began=began):
                for raw in page:
                    if changed := self._take(raw, resource, unlisted):
                        repaired[resource.plural] += 1
                        for key in changed:
                            self._enqueue(key)
                    elif resource is BACKFILLS and namespace in self._forbidden:
                        # Its reconciles were refused too, and their backoff is long by now.
                        self._enqueue(key_of(raw))

    def _left_out(self, namespace: str | None, error: RefusedError, before: int) -> str:
        """Return a forbidden namespace to skip it; raise if all namespaces are forbidden, or for any other refusal."""
        watched = self._watched_namespaces
        whole = before + 1 == len(watched.names) and not watched.may_all_be_forbidden
        if namespace is None or error.status != FORBIDDEN or whole:
            raise error
        _log.warning("namespace %s may not be read and is left out: %s", namespace, error.message)
        return namespace

    async def once(self) -> None:
        """List all objects once; count and enqueue the changes that no watch delivered.

        Raises:
            ApiError: the list is incomplete; the pages read so far are in the cache.
            ClusterRestoredError: the cluster is older than the cache.
        """
        first, newest = not self.synced, dict(self._cache.newest)
        backfills, pods = self._cache.begin_relist()
        repaired = {BACKFILLS.plural: 0, PODS.plural: 0}
        forbidden: set[str] = set()
        try:
            for namespace in self._watched_namespaces.lists:
                try:
                    await self._list(namespace, newest, backfills, pods, repaired)
                except RefusedError as error:
                    forbidden.add(self._left_out(namespace, error, len(forbidden)))
        finally:
            self._cache.end_relist()
        # Objects that were cached before the list and are on no page no longer exist.
        for key, uid in backfills.items():
            if key[0] not in forbidden and self._cache.evict_backfill(key, uid):
                repaired[BACKFILLS.plural] += 1
                self._enqueue(key)
        for key, uid in pods.items():
            if key[0] not in forbidden and (owner := self._cache.evict_pod(key, uid)) is not None:
                repaired[PODS.plural] += 1
                self._enqueue(owner)
        self._forbidden = forbidden
        self._done_at = self._monotonic()
        self.complete.set()
        if not first:
            for plural, number in repaired.items():
                self._metrics.relist_repairs.labels(plural).inc(number)
                self._missed[plural] = 0 if plural in self._watched_since_list else self._missed[plural] + bool(number)
        self._watched_since_list.clear()
