"""Connections of the control server: a limited number, each with a deadline; unauthenticated connections are evicted for new ones.

A pod's port is open to every pod that no network policy excludes. So the number of connections, and thus of threads, is limited.
Idle connections are closed, and a connection with a valid token is never evicted. The oldest unauthenticated connection of the address
with the most of them is evicted, so a flood from one pod ends no probe of a kubelet.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any, Final

CONNECTIONS_MAX: Final = 64
HEADER_S: Final = 5.0
"""Seconds from the connection to the end of the first header, TLS handshake included."""

REQUEST_S: Final = 70.0
"""Seconds from one header to the next: the longest wait for an acknowledgement, and the answer."""

HEADER_BYTES_MAX: Final = 16 * 1024
"""Maximum size of a request line and its headers; the library itself accepts 6.5 MB from each connection."""

UNREAD_BYTES_MAX: Final = 64 * 1024
"""Receive buffer of a connection in the kernel, which doubles it. The default is 6 MiB, and counts toward the memory of the pod."""

ROOM_S: Final = 1.0
"""Seconds that a new connection waits until an evicted one is closed."""


@dataclass(slots=True)
class _Connection:
    deadline_s: float
    address: str
    authenticated: bool = False
    """True after a request with a valid token."""


class ControlConnections:
    """The open connections of one server; every method may be called from any thread."""

    def __init__(self, *, header_s: float = HEADER_S, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin without connections."""
        self._header_s, self._monotonic = header_s, monotonic
        self._changed = threading.Condition()
        self._open: dict[socket.socket, _Connection] = {}
        """Open connections, oldest first."""

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    def admit(self, connection: socket.socket, address: str = "") -> bool:
        """Admit a new connection; at the limit, evict an unauthenticated one. Return False if none can be evicted."""
        with self._changed:
            if len(self._open) >= CONNECTIONS_MAX:
                evicted = self._unauthenticated()
                if evicted is None:
                    return False
                _end(evicted)
                if not self._changed.wait_for(lambda: len(self._open) < CONNECTIONS_MAX, timeout=ROOM_S):
                    return False
            self._open[connection] = _Connection(self._monotonic() + self._header_s, address)
            return True

    def _unauthenticated(self) -> socket.socket | None:
        """Return the oldest unauthenticated connection of the address that has the most of them."""
        addresses = {connection: state.address for connection, state in self._open.items() if not state.authenticated}
        counted = Counter(addresses.values())
        return max(addresses, key=lambda connection: counted[addresses[connection]], default=None)

    def header_read(self, connection: socket.socket, *, authenticated: bool) -> None:
        """Record a complete header; the rest of the request has one common deadline."""
        with self._changed:
            state = self._open.get(connection)
            if state is not None:
                state.authenticated, state.deadline_s = authenticated, self._monotonic() + REQUEST_S

    def left(self, connection: socket.socket) -> None:
        """Remove a connection that is closed and whose thread has ended."""
        with self._changed:
            self._open.pop(connection, None)
            self._changed.notify_all()

    def expire(self) -> None:
        """Close connections whose deadline has passed, which wakes up their threads."""
        now_s = self._monotonic()
        with self._changed:
            for connection, state in self._open.items():
                if state.deadline_s < now_s:
                    _end(connection)


class BoundedServer(ThreadingHTTPServer):
    """Runs a thread for each connection that `ControlConnections` admits; the host decides the address family."""

    daemon_threads = True
    request_queue_size = 128
    """Connections that wait to be accepted; with the library's default of 5, the sixth simultaneous connection is reset."""

    def __init__(
        self, host: str, port: int, handler: Callable[..., BaseHTTPRequestHandler], connections: ControlConnections
    ) -> None:
        """Bind the port."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._connections = connections
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Bind the port; connections inherit the size of the buffer."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD_BYTES_MAX)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, or close the connection."""
        if not self._connections.admit(request, client_address[0]):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._connections.left(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.left(request)

    def service_actions(self) -> None:
        """Check the deadlines; called several times a second."""
        self._connections.expire()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about clients that use no TLS or disconnect, because the terminal belongs to the progress view."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class HeaderReader:
    """Reads the requests of one connection; a header that is too long ends the connection."""

    def __init__(self, file: BufferedIOBase) -> None:
        """Read from the file of a socket."""
        self._file = file
        self._left = HEADER_BYTES_MAX

    def next_request(self) -> None:
        """Begin the next header."""
        self._left = HEADER_BYTES_MAX

    def readline(self, limit: int = -1) -> bytes:
        """Return a line of a header, truncated if the header is too long.

        Raises:
            LineTooLong: the previous line was truncated; the library answers with 431.
        """
        if self._left <= 0:
            raise LineTooLong("header")
        line = self._file.readline(min(limit, self._left) if limit >= 0 else self._left)
        self._left -= len(line)
        return line

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else, such as reading bodies and closing, to the file."""
        return getattr(self._file, name)


def _end(connection: socket.socket) -> None:
    # The method of the plain socket class: that of a TLS socket would drop the TLS state while another thread reads.
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
