"""The switch for all jobs: one ConfigMap in the operator's namespace, listed and watched by its name.

A missing ConfigMap pauses nothing. Invalid content is logged, and the previous state stays in force.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp

from backfill_api.names import ALL_JOBS_CONFIG_MAP
from backfill_api.spec.change_claim import PauseAll
from backfill_core.lifecycle.inputs.all_jobs import describe_pause, read_switch
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.informer.relist import FAILED_AGAIN_S
from backfill_operator.informer.watch_session import WatchFailedError, WatchSession
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import ApiError
from backfill_operator.kube.rate import wait
from backfill_operator.kube.resources import CONFIG_MAPS, Raw
from backfill_operator.settings import OperatorSettings

BY_NAME: Final = f"metadata.name={ALL_JOBS_CONFIG_MAP}"

_log = logging.getLogger(__name__)


class AllJobsSwitch:
    """Keeps the switch current, and enqueues all unfinished Backfills when it changes."""

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
        session = self._open_session()
        try:
            while True:
                try:
                    await self._watch(session, await self.once())
                except WatchFailedError as error:
                    _log.info("the watch of ConfigMap %s ended: %s", ALL_JOBS_CONFIG_MAP, error)
                except ApiError as error:
                    self._report(f"ConfigMap {ALL_JOBS_CONFIG_MAP} cannot be read, so its last state stays: {error}")
                    await wait(FAILED_AGAIN_S)
        finally:
            await session.close()

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
        query = {"fieldSelector": BY_NAME, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        url = f"{session.server}{CONFIG_MAPS.path(self._settings.lease_namespace)}?{urlencode(query)}"
        silence = aiohttp.ClientTimeout(sock_read=self._settings.watch_silence_seconds)
        async with await session.request(url=url, timeout=silence) as answer:
            async for line in answer.lines():
                event: dict[str, Any] = json.loads(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] != "BOOKMARK" and _is_ours(event["object"]):
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
            if not self._cache.index(key).over:
                self._enqueue(key)

    def _report(self, message: str) -> None:
        """Log a problem once."""
        if message != self._reported:
            _log.warning("%s", message)
        self._reported = message


def _is_ours(raw: Raw) -> bool:
    return (raw.get("metadata") or {}).get("name") == ALL_JOBS_CONFIG_MAP
