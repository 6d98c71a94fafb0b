"""Limits of the operator's HTTP ports, which every pod of the cluster may reach: connections, time, headers and bodies."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, cast

CONNECTIONS_MAX: Final = 64
"""Of one port; a kubelet and a few collectors of metrics have one each."""

CONNECTION_S: Final = 30.0
"""Longest time of one connection; its client opens another one."""

QUIET: Final = logging.getLogger("backfill_operator.http")
"""aiohttp logs each malformed request as an error with a traceback; any pod may send thousands."""
QUIET.setLevel(logging.CRITICAL)

REQUEST_LIMITS: Final[dict[str, Any]] = {
    "max_line_size": 4096, "max_field_size": 4096, "max_headers": 64, "keepalive_timeout": 15.0, "lingering_time": 1.0, "logger": QUIET, "read_bufsize": 16 * 1024,
}  # fmt: skip
"""Of aiohttp's server, whose own keep a silent connection for an hour."""


class Connections:
    """Admits connections of one port; the oldest one is ended where there are too many."""

    def __init__(self, server: Any, longest_s: float) -> None:
        """Take aiohttp's server, which makes a protocol for each connection."""
        self._server = server
        self.longest_s = longest_s
        self._open: dict[_Limited, None] = {}
        """Oldest first."""

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def protocol(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _Limited(self, cast("asyncio.Protocol", self._server()))

    def made(self, connection: _Limited) -> None:
        """Take a new connection."""
        while len(self._open) >= CONNECTIONS_MAX:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.end()
        self._open[connection] = None

    def lost(self, connection: _Limited) -> None:
        """Forget a connection."""
        self._open.pop(connection, None)


class _Limited(asyncio.Protocol):
    """A connection that ends after its longest time; aiohttp's protocol does all else."""

    def __init__(self, connections: Connections, inner: asyncio.Protocol) -> None:
        self._connections, self._inner = connections, inner
        self._transport: asyncio.Transport | None = None
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._end = asyncio.get_running_loop().call_later(self._connections.longest_s, self.end)
        self._connections.made(self)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._end is not None:
            self._end.cancel()
        self._connections.lost(self)
        self._inner.connection_lost(exc)

    def end(self) -> None:
        """End it now, whatever it does."""
        if self._transport is not None:
            self._transport.abort()
