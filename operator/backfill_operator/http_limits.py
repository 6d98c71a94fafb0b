"""Limits of the operator's HTTP ports, which every pod of the cluster may reach: connections, time, headers and bodies."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any, Final, cast

CONNECTIONS_MAX: Final = 64
"""Of one port; a kubelet and a few collectors of metrics have one each."""

CONNECTION_S: Final = 30.0
"""Longest time of one connection; its client opens another one."""

UNREAD_BYTES_MAX: Final = 64 * 1024
"""Of a connection in the kernel, which doubles it; by default 6 MiB, and they count for the memory of the pod."""

READ_BYTES_MAX: Final = 16 * 1024
"""Of a request: it arrives in one read. aiohttp repeats a line that is too long in its error and in its answer."""

QUIET: Final = logging.getLogger("backfill_operator.http")
"""aiohttp logs each malformed request as an error with a traceback; any pod may send thousands."""
QUIET.setLevel(logging.CRITICAL)

REQUEST_LIMITS: Final[dict[str, Any]] = {
    "max_line_size": 4096, "max_field_size": 4096, "max_headers": 64, "keepalive_timeout": 15.0, "lingering_time": 0.0, "logger": QUIET, "read_bufsize": 16 * 1024,
    "auto_decompress": False,
}  # fmt: skip
"""Of aiohttp's server, whose own keep a silent connection for an hour."""


class Connections:
    """Admits connections of one port; where there are too many, one of the address with the most of them is ended.

    So a flood from one pod ends no probe of a kubelet, which would restart the operator.
    """

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
            counted = Counter(one.address for one in self._open)
            oldest = max(self._open, key=lambda one: counted[one.address])
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
        self.address = ""
        self._transport: asyncio.Transport | None = None
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self._end = asyncio.get_running_loop().call_later(self._connections.longest_s, self.end)
        self._connections.made(self)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if len(data) > READ_BYTES_MAX:
            self.end()
        else:
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
