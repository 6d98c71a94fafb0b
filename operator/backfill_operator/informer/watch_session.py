"""What stands between kopf and the API server: an HTTP session in which a watch can be read whatever is in the cluster.

kopf reads lists whole and parses each line of a watch by recursion; what it cannot parse ends it, and us. So lists stay
empty here, because our own have shown everything: kopf watches from the version at which ours began. And each line of a
watch is whole, readable and small: what nobody can read is left out and told.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import aiohttp
from aiohttp.client_reqrep import ClientResponse

from backfill_api.names import PLURAL
from backfill_operator.informer.compact import LARGE_BYTES, compact, dumps
from backfill_operator.kube.resources import Raw, key_of
from backfill_operator.kube.shallow_json import loads

GONE: Final = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
"""After this kopf lists, and watches anew."""

ITEMS_OF_A_LIST: Final = 1
"""Only the version is read."""

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
CHUNK_BYTES: Final = 1024 * 1024
READ_AS_IT_IS: Final = 100
"""Brackets of a line that nobody minds: it cannot be nested deeper."""

_log = logging.getLogger(__name__)

StartVersion = Callable[[str, str], str]
"""Takes a list's path and version; returns from which version its watch is to begin."""


def session(
    *, ssl: Any, headers: dict[str, str], start_version: StartVersion, on_unreadable: Callable[[str, object], None]
) -> aiohttp.ClientSession:
    """Return the session.

    Args:
        ssl: Of the connection, as aiohttp takes it.
        headers: With the credentials.
        start_version: Told of each list; says from which version on its watch is to begin.
        on_unreadable: Told of what was left out of a watch: the last part of its path, and why.
    """

    class Response(ClientResponse):
        """One answer of the API server."""

        async def json(self, **_: Any) -> Any:
            """Return it; a list without its items."""
            answer = loads(await self.read())
            metadata = answer.get("metadata") if isinstance(answer, dict) and "items" in answer else None
            if not isinstance(metadata, dict):
                return answer
            version = start_version(self.url.path, str(metadata.get("resourceVersion", "")))
            return {**answer, "items": [], "metadata": {"resourceVersion": version}}

        async def start(self, connection: Any) -> ClientResponse:
            """Begin; a watch is read line by line."""
            await super().start(connection)
            if self.url.query.get("watch") == "true" and self.status < 400:
                plural = self.url.path.rsplit("/", 1)[-1]
                self.content = WatchLines(self.content, plural, on_unreadable)  # type: ignore[assignment]
            return self

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=ssl), headers=headers, response_class=Response, trust_env=False
    )


class WatchLines:
    """The lines of a watch, in the place of the stream that they come from."""

    def __init__(self, stream: Any, plural: str, on_unreadable: Callable[[str, object], None]) -> None:
        """Take the stream, and what it shows."""
        self._stream = stream
        self._plural = plural
        self._on_unreadable = on_unreadable

    def __getattr__(self, name: str) -> Any:
        """Be the stream in everything else."""
        return getattr(self._stream, name)

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield whole lines that can be read; what a broken connection leaves unfinished is no line."""
        buffer = bytearray()
        async for chunk in self._stream.iter_chunked(CHUNK_BYTES):
            begun = len(buffer)
            buffer += chunk
            end = buffer.rfind(b"\n", begun) + 1
            if end:
                for line in bytes(buffer[:end]).split(b"\n"):
                    if said := self._read(line):
                        yield said
                del buffer[:end]
            elif len(buffer) > LINE_BYTES_MAX:
                self._on_unreadable(self._plural, f"a line of more than {LINE_BYTES_MAX:,} bytes")
                yield GONE
                return

    def _read(self, line: bytes) -> bytes:
        """Return a line as kopf may read it; empty: it is left out."""
        brackets = line.count(b"{") + line.count(b"[")
        if not line or (len(line) <= LARGE_BYTES and brackets <= READ_AS_IT_IS and b'"ERROR"' not in line):
            return line and line + b"\n"
        try:
            event = loads(line)
            kind, one = event["type"], event["object"]
            if kind == "ERROR":
                _log.warning("the watch of %s ended: %s", self._plural, str(one)[:1000])
                return GONE
            metadata = one["metadata"]
            if kind != "BOOKMARK":
                key_of(one)
                who = {name: one[name] for name in ("apiVersion", "kind") if name in one}
                one = who | compact(one) if self._plural == PLURAL else one | {"metadata": _without_words(metadata)}
            return dumps({"type": kind, "object": one}) + b"\n"
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._on_unreadable(self._plural, f"{type(error).__name__}: {error}")
        return b""


def _without_words(metadata: Raw) -> Raw:
    return {name: value for name, value in metadata.items() if name not in ("annotations", "managedFields")}
