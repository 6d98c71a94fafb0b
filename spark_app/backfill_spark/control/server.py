"""The driver's control server: takes commands, and returns acknowledgements and progress. Loopback or TLS; always with a token.

POST /v1/command[?wait=seconds]     {attempt, revision, command}; 200 and the Ack; 202 and `Pending` if no Ack came in
                                    time; 409 and `WrongAttempt`
GET  /v1/acks[?after=revision]      acknowledgements with type, time and latency, oldest first, at most 256
GET  /v1/progress, /v1/receipt      the newest progress or receipt
GET  /metrics, /healthz, /readyz    for monitoring; the last two need no token

Errors are `{"error": {"field": …, "message": …}}`: 400 wrong field, 401 token, 404 path, 413 body.
"""

from __future__ import annotations

import hmac
import json
import math
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from prometheus_client import CollectorRegistry, generate_latest
from pydantic import ValidationError

from backfill_api.model import REFUSED
from backfill_api.spec.bounds import REVISIONS_AHEAD_MAX, count
from backfill_api.status.progress import Progress
from backfill_api.wire import Ack, Command, CommandRequest
from backfill_core.protocol.actions import Acknowledge
from backfill_core.protocol.events import CommandReceived
from backfill_core.protocol.receipt import TableReceipt
from backfill_spark.control.connections import BoundedServer, ControlConnections, HeaderReader
from backfill_spark.control.metrics import progress_registry
from backfill_spark.control.wire import format_timestamp, received, to_api_ack, to_api_receipt

BODY_MAX_BYTES = 64 * 1024
WAIT_MAX_S = 60.0
ACKS_KEPT_MAX = 256
GOODBYE_S = 2.0
"""Seconds that `close` waits for answers to be sent; the last answer is usually that of the stop command."""

READY_WAIT_S = 3.0
"""Longest wait of a probe: a driver commits its fence within two seconds, and a kubelet waits five seconds for an answer."""

FENCE_LOOK_S = 0.1


class ControlServer:
    """Serves one attempt from `start` to `close`; every method may be called from any thread."""

    def __init__(
        self,
        *,
        attempt: int,
        job_id: str,
        token: str,
        submit: Callable[[CommandReceived], None],
        progress: Callable[[], Progress],
        receipt: Callable[[], TableReceipt | None],
        alive: Callable[[], bool] = lambda: True,
        registry: CollectorRegistry | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        ssl_context: ssl.SSLContext | None = None,
        connections: ControlConnections | None = None,
    ) -> None:
        """Bind the port at once, without answering yet; port 0 selects a free port.

        Args:
            attempt: Number of the attempt; commands for other attempts are rejected.
            job_id: Shown with the progress.
            token: Required in each request as `Authorization: Bearer …`.
            submit: Passes a command to the core; must not block.
            progress: Returns the newest progress of the job.
            receipt: Returns the newest receipt.
            alive: Returns True if Java answers; otherwise, the probes fail.
            registry: Metrics of `/metrics`; by default, the progress as gauges.
            host: Address to listen on.
            port: Port to listen on.
            ssl_context: If set, the server uses HTTPS.
            connections: Limits of the connections; by default, those of `ControlConnections`.
        """
        self.attempt = attempt
        self.job_id = job_id
        self.progress = progress
        self.receipt = receipt
        self.alive = alive
        self.connections = ControlConnections() if connections is None else connections
        self._token = token
        self._submit = submit
        self._registry = registry or progress_registry(job_id, progress)
        self._commands: dict[int, Command] = {}
        self._arrived_s: dict[int, float] = {}
        """Time of the monotonic clock at which each command arrived."""
        self._acks: dict[int, Ack] = {}
        self._changed = threading.Condition()
        self._answering = 0
        self._unread: list[TableReceipt | None] = []
        """The previous receipt of each `Verify` command whose receipt no client has read yet."""
        self._started = self._closed = False
        self._http = BoundedServer(host, port, partial(_RequestConnection, self), self.connections)
        scheme = "http"
        if ssl_context is not None:
            # The request's thread does the handshake, because a silent client must not delay the others.
            self._http.socket = ssl_context.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
            scheme = "https"
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._http.server_address[1]}"

    def start(self) -> None:
        """Start to answer requests."""
        self._started = True
        threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, name="control", daemon=True
        ).start()

    def close(self) -> None:
        """Answer waiting clients, wait until a requested receipt is read, then stop.

        A receipt that reports a difference ends the job, and its reader would otherwise find no server.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not (self._answering or self._owes_receipt()), timeout=GOODBYE_S)
        if self._started:
            self._http.shutdown()
        self._http.server_close()

    def acknowledge(self, ack: Acknowledge) -> None:
        """Pass the core's answer to the client that waits for it."""
        with self._changed:
            if ack.attempt == self.attempt:
                self._acks[ack.revision] = to_api_ack(ack, **self._received(ack.revision))
                for old in sorted(self._acks)[: -ACKS_KEPT_MAX or None]:
                    del self._acks[old]
                    self._commands.pop(old, None)
                    self._arrived_s.pop(old, None)
            self._changed.notify_all()

    def _received(self, revision: int) -> dict[str, Any]:
        """Return type, time and latency of an answered command; empty if it did not come through this server."""
        command, arrived_s = self._commands.get(revision), self._arrived_s.get(revision)
        if command is None or arrived_s is None:
            return {}
        moment = format_timestamp(round(time.time() * 1000))
        return {"type": command.type, "time": moment, "ms": count(round((time.monotonic() - arrived_s) * 1000))}

    def _owes_receipt(self) -> bool:
        newest = self.receipt()
        return newest is not None and any(before != newest for before in self._unread)

    def receipt_read(self, receipt: TableReceipt | None) -> None:
        """Record that a client got a receipt, which completes the oldest waiting `Verify` command."""
        with self._changed:
            served = next((index for index, before in enumerate(self._unread) if before != receipt), None)
            if served is not None:
                del self._unread[served]
            self._changed.notify_all()

    def command(self, request: CommandRequest, wait_s: float) -> Ack:
        """Pass a command to the core once, and wait for its answer.

        A repeated revision gets the same answer. If it contains another command, another client came first, and the answer is
        `Superseded`. A revision below an answered one also gets `Superseded`. A revision far above the newest one is `Refused`: it
        would leave no revisions for other clients' commands, in this attempt and in all later ones.
        """
        if request.attempt != self.attempt:
            return self._answer(request, "WrongAttempt", f"this is attempt {self.attempt}")
        revision = request.revision
        with self._changed:
            highest = max(self.progress().revision, *self._acks, *self._commands, 0)
            if revision > highest + REVISIONS_AHEAD_MAX:
                return self._answer(request, "Refused", f"the newest revision is {highest}: send the next one")
            taken = self._commands.get(revision)
            if taken is not None and taken != request.command:
                return self._answer(request, "Superseded", f"revision {revision} is another command")
            if revision not in self._acks and taken is None:
                newest = max(self._acks, default=0)
                if revision < newest:
                    return self._answer(request, "Superseded", f"revision {newest} is newer")
                self._commands[revision], self._arrived_s[revision] = request.command, time.monotonic()
                if request.command.type == "Verify":
                    self._unread = [*self._unread[1 - ACKS_KEPT_MAX :], self.receipt()]
                self._submit(received(request))
            self._changed.wait_for(lambda: self._closed or revision in self._acks, timeout=min(wait_s, WAIT_MAX_S))
            return self._acks.get(revision) or self._answer(request, "Pending", "not committed yet")

    def _answer(self, request: CommandRequest, outcome: Any, message: str) -> Ack:
        epoch = self.progress().epoch
        return Ack(attempt=request.attempt, epoch=epoch, revision=request.revision, outcome=outcome, message=message)

    def acks(self, after: int) -> list[Ack]:
        """Return the acknowledgements with a revision above `after`, oldest first."""
        with self._changed:
            return [self._acks[revision] for revision in sorted(self._acks) if revision > after]

    def ready(self, wait_s: float = 0.0) -> bool:
        """Return whether the fence is committed, the attempt has not ended and Java answers; wait up to `wait_s` seconds for the fence."""
        deadline_s = time.monotonic() + wait_s
        while not self._closed and self.progress().table_version is None and time.monotonic() < deadline_s:
            threading.Event().wait(FENCE_LOOK_S)
        return not self._closed and self.alive() and self.progress().table_version is not None

    def allowed(self, header: str | None) -> bool:
        """Return True if a request carries the token; the comparison takes constant time."""
        return hmac.compare_digest((header or "").encode(), f"Bearer {self._token}".encode())

    def metrics(self) -> bytes:
        """Return the metrics in the format of Prometheus."""
        return generate_latest(self._registry)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Mark the block as an answer that `close` waits for."""
        with self._changed:
            self._answering += 1
        try:
            yield
        finally:
            with self._changed:
                self._answering -= 1
                self._changed.notify_all()


class _RequestConnection(BaseHTTPRequestHandler):
    """One connection to a control server."""

    protocol_version = "HTTP/1.1"
    timeout = 70
    raw_requestline: bytes
    """Set by the library before `parse_request`."""

    def __init__(self, control: ControlServer, *accepted: Any) -> None:
        """Serve an accepted connection until it ends."""
        self._control = control
        super().__init__(*accepted)

    def setup(self) -> None:
        """Limit the number of bytes that are read before the token is checked."""
        super().setup()
        self._headers_of = HeaderReader(self.rfile)
        self.rfile = self._headers_of  # type: ignore[assignment]

    def handle_one_request(self) -> None:
        """Serve one request."""
        self._headers_of.next_request()
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Read a header; a client without a valid token gets one answer, and then its connection is closed."""
        whole = self._has_whole_line() and super().parse_request() and self._has_path()
        authenticated = whole and self._control.allowed(self.headers.get("Authorization"))
        self.close_connection = self.close_connection or not authenticated
        self._control.connections.header_read(self.connection, authenticated=authenticated)
        return whole

    def _has_whole_line(self) -> bool:
        """Reject a truncated request line, which the library would parse as HTTP 0.9."""
        line: bytes = self.raw_requestline  # type: ignore[attr-defined]
        if line.endswith(b"\n"):
            return True
        self.command, self.requestline, self.request_version = "", "", self.protocol_version
        self.send_error(414)
        return False

    def _has_path(self) -> bool:
        """Reject a path that is not a valid URL, such as `http://[`."""
        try:
            self._parts = urlsplit(self.path)
        except ValueError:
            self.send_error(400)
            return False
        return True

    def do_GET(self) -> None:
        """Answer a read request."""
        parts = self._parts
        if parts.path == "/healthz":
            alive = self._control.alive()
            return self._send(200 if alive else 503, b"ok\n" if alive else b"Java does not answer\n", "text/plain")
        if parts.path == "/readyz":
            ready = self._control.ready(READY_WAIT_S)
            return self._send(
                200 if ready else 503,
                b"ok\n" if ready else b"not committed yet, or Java does not answer\n",
                "text/plain",
            )
        if not self._control.allowed(self.headers.get("Authorization")):
            return self._error(401, "token", "is missing or wrong")
        match parts.path:
            case "/v1/progress":
                fields = {
                    "jobId": self._control.job_id,
                    **self._control.progress().model_dump(mode="json", by_alias=True),
                }
                return self._json(200, fields)
            case "/v1/receipt":
                receipt = self._control.receipt()
                shown = None if receipt is None else to_api_receipt(receipt).model_dump(mode="json", by_alias=True)
                self._json(200, shown)
                return self._control.receipt_read(receipt)
            case "/v1/acks":
                return self._acks(parts)
            case "/metrics":
                return self._send(200, self._control.metrics(), "text/plain; version=0.0.4; charset=utf-8")
            case _:
                return self._error(404, "path", "does not exist")

    def _acks(self, parts: SplitResult) -> None:
        after = _number(parts, "after")
        if after is None:
            return self._error(400, "after", "must be a revision")
        acks = [ack.model_dump(mode="json", by_alias=True) for ack in self._control.acks(int(after))]
        return self._json(200, {"attempt": self._control.attempt, "acks": acks})

    def do_POST(self) -> None:
        """Take a command."""
        # If a client is rejected before its body is read, the body must not be read as the next request.
        self.close_connection = True
        if not self._control.allowed(self.headers.get("Authorization")):
            return self._error(401, "token", "is missing or wrong")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or len(length) > 9 or int(length) > BODY_MAX_BYTES:
            return self._error(413, "body", f"needs a Content-Length of at most {BODY_MAX_BYTES} bytes")
        body = self.rfile.read(int(length))
        self.close_connection = False
        if self._parts.path != "/v1/command":
            return self._error(404, "path", "does not exist")
        wait_s = _number(self._parts, "wait")
        if wait_s is None:
            return self._error(400, "wait", "must be seconds")
        try:
            request = CommandRequest.model_validate_json(body)
        except ValidationError as error:
            return self._error(400, *_first(error))
        with self._control.answering():
            ack = self._control.command(request, wait_s)
            status = {"WrongAttempt": 409, "Pending": 202}.get(ack.outcome, 200)
            return self._json(status, ack.model_dump(mode="json", by_alias=True))

    def _json(self, status: int, value: Any) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _error(self, status: int, field: str, message: str) -> None:
        self._json(status, {"error": {"field": field, "message": message}})

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True  # the client has disconnected; its command still takes effect

    def log_message(self, *_: object) -> None:
        """Print nothing, because the terminal belongs to the progress view."""


def _first(error: ValidationError) -> tuple[str, str]:
    """Return the path and the message of the first error in a body."""
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    if first["type"] != REFUSED:
        return ".".join(path) or "body", first["msg"]
    context = first["ctx"]
    return ".".join([*path, context["path"]]), f"{context['message']}; {context['hint']}"


def _number(parts: SplitResult, name: str) -> float | None:
    """Return a number of the query, 0 by default; `None` if it is not a number, or below 0."""
    try:
        value = float(parse_qs(parts.query).get(name, ["0"])[0])
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
