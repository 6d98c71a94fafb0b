"""Follows one Backfill, or all: a watch with bookmarks, and a new read after a gap."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Final

from backfill_api.resources import BACKFILLS
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.decisions.stored import Json
from backfill_kubectl.errors import ApiServerSilentError, BackfillNotFoundError, ForbiddenError

QUIET_S: Final = 90.0
"""Seconds without an event after which the watch is opened again; bookmarks come about once a minute."""

REOPEN_S: Final = 1.0
WAIT_MIN_S: Final = 0.2


def follow(api: ApiServer, namespace: str, name: str, *, until_s: float = float("inf")) -> Iterator[Json | None]:
    """Yield the object now and after each change; `None` once it is deleted, and then nothing more.

    A connection that breaks is opened again. Without the right to watch, the object is read once a second. The first read, and
    a later one that is refused, raise their error.

    Args:
        api: The API server.
        namespace: Namespace of the object.
        name: Its name.
        until_s: Time of the monotonic clock at which the iterator ends.
    """
    raw = api.get(BACKFILLS, namespace, name)
    pause, may_watch = threading.Event(), True
    while True:
        yield raw
        try:
            for type_, object_ in _changes(api, namespace, name, _version(raw), until_s) if may_watch else ():
                if type_ == "DELETED":
                    yield None
                    return
                yield object_
        except ForbiddenError:
            may_watch = False
        if time.monotonic() >= until_s:
            return
        again = _read_again(api, namespace, name, pause, until_s)
        if again is None:
            yield None
            return
        raw = again


def follow_all(api: ApiServer, namespace: str | None, *, until_s: float) -> Iterator[tuple[str, Json]]:
    """Yield all Backfills, then each one after a change, as the type of the event and the object.

    The objects of a list are between an event `LISTING` and an event `LISTED`. A connection that breaks is opened again, after
    another list; without the right to watch, they are listed once a second. A list that is refused raises its error.

    Args:
        api: The API server.
        namespace: Their namespace; `None` for all.
        until_s: Time of the monotonic clock at which the iterator ends.
    """
    pause, may_watch = threading.Event(), True
    while True:
        versions: list[str] = []
        yield "LISTING", {}
        for page in api.pages(BACKFILLS, namespace, began=versions.append):
            yield from (("ADDED", raw) for raw in page)
        yield "LISTED", {}
        try:
            if may_watch:
                yield from _changes(api, namespace, None, versions[0], until_s)
        except ForbiddenError:
            may_watch = False
        if time.monotonic() >= until_s:
            return
        pause.wait(min(REOPEN_S, _left_s(until_s)))


def _changes(
    api: ApiServer, namespace: str | None, name: str | None, version: str, until_s: float
) -> Iterator[tuple[str, Json]]:
    """Yield the changes after a version, until the watch ends: by the server, by silence, or because the version has expired."""
    try:
        for event in api.watch(BACKFILLS, namespace, name, version, quiet_s=_left_s(until_s)):
            type_, object_ = str(event.get("type")), event.get("object")
            if type_ == "ERROR" or not isinstance(object_, dict):
                return  # the version has expired
            if type_ != "BOOKMARK":
                yield type_, object_
            # Events and bookmarks keep the connection open beyond that time.
            if time.monotonic() >= until_s:
                return
    except ApiServerSilentError:
        return  # no event for a while, or a connection that broke: the caller reads again


def _version(raw: Json) -> str:
    return str(raw.get("metadata", {}).get("resourceVersion", ""))


def _left_s(until_s: float) -> float:
    return min(QUIET_S, max(WAIT_MIN_S, until_s - time.monotonic()))


def _read_again(api: ApiServer, namespace: str, name: str, pause: threading.Event, until_s: float) -> Json | None:
    """Return the object, after retries while the server does not answer; `None` if it was deleted."""
    while True:
        pause.wait(min(REOPEN_S, _left_s(until_s)))
        try:
            return api.get(BACKFILLS, namespace, name)
        except BackfillNotFoundError:
            return None
        except ApiServerSilentError:
            if time.monotonic() >= until_s:
                raise
