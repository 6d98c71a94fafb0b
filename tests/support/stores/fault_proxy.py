"""An S3 server with faults: what a client asks is passed on as it is, and some requests meet trouble on the way.

with faulty(store.endpoint) as proxy:
    proxy.faults.append(Fault("lost answer", "PUT", "_delta_log/", times=1))
    ... a client of proxy.endpoint
"""

import http.client
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
PRECONDITION_FAILED = 412
HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "expect")


@dataclass
class Fault:
    """What happens to the next requests of a method whose path has some text."""

    what: str
    """`slow down`: 503, and nothing is done; `lost answer`: it is done, and the connection ends without an answer."""

    method: str
    text: str
    times: int
    met: int = field(default=0)
    """How often it happened."""


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(target).netloc
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self.faults = []
        self.is_old = False
        """Does it say that a PUT was done which the server refused by its condition? So does a store that ignores conditions."""

        self.plain_puts = []
        """Paths of files that were made without a condition: another writer's file would have been replaced."""

        self._lock = threading.Lock()

    def fault_of(self, method, path):
        """Return what happens to a request; None: nothing."""
        with self._lock:
            for one in self.faults:
                if one.met < one.times and one.method == method and one.text in path:
                    one.met += 1
                    return one.what
        return None

    def handle_error(self, request, client_address):
        """A client that ended in the middle is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "PUT" and "If-None-Match" not in self.headers:
            self.server.plain_puts.append(self.path)
        what = self.server.fault_of(self.command, self.path)
        if what == "slow down":
            self._answer(503, {"Content-Type": "application/xml"}, SLOW_DOWN)
            return
        server = http.client.HTTPConnection(self.server.target, timeout=60)
        try:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    server.putheader(name, value)
            server.endheaders(body or None)
            answer = server.getresponse()
            said = answer.read()
        finally:
            server.close()
        if what == "lost answer":
            self.close_connection = True
            self.connection.close()
            return
        if self.server.is_old and answer.status == PRECONDITION_FAILED:
            self._answer(200, {"ETag": '"of what was put"'}, b"")
            return
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP}
        self._answer(answer.status, headers, said)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - the names that Python's server asks for

    def _answer(self, status, headers, said):
        self.send_response_only(status)
        # The answer to HEAD says how long a body would be.
        length = {} if any(name.lower() == "content-length" for name in headers) else {"Content-Length": str(len(said))}
        for name, value in {**headers, **length}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def faulty(endpoint):
    """Give a proxy of a server while the block runs."""
    proxy = _Proxy(endpoint)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join(5)
