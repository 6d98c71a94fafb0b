"""A driver reduced to its control server: the real protocol with or without TLS, in a few kilobytes of one loop.

Thousands fit into a process. Commands are applied at the next barrier and acknowledged after it, as with a seal. The suite of
the real control server (tests/cli/control/test_server.py) runs on it through `DoubleInAThread`.
"""

import asyncio
import contextlib
import hmac
import json
import math
import queue
import secrets
import ssl
import tempfile
import threading
import time
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from prometheus_client import generate_latest
from pydantic import ValidationError
from support.drivers.command_effects import effect_of

from backfill_api.status.progress import Progress
from backfill_api.wire import Ack, CommandRequest
from backfill_core.protocol.commands import Stop, VerifyNow
from backfill_spark.control.metrics import progress_registry
from backfill_spark.control.server import ACKS_KEPT_MAX, BODY_MAX_BYTES, WAIT_MAX_S, _first
from backfill_spark.control.wire import format_timestamp, received

RECEIPT = {
    "sourceVersion": 3, "targetVersion": 5, "epoch": 1, "rows": 4000, "vnodes": 256, "digest": "ab" * 32,
    "mismatches": [], "verifiedAt": None, "seconds": 0.5,
}  # fmt: skip


class DriverDouble:
    """One attempt's driver from `start` to `stop`, in the running loop."""

    def __init__(
        self, *, attempt=1, token=None, job_id="scripted", barrier_s=0.02, silent=False, rows=4000, rows_per_barrier=0
    ):
        self.attempt, self.job_id, self.barrier_s, self.silent = attempt, job_id, barrier_s, silent
        self.token = token or secrets.token_urlsafe(16)
        self.progress = Progress(
            attempt=attempt, epoch=1, phase="Snapshot", percent=25, rows_total=rows, rows_done=1000, rows_per_second=500,
            table_version=1, grid=(100, 50, 0, 0),
        )  # fmt: skip
        self.rows_per_barrier = rows_per_barrier
        self.receipt = None
        self.seen = []
        self.commands = queue.SimpleQueue()
        self.acks = {}
        self.stopped = asyncio.Event()
        self.unresponsive = False
        """Connections are accepted, and requests get no answer."""

        self.unanswered = 0
        """Number of requests that arrived meanwhile."""

        self._asked = {}
        self._began_s = {}
        self._changed = asyncio.Event()
        self._closed = False
        self._connections = set()
        self._barrier_task = None

    # ------------------------------------------------------------ life
    async def start(self, *, host="127.0.0.1", port=0, ssl_context=None):
        self._server = await asyncio.start_server(self._connection, host, port, ssl=ssl_context, backlog=128)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if ssl_context else 'http'}://{host}:{self.port}"
        self._barrier_task = asyncio.create_task(self._barriers())
        return self

    async def stop(self, *, abruptly=False):
        """Answer waiting requests, then stop; `abruptly`: as a killed process does."""
        self._closed = True
        self._wake()
        if self._barrier_task:
            self._barrier_task.cancel()
        if hasattr(self, "_server"):
            self._server.close()
        answering = [task for task in self._connections if getattr(task, "busy", False)]
        if answering and not abruptly:
            await asyncio.wait(answering, timeout=0.2)
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _barriers(self):
        while True:
            await asyncio.sleep(self.barrier_s)
            self.barrier()

    def barrier(self):
        """Seal: apply the commands since the last barrier, and acknowledge them."""
        if self.silent:
            return
        self._change(epoch=self.progress.epoch + 1)
        if self.rows_per_barrier and self.progress.paused is None and self.progress.throttle_rows_per_second != 0:
            done = min(self.progress.rows_total, self.progress.rows_done + self.rows_per_barrier)
            self._change(rows_done=done, percent=100 * done // max(1, self.progress.rows_total))
        while not self.commands.empty():
            event = self.commands.get()
            self._change(**effect_of(event), revision=event.revision)
            match event.command:
                case VerifyNow():
                    self.receipt = RECEIPT | {"epoch": self.progress.epoch}
                case Stop():
                    self.stopped.set()
            command, began_s = self._asked.get(event.revision), self._began_s.get(event.revision, time.monotonic())
            answered = {} if command is None else {
                "type": command.type, "time": format_timestamp(round(time.time() * 1000)),
                "ms": round((time.monotonic() - began_s) * 1000),
            }  # fmt: skip
            ack = Ack(
                attempt=self.attempt, epoch=self.progress.epoch, revision=event.revision, outcome="Applied", **answered
            )
            self.acknowledge(ack)

    def _change(self, **fields):
        self.progress = self.progress.model_copy(update=fields)

    def acknowledge(self, ack):
        if ack.attempt == self.attempt:
            self.acks[ack.revision] = ack
            for old in sorted(self.acks)[: -ACKS_KEPT_MAX or None]:
                del self.acks[old]
        self._wake()

    def _wake(self):
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # ------------------------------------------------------------ HTTP, reduced to the needs of a driver's client
    async def _connection(self, reader, writer):
        task = asyncio.current_task()
        self._connections.add(task)
        try:
            keep = True
            while keep and not self._closed:
                line = await reader.readline()
                if not line:
                    return
                method, path, _ = line.decode("latin-1").split(" ", 2)
                headers = {}
                while (line := await reader.readline()).strip():
                    name, _, value = line.decode("latin-1").partition(":")
                    headers[name.strip().lower()] = value.strip()
                if self.unresponsive:
                    self.unanswered += 1
                    await asyncio.Event().wait()
                task.busy = True
                status, kind, body, keep = await self._route(method, path, headers, reader)
                head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                writer.write(head.encode() + (b"\r\n" if keep else b"Connection: close\r\n\r\n") + body)
                await writer.drain()
                task.busy = False
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, ValueError):
            pass  # the client is gone
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()

    async def _route(self, method, path, headers, reader):
        parts = urlsplit(path)
        if method == "GET" and parts.path == "/healthz":
            return 200, "text/plain", b"ok\n", True
        if method == "GET" and parts.path == "/readyz":
            ready = not self._closed and self.progress.table_version is not None
            return 200 if ready else 503, "text/plain", b"ok\n" if ready else b"not committed yet\n", True
        given = headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
            return _error(401, "token", "is missing or wrong", keep=method == "GET")
        if method == "POST":
            return await self._post(parts, headers, reader)
        match parts.path:
            case "/v1/progress":
                return _json(200, {"jobId": self.job_id, **self.progress.model_dump(mode="json", by_alias=True)})
            case "/v1/receipt":
                return _json(200, self.receipt)
            case "/v1/acks":
                after = _number(parts, "after")
                if after is None:
                    return _error(400, "after", "must be a revision")
                acks = [
                    self.acks[revision].model_dump(mode="json", by_alias=True)
                    for revision in sorted(self.acks)
                    if revision > after
                ]
                return _json(200, {"attempt": self.attempt, "acks": acks})
            case "/metrics":
                text = generate_latest(progress_registry(self.job_id, lambda: self.progress))
                return 200, "text/plain; version=0.0.4; charset=utf-8", text, True
        return _error(404, "path", "does not exist")

    async def _post(self, parts, headers, reader):
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or len(length) > 9 or int(length) > BODY_MAX_BYTES:
            return _error(413, "body", f"needs a Content-Length of at most {BODY_MAX_BYTES} bytes", keep=False)
        body = await reader.readexactly(int(length))
        if parts.path != "/v1/command":
            return _error(404, "path", "does not exist")
        wait_s = _number(parts, "wait")
        if wait_s is None:
            return _error(400, "wait", "must be seconds")
        try:
            request = CommandRequest.model_validate_json(body)
        except ValidationError as error:
            return _error(400, *_first(error))
        ack = await self.command(request, wait_s)
        return _json(
            {"WrongAttempt": 409, "Pending": 202}.get(ack.outcome, 200), ack.model_dump(mode="json", by_alias=True)
        )

    async def command(self, request, wait_s):
        """Accept a command once, and wait for its acknowledgement."""
        revision = request.revision
        if request.attempt != self.attempt:
            return self._ack(request, "WrongAttempt", f"this is attempt {self.attempt}")
        highest = max(self.progress.revision, *self.acks, *self._asked, 0)
        if revision > highest + 2**32:
            return self._ack(request, "Refused", f"the newest revision is {highest}: send the next one")
        previous = self._asked.get(revision)
        if previous is not None and previous != request.command:
            return self._ack(request, "Superseded", f"revision {revision} is another command")
        if revision not in self.acks and previous is None:
            newest = max(self.acks, default=0)
            if revision < newest:
                return self._ack(request, "Superseded", f"revision {newest} is newer")
            self._asked[revision], self._began_s[revision] = request.command, time.monotonic()
            event = received(request)
            self.seen.append(event)
            self.commands.put(event)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(wait_s, WAIT_MAX_S)):
                while not self._closed and revision not in self.acks:
                    await self._changed.wait()
        return self.acks.get(revision) or self._ack(request, "Pending", "not committed yet")

    def _ack(self, request, outcome, message):
        epoch = self.progress.epoch
        return Ack(attempt=request.attempt, epoch=epoch, revision=request.revision, outcome=outcome, message=message)


def server_context(certificate, key):
    """Return the TLS context of a driver with this certificate and key."""
    with tempfile.TemporaryDirectory(prefix="backfill-tls-") as folder:
        path = Path(folder) / "tls.pem"
        path.touch(mode=0o600)
        path.write_text(key + certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def _json(status, value, *, keep=True):
    return status, "application/json", json.dumps(value).encode(), keep


def _error(status, field, message, *, keep=True):
    return _json(status, {"error": {"field": field, "message": message}}, keep=keep)


def _number(parts, name):
    try:
        value = float(parse_qs(parts.query).get(name, ["0"])[0])
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


class ServerOfADouble:
    """The control server of a double, for tests that are no coroutines; it has the methods of the real control server."""

    def __init__(self, double, loop):
        self._double, self._loop = double, loop
        self.url = double.url

    def acks(self, after):
        """Return the acknowledgements above a revision, oldest first."""
        return [ack for revision, ack in sorted(self._double.acks.items()) if revision > after]

    def acknowledge(self, ack):
        """Make the double acknowledge a command."""
        copied = Ack(
            attempt=ack.attempt, epoch=ack.epoch, revision=ack.revision, outcome=ack.outcome, message=ack.message
        )
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (self._double.acknowledge(copied), done.set()))
        done.wait()

    def close(self):
        """Stop the double, and wait until it has stopped."""
        asyncio.run_coroutine_threadsafe(self._double.stop(), self._loop).result()


class DoubleInAThread:
    """A double with the interface of `support.drivers.fake_driver.ScriptedJob`, for tests that are no coroutines."""

    def __init__(self, **options):
        self._options = options
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))

    async def _live(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._double = await DriverDouble(**self._options).start()
        self.stopped = threading.Event()
        self.server = ServerOfADouble(self._double, self._loop)
        self._ready.set()
        await self._over.wait()
        await self._double.stop()

    @property
    def token(self):
        return self._double.token

    @property
    def seen(self):
        return self._double.seen

    @property
    def commands(self):
        return self._double.commands

    @property
    def progress(self):
        return self._double.progress

    @progress.setter
    def progress(self, progress):
        self._double.progress = progress

    def __enter__(self):
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
