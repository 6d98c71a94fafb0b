"""Lists and watches Workloads, in namespaces with a job that names a queue; without such a job there is no request.

Until the first list, and while a list is not possible, the Workloads are unknown: jobs wait, and no driver is stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from backfill_api.names import FIELD_MANAGER
from backfill_core.lifecycle.naming import base_name
from backfill_core.lifecycle.queue.workload import ObservedWorkload
from backfill_operator.informer.cache import Key
from backfill_operator.informer.list_watch import events_of, list_and_watch
from backfill_operator.informer.namespaces import WatchedNamespaces
from backfill_operator.informer.watch_session import WatchSession
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import FORBIDDEN, ApiError, NotFoundError
from backfill_operator.kube.resources import WORKLOADS, Raw, key_of, version_number, version_of
from backfill_operator.queues.parse import MANAGED_BY, CachedWorkload, workload_of

OURS: Final = f"{MANAGED_BY}={FIELD_MANAGER}"
NOT_LISTED: Final = "the operator has not listed the Workloads of Kueue yet"
REFUSED_S: Final = 30.0
"""Seconds for which a refused creation is reported before the next try."""

_log = logging.getLogger(__name__)


class WorkloadFeed:
    """The Workloads as last seen, and the jobs that use them."""

    def __init__(
        self,
        cluster: Cluster,
        watched: WatchedNamespaces,
        *,
        open_session: Callable[[], WatchSession],
        enqueue: Callable[[Key], None],
    ) -> None:
        """Take the parts.

        Args:
            cluster: Lists the Workloads.
            watched: The namespaces.
            open_session: Opens the connection of a watch.
            enqueue: Requests a reconcile of a Backfill.
        """
        self._cluster = cluster
        self._watched = watched
        self._open_session = open_session
        self._enqueue = enqueue
        self._users: set[Key] = set()
        self._workloads: dict[Key, CachedWorkload] = {}
        self._problems: dict[str | None, str] = {}
        """Reason why the Workloads of a scope are unknown; empty after a list. A scope is a namespace, or `None` for all."""

        self._reported: dict[str | None, int] = {}
        """resourceVersion up to which the list and the watch of a scope have reported all changes."""

        self._refused: dict[Key, tuple[float, str]] = {}
        self._wake = asyncio.Event()

    def observed(self, key: Key, uid: str) -> tuple[ObservedWorkload | None, str]:
        """Return the Workload of a Backfill, and the reason if the Workloads are unknown; from now on they are watched."""
        if key not in self._users:
            self._users.add(key)
            self._wake.set()
        if problem := self._problems.get(self._scope(key[0]), NOT_LISTED):
            return None, problem
        at, message = self._refused.get(key, (0.0, ""))
        if message and asyncio.get_running_loop().time() - at < REFUSED_S:
            return None, message
        cached = self._workloads.get((key[0], base_name(key[1])))
        return (None if cached is None else cached.seen_by(uid)), ""

    def has_user(self, key: Key) -> bool:
        """Return whether a Backfill was observed with a queue and not forgotten since."""
        return key in self._users

    def forget(self, key: Key) -> None:
        """Forget a Backfill that is gone or needs no queue any more."""
        self._users.discard(key)
        self._refused.pop(key, None)

    def put(self, raw: Raw) -> None:
        """Store a Workload that was read or written, before the watch reports it; a response that is late is ignored.

        Responses and the watch have no order: a creation may be answered after the watch has reported the admission, or
        even the deletion.
        """
        key, cached = key_of(raw), workload_of(raw)
        passed = cached.listed and cached.version <= self._reported.get(self._scope(key[0]), 0)
        if key in self._workloads or not passed:
            self._take(key, cached)

    def drop(self, key: Key) -> None:
        """Drop a Workload that does not exist any more."""
        self._workloads.pop(key, None)

    def refuse(self, key: Key, message: str) -> None:
        """Store the reason why the Workload of a Backfill cannot be created, for `REFUSED_S` seconds; then request a reconcile."""
        loop = asyncio.get_running_loop()
        self._refused[key] = loop.time(), message
        self._enqueue(key)
        loop.call_later(REFUSED_S, self._enqueue, key)

    async def run(self) -> None:
        """List and watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            followed: dict[str | None, asyncio.Task[None]] = {}
            while True:
                await self._wake.wait()
                self._wake.clear()
                wanted = {self._scope(namespace) for namespace, _ in self._users if self._watched.serves(namespace)}
                for scope in followed.keys() - wanted:
                    followed.pop(scope).cancel()
                    self._problems.pop(scope, None)
                for scope in wanted - followed.keys():
                    followed[scope] = group.create_task(self._follow(scope), name=f"workloads {scope or ''}")

    def _scope(self, namespace: str) -> str | None:
        return None if self._watched.all else namespace

    async def _follow(self, scope: str | None) -> None:
        await list_and_watch(
            self._open_session, listed=partial(self._list, scope), watched=partial(self._watch, scope),
            failed=partial(self._failed, scope),
        )  # fmt: skip

    def _failed(self, scope: str | None, error: ApiError) -> None:
        self._know(scope, describe_refusal(error))
        if scope is not None and not self._watched.serves(scope):
            self._wake.set()

    def _know(self, scope: str | None, problem: str) -> None:
        """Replace the problem of a scope; enqueue its jobs if it changed."""
        if self._problems.get(scope) == problem:
            return
        if problem:
            _log.warning("%s", problem)
        self._problems[scope] = problem
        for key in tuple(self._users):
            if scope in (None, key[0]):
                self._enqueue(key)

    async def _list(self, scope: str | None) -> str:
        versions: list[str] = []
        gone = {key for key in self._workloads if scope in (None, key[0])}
        async for page in self._cluster.pages(WORKLOADS, scope, labels=OURS, began=versions.append):
            for raw in page:
                gone.discard(key_of(raw))
                self._take(key_of(raw), workload_of(raw))
        self._reported[scope] = version_number(versions[0])
        for key in gone:
            self._gone(key, self._reported[scope])
        self._know(scope, "")
        return versions[0]

    async def _watch(self, scope: str | None, session: WatchSession, version: str) -> None:
        path, selector = WORKLOADS.path(scope), {"labelSelector": OURS}
        async for event in events_of(session, path, selector, version=version):
            raw = event["object"]
            self._reported[scope] = version_of(raw)
            if event["type"] == "DELETED":
                self._gone(key_of(raw), version_of(raw))
            else:
                self._take(key_of(raw), workload_of(raw))

    def _take(self, key: Key, cached: CachedWorkload) -> None:
        """Store a Workload, unless a newer version is cached; enqueue its owner if the Workload changed."""
        existing = self._workloads.get(key)
        if existing is not None and existing.version > cached.version:
            return
        self._workloads[key] = cached
        if existing is None or existing.observed != cached.observed or existing.owner_uid != cached.owner_uid:
            self._wake_owner(key[0], cached)

    def _gone(self, key: Key, version: int) -> None:
        """Drop a Workload that did not exist at a version; one that was created later stays."""
        cached = self._workloads.get(key)
        if cached is not None and cached.version <= version:
            del self._workloads[key]
            self._wake_owner(key[0], cached)

    def _wake_owner(self, namespace: str, cached: CachedWorkload) -> None:
        if cached.owner is not None and (namespace, cached.owner) in self._users:
            self._enqueue((namespace, cached.owner))


def describe_refusal(error: ApiError) -> str:
    """Describe why Workloads cannot be read or created, with the remedy."""
    if isinstance(error, NotFoundError):
        return (
            f"the API server has no Workloads of {WORKLOADS.group}/{WORKLOADS.version}; install Kueue 0.15 or later, "
            "or remove spec.queue"
        )
    if error.status == FORBIDDEN:
        return (
            "the operator may not use the Workloads of Kueue; install Kueue, and set the chart's value queues.enabled, "
            "or remove spec.queue"
        )
    return f"Kueue's Workloads cannot be used: {error.message or error}"
