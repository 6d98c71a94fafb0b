"""The switch for all jobs: one ConfigMap in the operator's namespace, listed and watched by its name.

A missing ConfigMap pauses nothing. Invalid content is logged, and the previous state stays in force.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from backfill_api.names import ALL_JOBS_CONFIG_MAP
from backfill_api.spec.change_claim import PauseAll
from backfill_core.lifecycle.inputs.all_jobs import describe_pause, read_switch
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.informer.list_watch import events_of, list_and_watch
from backfill_operator.informer.watch_session import WatchSession
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import ApiError
from backfill_operator.kube.resources import CONFIG_MAPS, Raw
from backfill_operator.settings import OperatorSettings

BY_NAME: Final = f"metadata.name={ALL_JOBS_CONFIG_MAP}"

_log = logging.getLogger(__name__)


class AllJobsSwitch:
    """Keeps the switch current, and enqueues all Backfills that are not at rest when it changes."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        settings: OperatorSettings,
        *,
        open_session: Callable[[], WatchSession],
        enqueue: Callable[[Key], None],
    ) -> None:
        """Take the parts.

        Args:
            cluster: Lists the ConfigMap.
            cache: Contains the Backfills.
            settings: The operator's namespace, and the longest silence of a watch.
            open_session: Opens the connection of the watch.
            enqueue: Requests a reconcile of a Backfill; the work queue and the rate limit set the pace.
        """
        self._cluster = cluster
        self._cache = cache
        self._settings = settings
        self._open_session = open_session
        self._enqueue = enqueue
        self._reported = ""
        self.value: PauseAll | None = None
        """The switch; `None` until its ConfigMap could be read once."""

    async def run(self) -> None:
        """List and watch until cancelled."""
        await list_and_watch(self._open_session, listed=self.once, watched=self._watch, failed=self._failed)

    def _failed(self, error: ApiError) -> None:
        self._report(f"ConfigMap {ALL_JOBS_CONFIG_MAP} cannot be read, so its last state stays: {error}")

    async def once(self) -> str:
        """List the ConfigMap; return the version of the list.

        Raises:
            ApiError: It cannot be listed.
        """
        versions: list[str] = []
        listed: list[Raw] = []
        pages = self._cluster.pages(CONFIG_MAPS, self._settings.lease_namespace, fields=BY_NAME, began=versions.append)
        async for page in pages:
            listed += [raw for raw in page if _is_ours(raw)]
        self._take(listed[0].get("data") if listed else None)
        return versions[0]

    async def _watch(self, session: WatchSession, version: str) -> None:
        """Follow the ConfigMap from a version until the watch ends."""
        path = CONFIG_MAPS.path(self._settings.lease_namespace)
        async for event in events_of(session, path, {"fieldSelector": BY_NAME}, version=version):
            if _is_ours(event["object"]):
                self._take(None if event["type"] == "DELETED" else event["object"].get("data"))

    def _take(self, data: object) -> None:
        """Replace the switch by this content, unless it is invalid."""
        try:
            value = read_switch(data)
        except ValueError as error:
            self._report(str(error))
            return
        self._reported = ""
        if value == self.value:
            return
        before, self.value = self.value, value
        if value.pause is not None:
            _log.warning("%s", describe_pause(value.pause))
        elif before is not None:
            _log.warning("the pause of all jobs is lifted%s", f" by {value.by} (claimed)" if value.by else "")
        for key in self._cache.keys():  # noqa: SIM118 - the cache is no mapping
            if self._cache.rest(key) is None:
                self._enqueue(key)

    def _report(self, message: str) -> None:
        """Log a problem once."""
        if message != self._reported:
            _log.warning("%s", message)
        self._reported = message


def _is_ours(raw: Raw) -> bool:
    return (raw.get("metadata") or {}).get("name") == ALL_JOBS_CONFIG_MAP
