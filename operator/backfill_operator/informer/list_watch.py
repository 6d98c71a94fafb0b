"""A small list and watch of our own: some objects of one kind, without kopf."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp

from backfill_operator.informer.watch_session import WatchFailedError, WatchSession
from backfill_operator.kube.errors import ApiError
from backfill_operator.kube.rate import wait

FAILED_AGAIN_S: Final = 5.0
"""Seconds until the next try of a list that failed."""

UNLIMITED: Final = aiohttp.ClientTimeout()
"""The session ends a watch that is silent."""

_log = logging.getLogger(__name__)


async def list_and_watch(
    open_session: Callable[[], WatchSession],
    *,
    listed: Callable[[], Awaitable[str]],
    watched: Callable[[WatchSession, str], Awaitable[None]],
    failed: Callable[[ApiError], None],
) -> None:
    """List and watch until cancelled.

    Args:
        open_session: Opens the connection of the watch.
        listed: Lists, and returns the version of the list.
        watched: Follows the objects from a version until the watch ends.
        failed: Called if the list is not possible; the next try follows.
    """
    session = open_session()
    try:
        while True:
            try:
                await watched(session, await listed())
            except WatchFailedError as error:
                _log.info("a watch ended: %s", error)
            except ApiError as error:
                failed(error)
                await wait(FAILED_AGAIN_S)
    finally:
        await session.close()


async def events_of(
    session: WatchSession, path: str, selector: Mapping[str, str], *, version: str
) -> AsyncIterator[dict[str, Any]]:
    """Yield the events of a watch of some objects, without bookmarks; an event of an error ends it.

    Args:
        session: The connection.
        path: Path of the kind in the API.
        selector: Query that selects the objects.
        version: The watch begins after this version.
    """
    query = {**selector, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
    async with await session.request(url=f"{session.server}{path}?{urlencode(query)}", timeout=UNLIMITED) as answer:
        async for line in answer.lines():
            event: dict[str, Any] = json.loads(line)
            if event["type"] == "ERROR":
                return
            if event["type"] != "BOOKMARK":
                yield event
