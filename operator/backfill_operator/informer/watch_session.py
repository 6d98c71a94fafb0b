"""The HTTP session that kopf watches through: no object in the cluster can end a watch.

kopf parses each list and each line of a watch by recursion. What it cannot parse ends the process. So this session
returns lists without items: our own relist has shown them, and kopf watches from the version at which it began. Of a
watch it passes on only lines that are whole, readable and small. It leaves out the others and reports them.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import aiohttp
from aiohttp.client_reqrep import ClientResponse

from backfill_api.names import PLURAL
from backfill_operator.informer.compact import LARGE_BYTES, compact, dumps
from backfill_operator.kube.read_budget import read_budget
from backfill_operator.kube.resources import Raw, key_of
from backfill_operator.kube.shallow_json import loads

GONE: Final = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
"""Makes kopf list and watch again."""

ITEMS_OF_A_LIST: Final = 1
"""Only the version of the list is used."""

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
CHUNK_BYTES: Final = 1024 * 1024
READ_AS_IT_IS: Final = 100
"""A line with at most this many brackets cannot be nested too deeply, so it is not parsed here."""

_log = logging.getLogger(__name__)

StartVersion = Callable[[str, str], str]
"""Takes a list's path and version; returns the version from which its watch starts."""


def session(
    *,
    ssl: Any,
    headers: dict[str, str],
    start_version: StartVersion,
    on_watch: Callable[[str], None],
    on_unreadable: Callable[[str, object], None],
) -> aiohttp.ClientSession:
    """Return the session.

    Args:
        ssl: TLS settings, as aiohttp takes them.
        headers: Sent with each request; they carry the credentials.
        start_version: Called for each list; returns the version from which its watch starts.
        on_watch: Called with the path of each watch that the API server accepts.
        on_unreadable: Called with the resource and the reason when a line of a watch is left out.
    """

    class Response(ClientResponse):
        """One response of the API server."""

        async def json(self, **_: Any) -> Any:
            """Return the parsed body; a list comes without its items."""
            answer = loads(await self.read())
            metadata = answer.get("metadata") if isinstance(answer, dict) and "items" in answer else None
            if not isinstance(metadata, dict):
                return answer
            version = start_version(self.url.path, str(metadata.get("resourceVersion", "")))
            return {**answer, "items": [], "metadata": {"resourceVersion": version}}

        async def start(self, connection: Any) -> ClientResponse:
            """Read the header; the body of a watch is then read line by line."""
            await super().start(connection)
            if self.url.query.get("watch") == "true" and self.status < 400:
                on_watch(self.url.path)
                plural = self.url.path.rsplit("/", 1)[-1]
                self.content = WatchLines(self.content, plural, on_unreadable)  # type: ignore[assignment]
            return self

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=ssl), headers=headers, response_class=Response, trust_env=False
    )


class WatchLines:
    """Wraps the stream of a watch and yields its readable lines."""

    def __init__(self, stream: Any, plural: str, on_unreadable: Callable[[str, object], None]) -> None:
        """Wrap the stream of one resource's watch."""
        self._stream = stream
        self._plural = plural
        self._on_unreadable = on_unreadable

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the stream."""
        return getattr(self._stream, name)

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield whole, readable lines; an unfinished last line is dropped."""
        buffer = bytearray()
        async for chunk in self._stream.iter_chunked(CHUNK_BYTES):
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

    def _read(self, line: bytes) -> bytes:
        """Return a line that kopf can parse; empty when the line is left out."""
        brackets = line.count(b"{") + line.count(b"[")
        if not line or (len(line) <= LARGE_BYTES and brackets <= READ_AS_IT_IS and b'"ERROR"' not in line):
            return line and line + b"\n"
        try:
            with read_budget():
                return self._readable(loads(line))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._on_unreadable(self._plural, f"{type(error).__name__}: {error}")
        return b""

    def _readable(self, event: Any) -> bytes:
        """Return an event as a small line.

        Raises:
            ValueError: it takes too long to read; like the other errors, the line is left out.
        """
        kind, one = event["type"], event["object"]
        if kind == "ERROR":
            _log.warning("the watch of %s ended: %s", self._plural, str(one)[:1000])
            return GONE
        metadata = one["metadata"]
        if kind != "BOOKMARK":
            key_of(one)
            kind_fields = {name: one[name] for name in ("apiVersion", "kind") if name in one}
            backfill = self._plural == PLURAL
            one = kind_fields | compact(one) if backfill else one | {"metadata": _without_annotations(metadata)}
        return dumps({"type": kind, "object": one}) + b"\n"


def _without_annotations(metadata: Raw) -> Raw:
    return {name: value for name, value in metadata.items() if name not in ("annotations", "managedFields")}
