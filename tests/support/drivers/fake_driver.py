"""A driver without Spark: the real control server, local registry and progress, and a scripted job instead of the core.

`python -m support.drivers.fake_driver JOB_ID` runs until a Stop command, for the command line's tests.
"""

from __future__ import annotations

import os
import queue
import secrets
import ssl
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from support.drivers.command_effects import effect_of

from backfill_api.status.progress import Progress
from backfill_core.protocol.actions import Acknowledge
from backfill_core.protocol.commands import Stop, VerifyNow
from backfill_core.protocol.events import CommandReceived
from backfill_core.protocol.receipt import TableReceipt, VnodeMismatch
from backfill_spark.control.connections import ControlConnections
from backfill_spark.control.local_registry import LocalRegistry
from backfill_spark.control.server import ControlServer
from backfill_spark.settings import DriverSettings

BARRIER_S = 0.02


@dataclass
class ScriptedJob:
    """Stands for loop and core: applies commands at a barrier, acknowledges them after a 'seal', counts epochs."""

    attempt: int = 1
    silent: bool = False
    """Never acknowledge."""

    different: bool = False
    """Receipts find a difference."""

    ends: bool = False
    """A receipt ends the job at once, as one that finds a difference does."""

    ssl_context: ssl.SSLContext | None = None
    """Serve HTTPS with it."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    connections: ControlConnections | None = None
    """Limits of connections; `None` for the defaults."""

    def __post_init__(self) -> None:
        self.commands: queue.SimpleQueue[CommandReceived | None] = queue.SimpleQueue()
        self.seen: list[CommandReceived] = []
        self.receipt: TableReceipt | None = None
        self.stopped = threading.Event()
        self.alive = True
        self.progress = Progress(
            attempt=self.attempt, epoch=1, phase="Snapshot", percent=25, rows_total=4000, rows_done=1000,
            rows_per_second=500, table_version=1, grid=(100, 50, 0, 0),
        )  # fmt: skip
        self.token = secrets.token_urlsafe(16)
        self.server = ControlServer(
            attempt=self.attempt,
            job_id="scripted",
            token=self.token,
            submit=self.commands.put,
            progress=lambda: self.progress,
            receipt=lambda: self.receipt,
            alive=lambda: self.alive,
            ssl_context=self.ssl_context,
            host=self.host,
            connections=self.connections,
        )

    def run(self) -> None:
        """Work until a Stop or `None`."""
        while not self.stopped.is_set():
            try:
                event = self.commands.get(timeout=BARRIER_S)
            except queue.Empty:
                self._change(epoch=self.progress.epoch + 1)
                continue
            if event is None:
                break
            self.seen.append(event)
            if self.silent:
                continue
            self._change(**effect_of(event))
            epoch = self.progress.epoch + 1
            self._change(epoch=epoch, revision=event.revision)
            self.server.acknowledge(Acknowledge(self.attempt, epoch, event.revision, "Applied"))
            match event.command:
                case VerifyNow():
                    self._take_receipt()
                case Stop():
                    self.stopped.set()
        self.stopped.set()

    def _take_receipt(self) -> None:
        """Take the receipt after the acknowledgement, as a real driver does; the job may end right after it."""
        wrong = (VnodeMismatch(7, 10, 9),) if self.different else ()
        self.receipt = TableReceipt(3, 5, self.progress.epoch, 4000, 256, "ab" * 32, wrong, 0.5)
        if self.ends:
            self.stopped.set()
            self.server.close()

    def _change(self, **fields: Any) -> None:
        self.progress = self.progress.model_copy(update=fields)

    def __enter__(self) -> Self:
        self.server.start()
        self._thread = threading.Thread(target=self.run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.commands.put(None)
        self._thread.join()
        self.server.close()


def serve(state_dir: Path, job_id: str, **script: Any) -> None:
    """Register at a local registry, and serve until a Stop."""
    with LocalRegistry(state_dir, job_id) as registry, ScriptedJob(**script) as job:
        registry.publish(url=job.server.url, token=job.token, attempt=job.attempt)
        print("ready", flush=True)
        job.stopped.wait()


if __name__ == "__main__":
    flags = dict.fromkeys(sys.argv[2:], True)
    serve(DriverSettings.from_environ(os.environ).state_dir, sys.argv[1], **flags)
