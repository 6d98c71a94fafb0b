"""A flood without a token: endless headers, bodies and requests, and connections that wait with half a header."""

import threading
import time
import zlib
from contextlib import suppress
from itertools import cycle

from support.ports.clients import CUT_OFF, connect, request

BLOCK = b"x" * 65536
LINES = b"".join(b"X-%d: " % number + b"x" * 1000 + b"\r\n" for number in range(60))
ZEROS = zlib.compress(b"\0" * 10_000_000)
WRITE_S = 2
HALF_BYTES = 8000
"""Less than the limit of the ports."""

LIBRARY_BYTES = 90 * 60_000
"""Less than the limit of Python's server."""

HELD_MAX = 200
"""More connections than a port admits."""


def endless(path):
    """Return the first bytes and the repeated bytes of each kind of client."""
    header = request(path)[:-2]
    length = "Content-Length: 999999999999"
    chunked = request(path, "Transfer-Encoding: chunked", method="POST")
    return {
        "many headers": (header, LINES),
        "one header": (header + b"X: ", BLOCK),
        "a request line": (b"GET /", BLOCK),
        "a body": (request(path, length, method="POST"), BLOCK),
        "chunks": (chunked, b"10000\r\n" + BLOCK + b"\r\n"),
        "a compressed body": (request(path, length, "Content-Encoding: deflate", method="POST"), ZEROS),
        "requests whose answers are not read": (b"", request(path) * 100),
    }


def _half(path, size):
    """Return a header without its end."""
    length = min(size // 8, 60_000)
    return request(path, *(f"X-{number}: {'x' * length}" for number in range(size // length)))[:-2]


class Flood:
    """Clients of every kind, repeating within the block."""

    def __init__(self, port, *, each=2):
        self._port, self._each = port, each
        self._kinds = endless(port.path)
        self._over = threading.Event()
        self.attempts = dict.fromkeys(self._kinds, 0)
        self.sent_bytes = 0

    def __enter__(self):
        clients = [kind for kind in self._kinds for _ in range(self._each)]
        self._threads = [threading.Thread(target=self._send, args=(kind,)) for kind in clients]
        self._threads.append(threading.Thread(target=self._hold))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def lasts(self, seconds):
        """Wait for this many seconds, and until each kind was tried."""
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s or not all(self.attempts.values()):
            self._over.wait(0.05)

    def _send(self, kind):
        start, block = self._kinds[kind]
        while not self._over.is_set():
            with suppress(*CUT_OFF), connect(self._port) as connection:
                connection.settimeout(WRITE_S)
                self.attempts[kind] += 1
                connection.sendall(start)
                while not self._over.is_set():
                    connection.sendall(block)
                    self.sent_bytes += len(block)

    def _hold(self):
        halves = cycle([_half(self._port.path, HALF_BYTES), _half(self._port.path, LIBRARY_BYTES)])
        held = []
        while not self._over.wait(0.002):
            with suppress(*CUT_OFF):
                held.append(connect(self._port))
                held[-1].settimeout(WRITE_S)
                held[-1].sendall(next(halves))
            if len(held) > HELD_MAX:
                held.pop(0).close()
        for connection in held:
            connection.close()
