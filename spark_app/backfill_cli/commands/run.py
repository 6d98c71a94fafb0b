"""Runs a job in this process, and displays its progress."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.text import Text

from backfill import Backfill, BackfillError, Outcome, Progress, Receipt
from backfill import run as attempt
from backfill.display import Observer
from backfill.errors import EXIT_COMPLETE, EXIT_STOPPED
from backfill.lines import Lines, clock, current_time, json_line, progress_document
from backfill_api.amounts import counted, show_seconds
from backfill_api.plain_text import printable
from backfill_cli.commands.options import EXIT_INTERRUPTED, say_error, terminal
from backfill_cli.terminal.redrawn import JSON_EVERY_S, LINE_EVERY_S, Redrawn
from backfill_cli.terminal.screen import SHOW_CURSOR, Screen
from backfill_cli.terminal.streams import Out, own_streams
from backfill_console.formatting import format_filtered, format_source_head, head_json, one_line
from backfill_console.frame import Trend
from backfill_console.frames import frame_of_driver
from backfill_console.heading import format_steps
from backfill_console.terminal import show_frame, show_receipt

STOPPING = "stopping at a barrier; Ctrl-C again: at once"
ENDED_AT_ONCE = "ended at once; `backfill run` resumes from the last commit"
READER_GONE = "standard output was closed: stopping at a barrier"


@dataclass(frozen=True)
class Shown:
    """Display options of a run."""

    json_lines: bool = False
    colour: bool = True
    ascii_only: bool = False
    log_file: Path | None = None
    """Log file of the JVM; `None` for a file in the state folder, or standard error with `verbose`."""

    grid: bool = False
    """Add the parts of the snapshot to each JSON line."""

    quiet: bool = False
    """Show only the outcome."""

    verbose: bool = False
    """Messages of Spark and the JVM go to standard error."""


class RunCommand:
    """One attempt, its view, and the two presses of Ctrl-C."""

    def __init__(self, job: Backfill, shown: Shown, driver: attempt.Driver | None = None) -> None:
        """Take the parts; nothing starts before `to_end`. `driver` runs the attempt; `None` for the real one."""
        self._job = job
        self._shown = shown
        self._driver = driver
        self._attempt: attempt.Run | None = None
        self._stop_asked = False
        self._began_s = time.monotonic()
        self._trend = Trend()
        self._presses = 0
        self._reader_gone = False
        self._drawn = False

    def to_end(self) -> int:
        """Run the attempt, show it, and return the exit code."""
        log_file = self._log_file()
        with own_streams(log_file, self._on_reader_gone) as (out, err), self._stopped_by_signals(err.fileno()):
            console, errors = self._console(out), self._console(err)
            view = self._view(out, console)
            ended, receipt = self._ended(view)
            elapsed_s = time.monotonic() - self._began_s
            if self._shown.json_lines:
                fields = outcome_document(ended, receipt, elapsed_s)
                out.write(json_line({"time": clock(), "jobId": self._job.job_id, **fields}))
            else:
                if isinstance(view, _Drawn):
                    # The receipt and the final line of a complete job contain everything.
                    view.leave(erase=receipt is not None and _exit_code(ended) == EXIT_COMPLETE)
                conclude(console, ended, receipt, elapsed_s)
            if self._reader_gone:
                errors.print(READER_GONE, markup=False)
            if isinstance(ended, BackfillError):
                _complain(errors, ended, log_file)
        return _exit_code(ended)

    def _ended(self, view: Observer) -> tuple[Outcome | BackfillError, Receipt | None]:
        """Run the attempt to its end; return its outcome, and its last receipt."""
        try:
            run = self._attempt = self._job.shown_by(lambda _: view, driver=self._driver)
        except BaseException:
            view.close()  # an open view would hide the cursor and the error
            if isinstance(view, _Drawn):
                view.leave(erase=False)
            raise
        if self._stop_asked:
            run.stop()
        run.join()
        try:
            return run.result(), run.receipt
        except BackfillError as error:
            return error, run.receipt

    def _log_file(self) -> Path | None:
        if self._shown.log_file is not None or self._shown.verbose:
            return self._shown.log_file
        return self._job.log_file

    def _console(self, out: Out) -> Console:
        return terminal(out, colour=self._shown.colour, ascii_only=self._shown.ascii_only)

    # ------------------------------------------------------------------ display during the run
    def _view(self, out: Out, console: Console) -> Observer:
        job, first = self._job.job_id, Progress(reason="starting Spark")
        if self._shown.quiet:
            return Lines(lambda _: None, float("inf"))
        if self._shown.json_lines:
            view = Lines(lambda progress: self._write_json(out, progress), JSON_EVERY_S)
        elif console.is_terminal and not console.is_dumb_terminal:
            self._drawn = True
            return _Drawn(Screen(console), self, first)
        else:
            view = Lines(
                lambda progress: _write_line(out, f"{clock()} {job}  {one_line(progress, elapsed_s=self.elapsed_s)}"),
                LINE_EVERY_S,
            )
        view.see(first)
        return view

    def _write_json(self, out: Out, progress: Progress) -> None:
        out.write(json_line(progress_document(self._job.job_id, progress, self.elapsed_s, grid=self._shown.grid)))

    @property
    def elapsed_s(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self._began_s

    def draw(self, screen: Screen, progress: Progress) -> None:
        """Draw the block of a progress."""
        now = current_time()
        self._trend = self._trend.after(progress, now)
        frame = frame_of_driver(
            self._job.job_id,
            progress,
            now=now,
            spec=self._job.spec,
            trend=self._trend,
            up_s=self.elapsed_s,
            note=STOPPING if self._presses else "",
        )
        screen.draw(show_frame(frame, lines=screen.room[1]))

    # ------------------------------------------------------------------ signals
    @contextmanager
    def _stopped_by_signals(self, err: int) -> Iterator[None]:
        """Stop at a barrier on a signal; a second Ctrl-C or SIGTERM ends at once. SIGHUP never does: it may come twice."""
        before: dict[signal.Signals, Any] = {}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Signals that were ignored at the start (nohup) stay ignored, except Ctrl-C: a shell starts background jobs with it ignored.
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            before[number] = signal.signal(number, lambda number, frame: self._stop(number, frame, err))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, _frame: FrameType | None, err: int) -> None:
        # The handler uses no lock and no buffer: it may run inside a print.
        if number == signal.SIGHUP:
            self._ask_to_stop()
            return
        self._presses += 1
        if self._presses > 1:
            _write(err, f"{SHOW_CURSOR if self._drawn else ''}\n{ENDED_AT_ONCE}\n")
            # The state is in the target: ending here loses only the work in flight.
            os._exit(EXIT_INTERRUPTED)
        if not self._drawn:
            _write(err, f"{STOPPING}\n")
        self._ask_to_stop()

    def _ask_to_stop(self) -> None:
        # The request may arrive before the attempt exists.
        self._stop_asked = True
        if self._attempt is not None:
            self._attempt.stop()

    def _on_reader_gone(self) -> None:
        # The user closed the terminal, or the reader of a pipe, such as `head`, ended.
        self._reader_gone = True
        self._ask_to_stop()


class _Drawn:
    """Progress block on a terminal, redrawn repeatedly."""

    def __init__(self, screen: Screen, run: RunCommand, first: Progress) -> None:
        """Start to draw."""
        self._screen = screen
        self._redrawn = Redrawn(lambda progress: run.draw(screen, progress), first)

    def see(self, progress: Progress) -> None:
        """Draw this progress from now on."""
        self._redrawn.see(progress)

    def close(self) -> None:
        """Draw the final view."""
        self._redrawn.close()

    def leave(self, *, erase: bool) -> None:
        """Leave the final view on the screen, or remove it."""
        self._screen.close(erase=erase)


def _write_line(out: Out, line: str) -> None:
    out.write(" ".join(line.splitlines()) + "\n")


def _write(descriptor: int, text: str) -> None:
    with suppress(OSError):  # the terminal may be closed
        os.write(descriptor, text.encode())


def _exit_code(ended: Outcome | BackfillError) -> int:
    if isinstance(ended, BackfillError):
        return ended.exit_code
    return EXIT_COMPLETE if ended.state == "Complete" else EXIT_STOPPED


def outcome_document(ended: Outcome | BackfillError, receipt: Receipt | None, elapsed_s: float) -> dict[str, object]:
    """Return the last line of JSON output."""
    return {
        "outcome": "Failed" if isinstance(ended, BackfillError) else ended.state,
        "exitCode": _exit_code(ended),
        "elapsedSeconds": round(elapsed_s, 1),
        "reason": ended.reason,
        "message": ended.message,
        "hint": ended.hint if isinstance(ended, BackfillError) else "",
        "receipt": None if receipt is None else receipt.model_dump(mode="json", by_alias=True),
        "sourceHead": head_json(None if isinstance(ended, BackfillError) else ended.source_head),
    }


def conclude(console: Console, ended: Outcome | BackfillError, receipt: Receipt | None, elapsed_s: float) -> None:
    """Print the receipt; for an attempt that did not fail, also its outcome and duration."""
    head = None if isinstance(ended, BackfillError) else ended.source_head
    if isinstance(ended, Outcome) and ended.state == "Complete" and ended.progress and ended.progress.steps:
        console.print(Text(format_steps(ended.progress.steps), style="dim"), soft_wrap=True)
    if receipt is not None:
        console.print(show_receipt(receipt, head))
    if isinstance(ended, BackfillError):
        return
    word, style = ended.state.lower(), "bold green" if ended.state == "Complete" else "bold yellow"
    message = ended.message
    if not message and ended.progress is not None:
        done = ended.progress
        message = (
            f"{counted(done.rows_done, 'row')} of the snapshot{format_filtered(done.rows_filtered)} "
            f"and {counted(done.changes_done, 'change')}, "
            f"up to source {done.consumed_position or f'version {done.consumed_version}'}, in target version {done.table_version}"
        )
    newer = "" if receipt is not None else format_source_head(head)
    message += f"; {newer}" if newer else ""
    message = printable(message)
    end = message.removeprefix(word) if message.startswith(word) else f": {message}"
    took = f" (after {show_seconds(int(elapsed_s))})"
    console.print(Text.assemble((word, style), end, took), soft_wrap=True)


def _complain(console: Console, error: BackfillError, log_file: Path | None) -> None:
    say_error(error.reason, error.message, error.hint, console=console)
    if log_file is not None and log_file.exists() and log_file.stat().st_size:
        console.print(f"log: {log_file}", markup=False, soft_wrap=True)
