"""Limits of the operator's HTTP ports, which every pod of the cluster may reach: connections, time, headers and bodies."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any, Final, cast

CONNECTIONS_MAX: Final = 64
"""Limit for each port. A kubelet and a few metrics collectors use one connection each."""

CONNECTION_S: Final = 30.0
"""Maximum lifetime of a connection. The client then opens a new one."""

UNREAD_BYTES_MAX: Final = 64 * 1024
"""Receive buffer of a connection. The kernel doubles it. Its default of 6 MiB counts toward the pod's memory."""

READ_BYTES_MAX: Final = 16 * 1024
"""Maximum size of a request, which arrives in one read. aiohttp copies an overlong line into its error and response."""

QUIET: Final = logging.getLogger("backfill_operator.http")
"""aiohttp logs each malformed request as an error with a traceback; any pod may send thousands."""
QUIET.setLevel(logging.CRITICAL)

REQUEST_LIMITS: Final[dict[str, Any]] = {
    "max_line_size": 4096, "max_field_size": 4096, "max_headers": 64, "keepalive_timeout": 15.0, "lingering_time": 0.0, "logger": QUIET, "read_bufsize": 16 * 1024,
    "auto_decompress": False,
}  # fmt: skip
"""Limits of aiohttp's server. By default it keeps an idle connection for an hour."""


class HttpConnections:
    """Admits connections to one port. Over the limit, it aborts the oldest one of the address with the most connections.

    So a flood from one pod does not interrupt the kubelet's probes. A failed probe would restart the operator.
    """

    def __init__(self, server: Any, longest_s: float) -> None:
        """Take aiohttp's server, which creates a protocol for each connection."""
        self._server = server
        self.longest_s = longest_s
        self._open: dict[_Limited, None] = {}
        """Oldest first."""

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    def protocol(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _Limited(self, cast("asyncio.Protocol", self._server()))

    def made(self, connection: _Limited) -> None:
        """Register a new connection."""
        while len(self._open) >= CONNECTIONS_MAX:
            counted = Counter(candidate.address for candidate in self._open)
            oldest = max(self._open, key=lambda candidate: counted[candidate.address])
            del self._open[oldest]
            oldest.end()
        self._open[connection] = None

    def lost(self, connection: _Limited) -> None:
        """Remove a closed connection."""
        self._open.pop(connection, None)


class _Limited(asyncio.Protocol):
    """A connection with a maximum lifetime; aiohttp's protocol does everything else."""

    def __init__(self, connections: HttpConnections, inner: asyncio.Protocol) -> None:
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
        """Abort the connection immediately."""
        if self._transport is not None:
            self._transport.abort()
