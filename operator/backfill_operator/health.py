"""The HTTP endpoints for the kubelet and Prometheus: liveness, readiness, metrics.

Alive: the event loop is on time, the last list is recent, and watches show what lists find. Otherwise the kubelet
restarts the process.
Ready: everything was listed once, and the leader is known; a standby is as ready as the leader.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from backfill_operator.http_limits import CONNECTION_S, REQUEST_LIMITS, UNREAD_BYTES_MAX, HttpConnections
from backfill_operator.informer.relist import Relist
from backfill_operator.kube.election import Election
from backfill_operator.kube.rate import wait
from backfill_operator.metrics import GZIP, Metrics
from backfill_operator.settings import OperatorSettings

EVERYWHERE: Final = "::"
LAG_EVERY_S: Final = 0.5
LAG_MAX_S: Final = 10.0
RELISTS_MISSED_MAX: Final = 3
METRICS_EVERY_S: Final = 1.0
"""Metrics are rendered at most once in this time, for any number of scrapers."""

TEXT: Final = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8", "Vary": "Accept-Encoding"}
INFLATED_AT_ONCE: Final = 64 * 1024
"""Bytes of text in memory for a client that does not accept gzip."""

WATCHES_MISSED_MAX: Final = 3
"""Consecutive lists. A single list may be faster than the watch."""


class Health:
    """Answers the probes from the state of the other parts."""

    def __init__(
        self,
        settings: OperatorSettings,
        relist: Relist,
        election: Election | None,
        metrics: Metrics,
        *,
        connection_s: float = CONNECTION_S,
    ) -> None:
        """Take the parts.

        Args:
            settings: Addresses and ports.
            relist: The last list.
            election: The leader election; `None` if this process runs without one.
            metrics: Served to Prometheus.
            connection_s: Maximum lifetime of one connection.
        """
        self._settings = settings
        self._connection_s = connection_s
        self._relist = relist
        self._election = election
        self._metrics = metrics
        self.lag_s = 0.0
        self._rendering = asyncio.Lock()
        self._rendered: tuple[float, bytes] | None = None
        """Time and result of the last rendering."""

    async def watch_the_loop(self) -> None:
        """Measure the lag of the event loop until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await wait(LAG_EVERY_S)
            self.lag_s = max(0.0, loop.time() - began - LAG_EVERY_S)
            self._metrics.event_loop_lag.set(self.lag_s)
            leads = self._election is None or self._election.leading.is_set()
            self._metrics.leader.set(1 if leads else 0)

    def unwell(self) -> str:
        """Return why this process should be restarted, or an empty string."""
        age_s = self._relist.age_s()
        longest_s = RELISTS_MISSED_MAX * self._settings.relist_max_seconds
        if self.lag_s > LAG_MAX_S:
            return f"the event loop is {self.lag_s:.1f} s late"
        if age_s is not None and age_s > longest_s:
            return f"nothing was listed for {age_s:.0f} s"
        if self._relist.missed >= WATCHES_MISSED_MAX:
            return f"{self._relist.missed} lists in a row found changes that a watch had not shown"
        return ""

    def unready(self) -> str:
        """Return why this process is not ready, or an empty string."""
        if not self._relist.synced:
            return "not everything was listed yet"
        if self._election is not None and self._election.leader is None:
            return "the leader is not known yet"
        return ""

    @asynccontextmanager
    async def served(self) -> AsyncIterator[tuple[int, int]]:
        """Serve probes and metrics within the block; yield the two ports."""
        health, metrics = web.Application(), web.Application()
        health.router.add_get("/livez", self._livez)
        health.router.add_get("/readyz", self._readyz)
        metrics.router.add_get("/metrics", self._metrics_text)
        runners = [web.AppRunner(app, access_log=None, **REQUEST_LIMITS) for app in (health, metrics)]
        servers: list[asyncio.Server] = []
        try:
            ports = []
            for runner, port in zip(runners, (self._settings.health_port, self._settings.metrics_port), strict=True):
                await runner.setup()
                listener = _listener(self._settings.bind, port)
                # Connections inherit the size of the buffer.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD_BYTES_MAX)
                ports.append(int(listener.getsockname()[1]))
                connections = HttpConnections(runner.server, self._connection_s)
                servers.append(await asyncio.get_running_loop().create_server(connections.protocol, sock=listener))
            yield ports[0], ports[1]
        finally:
            for server in servers:
                server.close()
            for runner in runners:
                await runner.cleanup()

    async def _livez(self, _: web.Request) -> web.Response:
        return _answer(self.unwell())

    async def _readyz(self, _: web.Request) -> web.Response:
        return _answer(self.unready())

    async def _metrics_text(self, request: web.Request) -> web.Response:
        """Answer with all metrics, compressed if the client accepts it."""
        packed = await self.exposition()
        if accepts_gzip(request.headers.get("Accept-Encoding", "")):
            return web.Response(body=packed, headers=TEXT | {"Content-Encoding": "gzip"})
        return web.Response(body=_inflated(packed), headers=TEXT)

    async def exposition(self) -> bytes:
        """Return all metrics, compressed and rendered at most once in `METRICS_EVERY_S`."""
        async with self._rendering:
            now = asyncio.get_running_loop().time()
            if self._rendered is None or now - self._rendered[0] >= METRICS_EVERY_S:
                # In a thread, because rendering many series takes too long for the event loop.
                self._rendered = now, await asyncio.to_thread(self._metrics.exposition)
        return self._rendered[1]


def accepts_gzip(header: str) -> bool:
    """Return whether an `Accept-Encoding` header accepts gzip."""
    accepted = {}
    for coding in header.lower().split(","):
        name, _, weight = coding.replace(" ", "").partition(";q=")
        accepted[name] = weight.strip("0.") != "" if weight else True
    return accepted.get("gzip", accepted.get("*", False))


async def _inflated(packed: bytes) -> AsyncIterator[bytes]:
    """Yield a compressed text in small parts, so that a slow client holds little memory."""
    unpacker = zlib.decompressobj(GZIP)
    while part := unpacker.decompress(packed, INFLATED_AT_ONCE):
        packed = unpacker.unconsumed_tail
        yield part


def _listener(bind: str, port: int) -> socket.socket:
    """Return a listening socket; `::` means every IPv4 and IPv6 address that the machine supports.

    Raises:
        OSError: the port is in use, or the machine does not have the address.
    """
    if bind != EVERYWHERE:
        return socket.create_server((bind, port), family=socket.AF_INET6 if ":" in bind else socket.AF_INET)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server((bind, port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            # The kernel supports IPv6, but it is disabled.
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    return socket.create_server(("0.0.0.0", port))  # noqa: S104 - the setting requests every address


def _answer(complaint: str) -> web.Response:
    return web.Response(status=503 if complaint else 200, text=f"{complaint or 'ok'}\n")
