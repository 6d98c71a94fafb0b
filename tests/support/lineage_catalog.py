"""A server on loopback that keeps events of OpenLineage, as Marquez does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Catalog(ThreadingHTTPServer):
    """A server that keeps events."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.events: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        self.status = 201
        self.held = threading.Event()
        self.held.set()


class _Handler(BaseHTTPRequestHandler):
    server: Catalog

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.held.wait(60)
        self.server.paths.append(self.path)
        self.server.keys.append(self.headers["Authorization"])
        self.server.events.append(json.loads(body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def catalog() -> Iterator[Catalog]:
    """Run a server."""
    with Catalog() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.held.set()
            server.shutdown()
            thread.join()
