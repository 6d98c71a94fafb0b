"""Connections of the control server: few at a time, each with a deadline; one without a token makes room for a new one.

A pod's port is open to every pod that no network policy keeps away. So a connection costs a thread only while there are
few, a silent one is ended, and one whose token was heard is never ended for the sake of a new one. Of those without a
token the oldest one of the address with the most connections is ended: a flood from one pod ends no probe of a kubelet.
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
"""From the connection to the end of the first header, the handshake included."""

REQUEST_S: Final = 70.0
"""From one header to the next: the longest wait for an acknowledgement, and the answer."""

HEADER_BYTES_MAX: Final = 16 * 1024
"""Of a request line and its headers; the library alone takes 6.5 MB from each connection."""

UNREAD_BYTES_MAX: Final = 64 * 1024
"""Of a connection in the kernel, which doubles it; by default 6 MiB, and they count for the memory of the pod."""

ROOM_S: Final = 1.0
"""How long a new connection waits for an ended one to be gone."""


@dataclass(slots=True)
class _Connection:
    deadline_s: float
    address: str
    known: bool = False
    """Was the token heard on it?"""


class Connections:
    """The open connections of one server; every method may be called from any thread."""

    def __init__(self, *, header_s: float = HEADER_S, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin with none."""
        self._header_s, self._monotonic = header_s, monotonic
        self._changed = threading.Condition()
        self._open: dict[socket.socket, _Connection] = {}
        """Oldest first."""

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def admit(self, one: socket.socket, address: str = "") -> bool:
        """Take a new connection, in place of one without a token where there are too many; False: none can be ended."""
        with self._changed:
            if len(self._open) >= CONNECTIONS_MAX:
                stranger = self._stranger()
                if stranger is None:
                    return False
                _end(stranger)
                if not self._changed.wait_for(lambda: len(self._open) < CONNECTIONS_MAX, timeout=ROOM_S):
                    return False
            self._open[one] = _Connection(self._monotonic() + self._header_s, address)
            return True

    def _stranger(self) -> socket.socket | None:
        """Return the oldest connection without a token, of the address that has the most of them."""
        strangers = {one: seen.address for one, seen in self._open.items() if not seen.known}
        counted = Counter(strangers.values())
        return max(strangers, key=lambda one: counted[strangers[one]], default=None)

    def header_read(self, one: socket.socket, *, known: bool) -> None:
        """A header is complete: the request has one deadline for all that follows."""
        with self._changed:
            seen = self._open.get(one)
            if seen is not None:
                seen.known, seen.deadline_s = known, self._monotonic() + REQUEST_S

    def left(self, one: socket.socket) -> None:
        """It is closed, and its thread is over."""
        with self._changed:
            self._open.pop(one, None)
            self._changed.notify_all()

    def expire(self) -> None:
        """End those whose deadline is over; their threads wake up by it."""
        now_s = self._monotonic()
        with self._changed:
            for one, seen in self._open.items():
                if seen.deadline_s < now_s:
                    _end(one)


class BoundedServer(ThreadingHTTPServer):
    """A thread for each connection that `Connections` lets in; of the address family that the host has."""

    daemon_threads = True
    request_queue_size = 128
    """Connections that wait to be taken; the library's 5 resets the sixth of those that come at once."""

    def __init__(
        self, host: str, port: int, handler: Callable[..., BaseHTTPRequestHandler], connections: Connections
    ) -> None:
        """Bind the port."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._connections = connections
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Bind the port; connections take over the size of the buffer."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD_BYTES_MAX)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a thread for a connection, or end it."""
        if not self._connections.admit(request, client_address[0]):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._connections.left(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.left(request)

    def service_actions(self) -> None:
        """Look at the deadlines; called several times a second."""
        self._connections.expire()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about clients without TLS, or that hang up: the terminal belongs to the progress view."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class HeaderReader:
    """Reads requests of one connection; a header that is too long ends it."""

    def __init__(self, file: BufferedIOBase) -> None:
        """Read from the file of a socket."""
        self._file = file
        self._left = HEADER_BYTES_MAX

    def next_request(self) -> None:
        """Begin another header."""
        self._left = HEADER_BYTES_MAX

    def readline(self, limit: int = -1) -> bytes:
        """Return a line of a header, cut where the header is too long.

        Raises:
            LineTooLong: the line before was cut; the library answers with 431.
        """
        if self._left <= 0:
            raise LineTooLong("header")
        line = self._file.readline(min(limit, self._left) if limit >= 0 else self._left)
        self._left -= len(line)
        return line

    def __getattr__(self, name: str) -> Any:
        """Read bodies, and close, as the file does."""
        return getattr(self._file, name)


def _end(one: socket.socket) -> None:
    # Of the plain socket: the TLS one would forget its state under the thread that reads from it.
    with suppress(OSError):
        socket.socket.shutdown(one, socket.SHUT_RDWR)
