"""The watched namespaces: named in the settings, and selected by a label while the process runs."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable

from backfill_operator.informer.list_watch import events_of, list_and_watch
from backfill_operator.informer.watch_session import WatchSession
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import ApiError
from backfill_operator.kube.resources import NAMESPACES, Raw
from backfill_operator.settings import OperatorSettings

_log = logging.getLogger(__name__)


class WatchedNamespaces:
    """The namespaces that the operator serves now."""

    def __init__(self, settings: OperatorSettings) -> None:
        """Start with the named namespaces; without a selector they stay the only ones."""
        self._named = settings.namespaces
        self._own = settings.lease_namespace
        self._by_label = bool(settings.namespace_selector)
        self._selected: frozenset[str] = frozenset()
        self._refused = False
        self._changed = asyncio.Event()
        self.known = asyncio.Event()
        """Set when the selected namespaces are known; at once without a selector."""

        if not self._by_label:
            self.known.set()

    @property
    def names(self) -> tuple[str, ...]:
        """All names; empty if none is served, or all are."""
        return tuple(dict.fromkeys((*self._named, *sorted(self._selected))))

    @property
    def all(self) -> bool:
        """True if every namespace is served."""
        return not self._named and not self._by_label

    @property
    def lists(self) -> tuple[str | None, ...]:
        """Arguments of lists: each name, or `None` for all namespaces at once."""
        return (None,) if self.all else self.names

    @property
    def may_all_be_forbidden(self) -> bool:
        """True if a label may come before the Role that permits to read its namespace."""
        return self._by_label

    def serves(self, namespace: str) -> bool:
        """Return whether the operator serves a namespace."""
        return self.all or namespace in self._named or namespace in self._selected

    def select(self, selected: Iterable[str]) -> bool:
        """Replace the selected namespaces; return whether the served ones changed. The operator's own is left out."""
        given = frozenset(selected)
        self._report_own(own=self._own in given)
        before, self._selected = self.names, given - {self._own}
        self.known.set()
        if before == self.names:
            return False
        _log.info("serving the namespaces %s", ", ".join(self.names) or "(none)")
        self._changed.set()
        return True

    def _report_own(self, *, own: bool) -> None:
        """Log once that the selector matches the operator's own namespace."""
        if own and not self._refused:
            _log.error(
                "namespace %s is the operator's own and is not served: users who may create pods there can act as the "
                "operator; remove the label from it", self._own,
            )  # fmt: skip
        self._refused = own

    async def change(self) -> None:
        """Wait for the next change of the served namespaces since the last return."""
        await self._changed.wait()
        self._changed.clear()


class NamespaceFeed:
    """Answers kopf's list and watch of namespaces with the served ones; kopf starts and ends a watch for each.

    kopf selects namespaces only by name, and ends every task of the process when it is stopped. So it is not started again.
    """

    def __init__(self, watched: WatchedNamespaces) -> None:
        """Take the namespaces."""
        self._watched = watched
        self._told: set[str] = set()

    def listed(self) -> Raw:
        """Return the list, as the API server would."""
        self._told = set(self._watched.names)
        return {"items": [_object(name) for name in self._watched.names], "metadata": {"resourceVersion": "1"}}

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield each change since the list, as the API server would; the stream has no end."""
        while True:
            names = set(self._watched.names)
            for kind, changed in (("DELETED", self._told - names), ("ADDED", names - self._told)):
                for name in sorted(changed):
                    yield json.dumps({"type": kind, "object": _object(name)}).encode() + b"\n"
            self._told = names
            await self._watched.change()


def _object(name: str) -> Raw:
    metadata = {"name": name, "uid": name, "resourceVersion": "1"}
    return {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": metadata}


class NamespaceSelection:
    """Lists and watches the namespaces with the label."""

    def __init__(
        self,
        cluster: Cluster,
        settings: OperatorSettings,
        watched: WatchedNamespaces,
        *,
        open_session: Callable[[], WatchSession],
        on_change: Callable[[], None],
    ) -> None:
        """Take the parts.

        Args:
            cluster: Lists the namespaces.
            settings: The selector.
            watched: Gets the selected namespaces.
            open_session: Opens the connection of the watch.
            on_change: Called when the served namespaces have changed.
        """
        self._cluster = cluster
        self._settings = settings
        self._watched = watched
        self._open_session = open_session
        self._on_change = on_change
        self._names: set[str] = set()

    async def run(self) -> None:
        """List and watch until cancelled. While neither is possible, the last namespaces stay."""
        await list_and_watch(self._open_session, listed=self._list, watched=self._watch, failed=self._failed)

    def _failed(self, error: ApiError) -> None:
        _log.warning("namespaces cannot be listed, so the last ones stay: %s", error)

    async def _list(self) -> str:
        """List the namespaces; return the version of the list."""
        versions: list[str] = []
        names: set[str] = set()
        pages = self._cluster.pages(NAMESPACES, labels=self._settings.namespace_selector, began=versions.append)
        async for page in pages:
            # One that is being deleted is served, because its Backfills wait until their finalizers are removed.
            names |= {raw["metadata"]["name"] for raw in page}
        self._take(names)
        return versions[0]

    async def _watch(self, session: WatchSession, version: str) -> None:
        """Follow the namespaces from a version until the watch ends. One that loses the label is reported as deleted."""
        selector = {"labelSelector": self._settings.namespace_selector}
        async for event in events_of(session, NAMESPACES.path(None), selector, version=version):
            name = event["object"]["metadata"]["name"]
            self._take(self._names - {name} if event["type"] == "DELETED" else self._names | {name})

    def _take(self, names: set[str]) -> None:
        self._names = names
        if self._watched.select(names):
            self._on_change()
