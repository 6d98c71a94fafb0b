"""Runs a job in this process with a view of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Protocol, TextIO

from rich.console import Console, RenderableType
from rich.live import Live

from backfill_api.progress import Progress
from backfill_api.spec import Backfill
from backfill_cli.view import one_line, show_progress, show_receipt
from backfill_spark.rendezvous import control_file
from backfill_spark.settings import DriverSettings
from backfill_spark.wire_commands import receipt_words

if TYPE_CHECKING:
    from backfill_spark.driver import RunOutcome

LINE_EVERY_S = 5.0
EXIT_INTERRUPTED = 130
STOPPING = "stopping at a barrier; Ctrl-C again: at once"


class Driver(Protocol):
    """What runs an attempt; the real one is `backfill_spark.driver`."""

    def run_driver(
        self, backfill: Backfill, *, settings: DriverSettings, observe: Callable[[Progress], None]
    ) -> RunOutcome:
        """Run one attempt to its end."""

    def request_stop(self, force: bool) -> None:
        """Ask it to end at a barrier, also when it has only begun to start; safe in a signal handler."""


@dataclass(frozen=True)
class Shown:
    """Where and how to show a run."""

    json_lines: bool = False
    colour: bool = True
    log_file: Path | None = None
    """Where the JVM writes; None: standard error, or a file in the state folder when the terminal shows the view."""


class Run:
    """One attempt, its view, and the two presses of Ctrl-C."""

    def __init__(self, driver: Driver, backfill: Backfill, settings: DriverSettings, shown: Shown) -> None:
        """Take the parts; nothing starts before `to_end`."""
        self._driver = driver
        self._backfill = backfill
        self._settings = settings
        self._shown = shown
        self._progress = Progress(reason="starting Spark")
        self._presses = 0
        self._on_progress: Callable[[Progress], None] = lambda _: None
        self._live: Live | None = None

    def to_end(self) -> int:
        """Run the attempt, show it, and return the exit code."""
        live = not self._shown.json_lines and sys.stdout.isatty()
        log_file = self._shown.log_file
        if log_file is None and live:
            self._settings.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            log_file = control_file(self._settings.state_dir, self._backfill.job_id).with_suffix(".log")
        with _own_streams(log_file) as (out, err):
            console = Console(file=out, no_color=not self._shown.colour, highlight=False)
            signal.signal(signal.SIGINT, lambda number, frame: self._stop(number, frame, err))
            signal.signal(signal.SIGTERM, lambda number, frame: self._stop(number, frame, err))
            if self._shown.json_lines:
                self._on_progress = lambda progress: _say(
                    out, progress.model_dump_json(by_alias=True, exclude_none=True)
                )
                outcome = self._drive()
                _say(out, json.dumps(outcome_words(outcome)))
            elif live:
                with Live(console=console, get_renderable=self._view, refresh_per_second=4) as self._live:
                    outcome = self._drive()
            else:
                self._on_progress = _Lines(console)
                outcome = self._drive()
            if not self._shown.json_lines:
                conclude(console, outcome)
            if outcome.outcome == "Failed":
                _complain(Console(file=err, no_color=not self._shown.colour, highlight=False), outcome, log_file)
        return outcome.exit_code

    def _drive(self) -> RunOutcome:
        return self._driver.run_driver(self._backfill, settings=self._settings, observe=self._observe)

    def _observe(self, progress: Progress) -> None:
        self._progress = progress
        self._on_progress(progress)

    def _view(self) -> RenderableType:
        return show_progress(self._backfill.job_id, self._progress, STOPPING if self._presses else "")

    def _stop(self, _number: int, _frame: FrameType | None, err: TextIO) -> None:
        # No print here: the handler may run inside one.
        self._presses += 1
        if self._presses > 1:
            os.write(err.fileno(), b"\x1b[?25h\nended at once; `backfill run` goes on from the last seal\n")
            # The state is the target's; dying here loses the work in flight and nothing else.
            os._exit(EXIT_INTERRUPTED)
        if self._live is None:
            os.write(err.fileno(), STOPPING.encode() + b"\n")
        self._driver.request_stop(force=False)


@contextmanager
def _own_streams(log_file: Path | None) -> Iterator[tuple[TextIO, TextIO]]:
    """Yield our standard output and error, while the JVM (which inherits 1 and 2) writes to the log instead."""
    sys.stdout.flush()
    sys.stderr.flush()
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8", errors="replace")
    err = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="replace")
    log = os.dup(2) if log_file is None else os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield out, err
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        out.close()
        err.close()


class _Lines:
    """One line every few seconds and at every change of phase: for logs."""

    def __init__(self, console: Console) -> None:
        """Say nothing yet."""
        self._console = console
        self._last_s = float("-inf")
        self._phase = ""

    def __call__(self, progress: Progress) -> None:
        """Look at a progress."""
        now_s = time.monotonic()
        if now_s - self._last_s >= LINE_EVERY_S or progress.phase != self._phase:
            self._last_s, self._phase = now_s, progress.phase
            self._console.print(one_line(progress), soft_wrap=True, markup=False)


def _say(out: TextIO, line: str) -> None:
    out.write(line + "\n")
    out.flush()


def outcome_words(outcome: RunOutcome) -> dict[str, object]:
    """Return the last line of JSON output."""
    receipt = outcome.receipt
    return {
        "outcome": outcome.outcome,
        "exitCode": outcome.exit_code,
        "reason": outcome.reason,
        "message": outcome.message,
        "cure": outcome.cure,
        "receipt": None if receipt is None else receipt_words(receipt).model_dump(mode="json", by_alias=True),
    }


def conclude(console: Console, outcome: RunOutcome) -> None:
    """Say how an attempt ended that ended well, and its receipt."""
    if outcome.receipt is not None:
        console.print(show_receipt(receipt_words(outcome.receipt)))
    if outcome.outcome == "Failed":
        return
    style = "bold green" if outcome.outcome == "Complete" else "bold yellow"
    message = outcome.message
    if not message and outcome.progress is not None:
        done = outcome.progress
        message = (
            f"{done.rows_done:,} rows of history and {done.changes_done:,} changes, "
            f"up to source version {done.consumed_version}, in target version {done.table_version}"
        )
    console.print(f"[{style}]{outcome.outcome.lower()}[/]: ", end="")
    console.print(message, markup=False, soft_wrap=True)


def _complain(console: Console, outcome: RunOutcome, log_file: Path | None) -> None:
    console.print(f"error: {outcome.reason}: {outcome.message}", style="red", markup=False, soft_wrap=True)
    if outcome.cure:
        console.print(f"cure: {outcome.cure}", markup=False, soft_wrap=True)
    if log_file is not None and log_file.exists() and log_file.stat().st_size:
        console.print(f"log: {log_file}", markup=False, soft_wrap=True)
