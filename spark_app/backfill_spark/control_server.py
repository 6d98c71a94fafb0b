"""The driver's control server: commands in, acknowledgements and progress out. Loopback or TLS; always a token.

GET  /v1/progress, /v1/receipt      what there is now
POST /v1/command[?wait=seconds]     {attempt, revision, command}; the answer is an Ack; `Pending` when none came in time
GET  /metrics, /healthz, /readyz    for monitoring; the last two need no token
"""

from __future__ import annotations

import hmac
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from prometheus_client import CollectorRegistry, generate_latest
from pydantic import ValidationError

from backfill_api.progress import Progress
from backfill_api.wire import Ack, CommandRequest
from backfill_core.messages import Acknowledge, CommandReceived, Receipt
from backfill_spark.wire_commands import receipt_words, received

BODY_MAX_BYTES = 64 * 1024
WAIT_MAX_S = 60.0
ACKS_KEPT_MAX = 256


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
        receipt: Callable[[], Receipt | None],
        registry: CollectorRegistry | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Bind the port at once (0: a free one), answer nothing yet."""
        self.attempt = attempt
        self.job_id = job_id
        self._token = token
        self._submit = submit
        self.progress = progress
        self.receipt = receipt
        self._registry = registry
        self._acks: dict[int, Ack] = {}
        self._acked = threading.Condition()
        self._closed = False
        self._http = ThreadingHTTPServer((host, port), _handler(self))
        self._http.daemon_threads = True
        scheme = "http"
        if ssl_context is not None:
            self._http.socket = ssl_context.wrap_socket(self._http.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://{host}:{self._http.server_address[1]}"

    def start(self) -> None:
        """Begin to answer."""
        threading.Thread(target=self._http.serve_forever, name="control", daemon=True).start()

    def close(self) -> None:
        """Answer who waits, then stop."""
        with self._acked:
            self._closed = True
            self._acked.notify_all()
        self._http.shutdown()
        self._http.server_close()

    def acknowledge(self, ack: Acknowledge) -> None:
        """Pass the core's answer to whoever waits for it."""
        outcome: Any = ack.outcome
        words = Ack(
            attempt=ack.attempt, epoch=ack.epoch, revision=ack.revision, outcome=outcome, message=ack.message
        )
        with self._acked:
            if ack.attempt == self.attempt:
                self._acks[ack.revision] = words
                for old in sorted(self._acks)[: -ACKS_KEPT_MAX or None]:
                    del self._acks[old]
            self._acked.notify_all()

    def command(self, request: CommandRequest, wait_s: float) -> Ack:
        """Hand a command to the core and wait for its answer; one that was answered is answered the same again."""
        if request.attempt != self.attempt:
            return self._ack(request, "WrongAttempt", f"this is attempt {self.attempt}")
        with self._acked:
            known = self._acks.get(request.revision)
            newest = max(self._acks, default=0)
        if known is not None:
            return known
        if request.revision < newest:
            return self._ack(request, "Superseded", f"revision {newest} is newer")
        self._submit(received(request))
        with self._acked:
            self._acked.wait_for(lambda: self._closed or request.revision in self._acks, timeout=min(wait_s, WAIT_MAX_S))
            return self._acks.get(request.revision) or self._ack(request, "Pending", "not sealed yet")

    def _ack(self, request: CommandRequest, outcome: Any, message: str) -> Ack:
        epoch = self.progress().epoch
        return Ack(
            attempt=request.attempt, epoch=epoch, revision=request.revision, outcome=outcome, message=message
        )

    def allowed(self, header: str | None) -> bool:
        """Does a request carry the token? Takes the same time whatever is wrong with it."""
        return hmac.compare_digest((header or "").encode(), f"Bearer {self._token}".encode())

    def metrics(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        return generate_latest(self._registry) if self._registry is not None else b""


def _handler(server: ControlServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One request."""

        protocol_version = "HTTP/1.1"
        timeout = 70

        def do_GET(self) -> None:  # noqa: N802 - the name is the library's
            """Answer a look."""
            path = urlsplit(self.path).path
            if path in ("/healthz", "/readyz"):
                return self._send(200, b"ok\n", "text/plain")
            if not server.allowed(self.headers.get("Authorization")):
                return self._error(401, "token", "is missing or wrong")
            match path:
                case "/v1/progress":
                    words = {"jobId": server.job_id, **server.progress().model_dump(mode="json", by_alias=True)}
                    return self._json(200, words)
                case "/v1/receipt":
                    receipt = server.receipt()
                    words = None if receipt is None else receipt_words(receipt).model_dump(mode="json", by_alias=True)
                    return self._json(200, words)
                case "/metrics":
                    return self._send(200, server.metrics(), "text/plain; version=0.0.4")
                case _:
                    return self._error(404, "path", "there is nothing here")

        def do_POST(self) -> None:  # noqa: N802 - the name is the library's
            """Take a command."""
            if not server.allowed(self.headers.get("Authorization")):
                self.close_connection = True
                return self._error(401, "token", "is missing or wrong")
            length = self.headers.get("Content-Length", "")
            if not length.isdigit() or int(length) > BODY_MAX_BYTES:
                self.close_connection = True
                return self._error(413, "body", f"must say its length, at most {BODY_MAX_BYTES} bytes")
            body = self.rfile.read(int(length))
            parts = urlsplit(self.path)
            if parts.path != "/v1/command":
                return self._error(404, "path", "there is nothing here")
            try:
                request = CommandRequest.model_validate_json(body)
                wait_s = float(parse_qs(parts.query).get("wait", ["0"])[0])
            except ValidationError as error:
                first = error.errors()[0]
                return self._error(400, ".".join(map(str, first["loc"])) or "body", first["msg"])
            except ValueError:
                return self._error(400, "wait", "must be seconds")
            ack = server.command(request, wait_s)
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
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: the terminal belongs to the progress view."""

    return Handler
