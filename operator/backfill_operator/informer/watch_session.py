"""The HTTP session for kopf's lists and watches, through which no response and no object can end kopf.

kopf parses each response, list and watch line, and ends the process if it cannot parse one. This session returns lists
without items, because our own relist reads them, and only whole, readable and small watch lines. Everything else is a
`WatchFailedError`, after which kopf tries again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from backfill_api.names import LAUNCHED_FIELDS_ANNOTATION, PLURAL
from backfill_api.shallow_json import loads
from backfill_operator.informer.compact import LARGE_BYTES, compact, dumps
from backfill_operator.informer.discovery import DEFINITIONS, DISCOVERY, Feed, FeedLines, Nothing
from backfill_operator.informer.pace import WatchPace
from backfill_operator.kube.client import RESPONSE_BYTES_MAX, body_of, checked
from backfill_operator.kube.errors import ApiError
from backfill_operator.kube.rate import retry_after_s
from backfill_operator.kube.read_budget import read_budget
from backfill_operator.kube.resources import NAMESPACES, Raw

OK: Final = 200
EXPIRED: Final = frozenset({400, 410})
"""HTTP statuses of a watch whose version has expired, or is invalid for the API server."""

GONE: Final = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
"""Makes kopf list and watch again."""

ITEMS_OF_A_LIST: Final = 1
"""Only the version of the list is used."""

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
CHUNK_BYTES: Final = 1024 * 1024
READ_AS_IT_IS: Final = 100
"""A line with at most this many brackets is passed unchanged: it cannot be nested too deeply for kopf."""

CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})

UNREADABLE: Final = (AttributeError, LookupError, TypeError, ValueError)
"""Errors that reading a line may raise."""

UNUSABLE: Final = (aiohttp.ClientError, ApiError, OSError, TimeoutError, ValueError)
"""Errors of a request, its response or its body."""

_log = logging.getLogger(__name__)

StartVersion = Callable[[str, str], str]
"""Takes a list's path and version; returns the version from which its watch starts."""


class WatchFailedError(aiohttp.ClientConnectionError):
    """A list or a watch failed, whatever the cause; kopf tries again after each error of this class."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callbacks that connect the session with the rest of the operator."""

    start_version: StartVersion
    """Called for each list; returns the version from which its watch starts."""

    on_watch: Callable[[str], None]
    """Called with the path of each watch that the API server accepts."""

    on_unreadable: Callable[[str, object], None]
    """Called with the resource and the reason when a line of a watch is skipped."""

    admitted: Callable[[], Awaitable[None]]
    """Waits for a place in the operator's rate limit."""

    authorization: Callable[[], Awaitable[str | None]]
    """Returns the `Authorization` header; the token is renewed while the process runs."""

    namespaces: Feed | None = None
    """Answers lists and watches of namespaces; `None` leaves them to the API server."""


class WatchSession:
    """The part of `aiohttp.ClientSession` that kopf uses."""

    def __init__(
        self, server: str, http: aiohttp.ClientSession, pace: WatchPace, hooks: Hooks, *, silence_s: float
    ) -> None:
        """Take the parts.

        Args:
            server: Address of the API server, which may end in a path.
            http: Sends the requests; closed with this session.
            pace: Delays each request.
            hooks: The rest of the operator.
            silence_s: A watch without an answer, or without a byte, for this long fails.
        """
        self._server = server.rstrip("/")
        self._http = http
        self._pace = pace
        self._hooks = hooks
        self._silence_s = silence_s

    @property
    def server(self) -> str:
        """Address of the API server, without a slash at its end."""
        return self._server

    @property
    def headers(self) -> Any:
        """Headers of each request."""
        return self._http.headers

    @property
    def closed(self) -> bool:
        """True if the session is closed."""
        return self._http.closed

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def request(self, *, url: str, timeout: aiohttp.ClientTimeout, **_: object) -> KopfAnswer:  # noqa: ASYNC109 - kopf passes it
        """Send a GET, the only method that kopf uses here.

        Raises:
            WatchFailedError: the answer is an error, or unusable.
        """
        path, _mark, query = url.removeprefix(self._server).partition("?")
        if (discovered := DISCOVERY.get(path)) is not None:
            return KopfAnswer(discovered)
        watches = "watch=true" in query.split("&")
        if (feed := self._feed_of(path)) is not None:
            return WatchAnswer(FeedLines(feed), lambda _: None) if watches else KopfAnswer(feed.listed())
        await self._pace.wait(path)
        await self._hooks.admitted()
        response: aiohttp.ClientResponse | None = None
        try:
            token = await self._hooks.authorization()
            headers = {"Accept-Encoding": "identity"} | ({"Authorization": token} if token else {})
            async with asyncio.timeout(self._silence_s if watches else None):
                response = await self._http.get(url, headers=headers, timeout=timeout, allow_redirects=False)
            if watches:
                return self._watch(path, response)
            return KopfAnswer(await self._list(path, response))
        except UNUSABLE as error:
            after_s = None if response is None else _retry_after_s(response)
            self._pace.failed(path, f"{type(error).__name__}: {error}", after_s)
            if response is not None:
                response.close()
            raise WatchFailedError(f"{type(error).__name__}: {error}"[:500]) from error
        except asyncio.CancelledError:
            # kopf cancels a request without a response in time, and sends the next one.
            self._pace.failed(path, "the request was cancelled before a response arrived")
            raise

    def _feed_of(self, path: str) -> Feed | None:
        """Return the feed of a path. kopf also watches the definitions of resources if it watches namespaces."""
        if self._hooks.namespaces is None:
            return None
        return {NAMESPACES.path(None): self._hooks.namespaces, DEFINITIONS.path(None): Nothing()}.get(path)

    async def _list(self, path: str, response: aiohttp.ClientResponse) -> Raw:
        """Return a list without items, with the version at which its watch starts."""
        if response.status != OK:
            raise WatchFailedError(f"the list is answered with {response.status}")
        answer = checked(loads(await body_of(response, RESPONSE_BYTES_MAX)), "list", None)
        version = self._hooks.start_version(path, answer["metadata"]["resourceVersion"])
        return {"items": [], "metadata": {"resourceVersion": version}}

    def _watch(self, path: str, response: aiohttp.ClientResponse) -> WatchAnswer:
        if response.status not in EXPIRED | {OK}:
            raise WatchFailedError(f"the watch is answered with {response.status}")
        if response.status == OK:
            self._hooks.on_watch(path)
        plural = path.rsplit("/", 1)[-1]
        lines = WatchLines(response, plural, self._hooks.on_unreadable, silence_s=self._silence_s)
        return WatchAnswer(lines, lambda seconds: self._pace.ended(path, lines=lines.passed_on, seconds=seconds))


def _retry_after_s(response: aiohttp.ClientResponse) -> float | None:
    return retry_after_s(response.headers.get("Retry-After"), response.headers.get("Date"))


def open_session(configuration: Configuration, pace: WatchPace, *, silence_s: float, **hooks: Any) -> WatchSession:
    """Open a session with the credentials and the TLS context of the operator's own client, inside the event loop.

    Args:
        configuration: Address and credentials.
        pace: Delays each request.
        silence_s: A watch without an answer, or without a byte, for this long fails.
        hooks: Fields of `Hooks` except `authorization`.
    """

    async def authorization() -> str | None:
        return await configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or None

    http = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=RESTClientObject(configuration).ssl_context),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )
    made = Hooks(authorization=authorization, **hooks)
    return WatchSession(configuration.host, http, pace, made, silence_s=silence_s)


class KopfAnswer:
    """The part of a complete response that kopf uses."""

    status = OK
    closed = True

    def __init__(self, parsed: Raw) -> None:
        """Take the body."""
        self._parsed = parsed

    async def __aenter__(self) -> Self:
        """Return the response."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the response."""
        self.close()

    def close(self) -> None:
        """Nothing is open."""

    async def json(self) -> Raw:
        """Return the body."""
        return self._parsed

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield nothing: a complete response has no stream."""
        return
        yield b""


class WatchAnswer(KopfAnswer):
    """The part of a watch's response that kopf uses."""

    closed = False

    def __init__(self, lines: WatchLines | FeedLines, on_end: Callable[[float], None]) -> None:
        """Take the lines, and a callback for the seconds that the watch was open."""
        super().__init__({})
        self.content = lines
        self._on_end = on_end
        self._began = time.monotonic()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the readable lines."""
        async for line in self.content.iter_chunked(CHUNK_BYTES):
            yield line

    def close(self) -> None:
        """End the watch."""
        if not self.closed:
            self.closed = True
            self.content.close()
            self._on_end(time.monotonic() - self._began)


class WatchLines:
    """The stream of a watch: its readable lines."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        plural: str,
        on_unreadable: Callable[[str, object], None],
        *,
        silence_s: float,
    ) -> None:
        """Take the response to one resource's watch, and the longest time without a byte."""
        self._silence_s = silence_s
        self._response = response
        self._plural = plural
        self._on_unreadable = on_unreadable
        self.passed_on = 0
        """Number of lines with an event."""

    def close(self) -> None:
        """Close the connection."""
        self._response.close()

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield whole, readable lines; an unfinished last line is dropped.

        Raises:
            WatchFailedError: the connection broke, or was silent, or the body is not that of a stream.
        """
        if self._response.status != OK:
            yield GONE
            return
        buffer = bytearray()
        try:
            while chunk := await self._chunk():
                searched = len(buffer)
                buffer += chunk
                end = buffer.rfind(b"\n", searched) + 1
                if end:
                    for line in bytes(buffer[:end]).split(b"\n"):
                        if readable := self._read(line):
                            yield readable
                    del buffer[:end]
                elif len(buffer) > LINE_BYTES_MAX:
                    self._on_unreadable(self._plural, f"a line of more than {LINE_BYTES_MAX:,} bytes")
                    yield GONE
                    return
        except UNUSABLE as error:
            raise WatchFailedError(f"{type(error).__name__}: {error}"[:500]) from error

    async def _chunk(self) -> bytes:
        """Return the next bytes; empty at the end.

        The time-out holds during this wait alone. kopf's own one may end while kopf starts a worker for an event, and then
        kopf never watches the resource again.
        """
        async with asyncio.timeout(self._silence_s):
            return await self._response.content.read(CHUNK_BYTES)

    def _read(self, line: bytes) -> bytes:
        """Return a line that kopf can parse; empty if the line is skipped."""
        if not line.strip():
            return b""
        try:
            with read_budget():
                event = loads(line)
                kind, changed = event["type"], event["object"]
                if kind == "ERROR":
                    _log.warning("the watch of %s ended: %s", self._plural, str(changed)[:1000])
                    return GONE
                brackets = line.count(b"{") + line.count(b"[")
                small = len(line) <= LARGE_BYTES and brackets <= READ_AS_IT_IS
                readable = self._event(kind, changed, small=small)
        except UNREADABLE as error:
            self._on_unreadable(self._plural, f"{type(error).__name__}: {error}")
            return b""
        self.passed_on += 1
        return line + b"\n" if readable is None else dumps(readable) + b"\n"

    def _event(self, kind: str, changed: Raw, *, small: bool) -> Raw | None:
        """Return an event in a form for kopf; `None` if the line can be passed unchanged.

        Raises:
            TypeError: its metadata does not have the types that kopf requires.
            ValueError: it is not an event.
        """
        metadata = changed["metadata"]
        version = metadata["resourceVersion"]
        if not isinstance(version, str):
            raise TypeError("metadata.resourceVersion is not a string")
        if kind == "BOOKMARK":
            return {"type": kind, "object": {"metadata": {"resourceVersion": version}}}
        if kind not in CHANGES:
            raise ValueError(f"{kind!r:.100} is not an event type")
        _check(metadata)
        if small:
            return None
        if self._plural != PLURAL:
            return {"type": kind, "object": changed | {"metadata": _without_foreign_annotations(metadata)}}
        kind_fields = {name: changed[name] for name in ("apiVersion", "kind") if name in changed}
        return {"type": kind, "object": kind_fields | compact(changed)}


def _check(metadata: Raw) -> None:
    """Check the metadata that kopf reads from each object.

    Raises:
        TypeError: a field has another type.
    """
    for name in ("name", "uid"):
        if not isinstance(metadata[name], str):
            raise TypeError(f"metadata.{name} is not a string")
    for name, type_ in (("labels", dict), ("annotations", dict), ("finalizers", list), ("deletionTimestamp", str)):
        if not isinstance(metadata.get(name), type_ | None):
            raise TypeError(f"metadata.{name} is not of type {type_.__name__}")


def _without_foreign_annotations(metadata: Raw) -> Raw:
    kept = {name: value for name, value in metadata.items() if name not in ("annotations", "managedFields")}
    ours = (metadata.get("annotations") or {}).get(LAUNCHED_FIELDS_ANNOTATION)
    return kept if ours is None else kept | {"annotations": {LAUNCHED_FIELDS_ANNOTATION: ours}}
