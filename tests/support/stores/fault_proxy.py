"""An S3 server with faults: requests are passed on unchanged, and some meet a fault on the way.

with faulty(store.endpoint) as proxy:
    proxy.faults.append(Fault("lost answer", "PUT", "_delta_log/", times=1))
    ... a client of proxy.endpoint
"""

import http.client
import re
import select
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from support.stores.minio import ACCESS_KEY, SECRET_KEY
from support.stores.objects import NAMES, Keys, Request, ask

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
TOO_SKEWED = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>RequestTimeTooSkewed</Code>'
    b"<Message>The difference between the request time and the server's time is too large.</Message></Error>"
)
"""Answer of MinIO and Amazon to a request that was signed too long ago; a test compares it with the real server's."""

DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>"

SKEW_MAX = timedelta(minutes=5)
"""Limit of a proxy with another clock: stricter than the 15 minutes of S3, so the proxy rejects before S3 does."""

STALLED_MAX_S = 45
"""Longest time that a request waits in vain: a client with a shorter timeout leaves before."""

FORBIDDEN, PRECONDITION_FAILED = 403, 412
LOG_ENTRY = re.compile(r"/_delta_log/\d{20}\.json$")
HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "expect")


@dataclass
class Fault:
    """A fault of the next requests with this method and a string in their path."""

    what: str
    """`slow down`: 503, `denied`: 403, `stall`: no answer and no effect; `lost answer`: the request takes effect, and the
    connection ends without an answer; `rejected`: the status and the code below."""

    method: str
    """`COPY` for a copy in the store, else the method of HTTP."""

    text: str
    times: int
    stalls_s: int = STALLED_MAX_S
    met: int = field(default=0)
    """Number of requests that met it."""

    left: int = field(default=0)
    """Number of stalled clients that left by themselves."""

    status: int = 400
    code: str = ""


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(target).netloc
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self.faults = []
        self.is_old = False
        """Report a PUT as done that the server rejected by its condition, as a store that ignores conditions does."""

        self.plain_puts = []
        """Paths of files that were made without a condition: another writer's file would have been replaced."""

        self.ahead = timedelta()
        """Lead of this store's clock over the machine's; 0: only the server itself checks the time."""

        self.refused = Counter()
        """Number of 403 answers by their code; empty if an answer has no body."""

        self.capacity = None
        """Requests that the store serves in a second; it refuses the others with 503. `None` for no limit."""

        self.served, self.overloaded = Counter(), Counter()
        """Number of served and of refused requests, by whole second of the monotonic clock."""

        self.read_bytes = Counter()
        """Bytes of answered GET requests, by path without its query."""

        self.asked = Counter()
        """Number of requests by method, `COPY` for a copy in the store, and path without its query; those that met a fault, too."""

        self.copies = []
        """Paths of objects, or of their parts, that the store was asked to copy."""

        self.begun = []
        """Paths of objects whose uploads in parts began. Amazon lists uploads by any prefix, MinIO only by the whole key."""

        self.before_copy = None
        """Function without arguments that is called before each copy, while its client waits; `None` for none."""

        self.before_entry = None
        """The same before each PUT of a log entry with a condition."""

        self.hidden_header = ""
        """Prefix of headers that no answer has, in lower case; empty for none."""

        self._tokens, self._filled_s = 0.0, 0.0
        self._lock = threading.Lock()

    def admits(self):
        """Return whether the store serves one more request now."""
        now_s = time.monotonic()
        with self._lock:
            if self.capacity is not None:
                earned = (now_s - self._filled_s) * self.capacity
                self._tokens, self._filled_s = min(self.capacity, self._tokens + earned), now_s
                if self._tokens < 1:
                    self.overloaded[int(now_s)] += 1
                    return False
                self._tokens -= 1
            self.served[int(now_s)] += 1
        return True

    def is_skewed(self, signed_at):
        """Return whether a request was signed too far from the time of this store."""
        if not self.ahead:
            return False
        signed = datetime.strptime(signed_at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        return abs(datetime.now(UTC) + self.ahead - signed) > SKEW_MAX

    def uploads(self, bucket, query):
        """Return the unfinished uploads under a prefix as Amazon lists them, from the server's list of each object."""
        begun = [path for path in self.begun if path.startswith(f"{bucket.rstrip('/')}/{query['prefix'][0]}")]
        found = []
        for path in begun:
            asked = Request("GET", bucket.rstrip("/"), {"uploads": "", "prefix": path.split("/", 2)[2]})
            body = ask(f"http://{self.target}", asked, Keys(ACCESS_KEY, SECRET_KEY)).body.decode()
            found += re.findall("<Upload>.*?</Upload>", body, re.DOTALL)
        inside = "<IsTruncated>false</IsTruncated>" + "".join(dict.fromkeys(found))
        return f'<ListMultipartUploadsResult xmlns="{NAMES[1:-1]}">{inside}</ListMultipartUploadsResult>'.encode()

    def fault_of(self, method, path):
        """Return the fault of a request; `None` if it has none. A copy has the methods PUT and COPY."""
        with self._lock:
            for fault in self.faults:
                if fault.met < fault.times and fault.method in method and fault.text in path:
                    fault.met += 1
                    return fault
        return None

    def handle_error(self, request, client_address):
        """Ignore a client that ended in the middle."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        if self.command == "POST" and query == "uploads":
            self.server.begun.append(unquote(path))
        if self.command == "GET" and "uploads" in query.split("&"):
            self._answer(200, {"Content-Type": "application/xml"}, self.server.uploads(path, parse_qs(query)))
            return
        is_copy = "X-Amz-Copy-Source" in self.headers
        self.server.asked["COPY" if is_copy else self.command, unquote(path)] += 1
        if is_copy:
            self.server.copies.append(self.path)
            if self.server.before_copy is not None:
                self.server.before_copy()
        elif self.command == "PUT" and "If-None-Match" not in self.headers:
            self.server.plain_puts.append(self.path)
        elif self.command == "PUT" and LOG_ENTRY.search(path) and self.server.before_entry is not None:
            self.server.before_entry()
        fault = self.server.fault_of(("PUT", "COPY") if is_copy else (self.command,), self.path)
        what = fault and fault.what
        if what == "stall":
            # Nothing follows a request that waits for its answer: readable means that the connection ended.
            fault.left += bool(select.select([self.connection], [], [], fault.stalls_s)[0])
            self.close_connection = True
            return
        if what == "slow down" or not self.server.admits():
            self._answer(503, {"Content-Type": "application/xml"}, SLOW_DOWN)
            return
        if what == "denied":
            self._answer(FORBIDDEN, {"Content-Type": "application/xml"}, DENIED)
            return
        if what == "rejected":
            error = f"<Error><Code>{fault.code}</Code><Message>A message of the store.</Message></Error>"
            self._answer(fault.status, {"Content-Type": "application/xml"}, error.encode())
            return
        if self.server.is_skewed(self.headers["X-Amz-Date"]):
            date = format_datetime(datetime.now(UTC) + self.server.ahead, usegmt=True)
            self.server.refused["RequestTimeTooSkewed"] += 1
            self._answer(FORBIDDEN, {"Content-Type": "application/xml", "Date": date}, TOO_SKEWED)
            return
        server = http.client.HTTPConnection(self.server.target, timeout=60)
        try:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    server.putheader(name, value)
            server.endheaders(body or None)
            answer = server.getresponse()
            content = answer.read()
        finally:
            server.close()
        if what == "lost answer":
            self.close_connection = True
            self.connection.close()
            return
        if self.server.is_old and answer.status == PRECONDITION_FAILED:
            self._answer(200, {"ETag": '"of what was put"'}, b"")
            return
        if answer.status == FORBIDDEN:
            self.server.refused[_code(content)] += 1
        if self.command == "GET":
            self.server.read_bytes[self.path.partition("?")[0]] += len(content)
        left_out = self.server.hidden_header or "connection"
        headers = {
            name: value for name, value in answer.getheaders()
            if name.lower() not in HOP_BY_HOP and not name.lower().startswith(left_out)
        }  # fmt: skip
        self._answer(answer.status, headers, content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - the names that Python's server asks for

    def _answer(self, status, headers, content):
        self.send_response_only(status)
        # The answer to HEAD contains the length of the body.
        length = (
            {} if any(name.lower() == "content-length" for name in headers) else {"Content-Length": str(len(content))}
        )
        for name, value in {**headers, **length}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        """Log nothing."""


def _code(content):
    """Return the code of an error; empty if there is none."""
    return content.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()


@contextmanager
def serving(server):
    """Let a server of the standard library answer, on a separate thread, while the block runs."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def faulty(endpoint):
    """Give a proxy of a server while the block runs."""
    with serving(_Proxy(endpoint)) as proxy:
        yield proxy
