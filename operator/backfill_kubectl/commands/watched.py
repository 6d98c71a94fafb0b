"""The watch of one Backfill on a terminal: its block, its logs, events or grid, and keys that command it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

import click
from pydantic import ValidationError
from rich.console import Console
from rich.live import Live

from backfill_api.plain_text import printable
from backfill_api.spec.spec import BackfillSpec
from backfill_console.commands import key_screen
from backfill_console.commands.key_screen import KEYS, KeyCommand, KeyScreen, Quit, answered, press
from backfill_console.commands.key_views import parts_lines, view_lines
from backfill_console.frame import EventNote, JobFrame, Trend
from backfill_console.object_frames import frame_of_object, progress_of_status
from backfill_console.segments import Line, line
from backfill_console.terminal import DrawnLines, show_frame
from backfill_core.errors import BackfillError
from backfill_core.lifecycle.naming import driver_name
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.job_watch import JobWatch, Seen
from backfill_kubectl.cluster.writer import await_acknowledgement, write_change
from backfill_kubectl.commands.changes import answer_line, claim_of
from backfill_kubectl.commands.logs import CONTAINER, event_rows
from backfill_kubectl.commands.options import now
from backfill_kubectl.decisions.attention import job_line
from backfill_kubectl.decisions.changes import Change, Pause, Resume, TakeReceipt, Throttle
from backfill_kubectl.decisions.event_lines import event_lines
from backfill_kubectl.decisions.pod_notes import pod_notes
from backfill_kubectl.drawing.console import plugin_console
from backfill_kubectl.drawing.table import job_table

if TYPE_CHECKING:
    from backfill_console.commands.keyboard import Keyboard

DRAW_S: Final = 1.0
LOGS_S: Final = 2.0
LOG_LINES_MAX: Final = 200
WAIT_S: Final = 30.0
RECEIPT_WAIT_S: Final = 3600.0


def frame_of(
    seen: Seen, trend: Trend | None = None, *, message: str = "", keys: Sequence[tuple[str, str]] = ()
) -> JobFrame | None:
    """Return the frame of a job; `None` if this version cannot read its spec.

    Args:
        seen: The job.
        trend: Samples of a watch.
        message: Answer to the last key.
        keys: Keys that the screen accepts.
    """
    backfill, moment = seen.backfill, now()
    try:
        spec = BackfillSpec.model_validate(backfill.spec, by_alias=True, by_name=False)
    except ValidationError:
        return None
    number = None if backfill.status.attempt is None else backfill.status.attempt.number
    notes = [
        EventNote(
            event.reason, event.message, "Warning" if event.type == "Warning" else "Normal",
            None if event.time is None else event.time.isoformat(), event.count,
        )
        for event in event_lines(seen.events)
    ]  # fmt: skip
    unreadable = (f"{field}: cannot be read" for field in backfill.unreadable)
    note = "; ".join(part for part in (message, *seen.limits, *unreadable) if part)
    return frame_of_object(
        backfill.namespace, backfill.name, spec, backfill.status, now=moment, pods=pod_notes(seen.pods, number, moment),
        events=notes, trend=trend, updated_at=seen.at, note=note, keys=keys,
    )  # fmt: skip


def changes(job: JobWatch, every_s: float) -> Iterator[Seen]:
    """Yield the state after each change, at least every so often, and at last the state that ends the watch."""
    while True:
        job.news.wait(every_s)
        job.news.clear()
        seen = job.seen
        yield seen
        if over(seen):
            return


def over(seen: Seen) -> bool:
    """Return whether the watch of a job ends."""
    return seen.deleted or seen.error is not None or seen.backfill.ended


def draw(api: ApiServer, job: JobWatch, *, ascii_only: bool) -> None:
    """Draw a job until it ends or a person quits; keys work if standard input is a terminal."""
    console, trend = plugin_console(ascii_only=ascii_only), Trend()
    with ExitStack() as stack:
        keyboard = _keyboard(job, stack)
        screen = _Screen(api, job, console, ascii_only=ascii_only)
        live = stack.enter_context(Live(console=console, auto_refresh=False, vertical_overflow="crop"))
        for seen in changes(job, DRAW_S):
            trend = trend.after(progress_of_status(seen.backfill.status), now())
            goes_on = keyboard is None or screen.take(keyboard.pressed())
            keys = KEYS if keyboard is not None and goes_on and not over(seen) else ()
            live.update(screen.drawn(seen, trend, keys), refresh=True)
            if not goes_on:
                break
    if screen.state.waits_for and not over(job.seen):
        click.echo(f"{screen.state.waits_for}: not acknowledged yet; it stays recorded", err=True)


def _keyboard(job: JobWatch, stack: ExitStack) -> Keyboard | None:
    """Return the keyboard; `None` without a terminal for input."""
    if sys.platform == "win32":  # without `termios`
        return None
    from backfill_console.commands.keyboard import Keyboard, has_keys

    return stack.enter_context(Keyboard(job.news.set)) if has_keys() else None


def _change(command: KeyCommand) -> Change:
    """Return the change that a key requests."""
    match command:
        case key_screen.Pause():
            return Pause()
        case key_screen.Resume():
            return Resume()
        case key_screen.Throttle():
            return Throttle(command.rows_per_second)
        case key_screen.Verify():
            return TakeReceipt()


class _Screen:
    """State of the screen, and the threads that work for it."""

    def __init__(self, api: ApiServer, job: JobWatch, console: Console, *, ascii_only: bool) -> None:
        """Begin with the block of the job."""
        self._api, self._job, self._console, self._ascii_only = api, job, console, ascii_only
        self._answers: SimpleQueue[str] = SimpleQueue()
        self._log: list[str] = ["reading the log …"]
        self._log_read_s: float | None = None
        self.state = KeyScreen()

    def take(self, keys: Sequence[str]) -> bool:
        """Apply keys, and answers that have arrived; return false if a person quits."""
        try:
            while True:
                self.state = answered(self.state, self._answers.get_nowait())
        except Empty:
            pass
        for key in keys:
            self.state, requested = press(self.state, key)
            if isinstance(requested, Quit):
                return False
            if requested is not None:
                self._start(partial(self._send, _change(requested)))
        return True

    def drawn(self, seen: Seen, trend: Trend, keys: Sequence[tuple[str, str]]) -> DrawnLines | str:
        """Return the view for the console."""
        room = self._console.height - 1
        if self.state.view == "job" or over(seen):
            frame = frame_of(seen, trend, message=self.state.note, keys=keys)
            if frame is not None:
                return show_frame(frame, lines=room)
        job, state = seen.backfill.key, self.state
        return DrawnLines(lambda columns: view_lines(job, state, self._body(seen, columns), keys, columns, room))

    def _body(self, seen: Seen, columns: int) -> list[Line]:
        backfill = seen.backfill
        match self.state.view:
            case "grid":
                return parts_lines(backfill.progress, columns)
            case "events":
                texts = event_rows(seen.events) or ["no events; the cluster keeps them for about an hour"]
            case "logs":
                self._read_log(seen)
                texts = self._log
            case _:
                texts = job_table([job_line(backfill, now())], ascii_only=self._ascii_only)
        return [line(text) for text in texts]

    def _read_log(self, seen: Seen) -> None:
        """Read the newest lines of the driver's log in a thread, every two seconds."""
        attempt = seen.backfill.status.attempt
        if attempt is None:
            self._log = ["it had no attempt yet"]
            return
        if self._log_read_s is not None and time.monotonic() - self._log_read_s < LOGS_S:
            return
        self._log_read_s = time.monotonic()
        pod, query = (
            driver_name(seen.backfill.name, attempt.number),
            {"container": CONTAINER, "tailLines": str(LOG_LINES_MAX)},
        )

        def read() -> None:
            try:
                lines = [text.decode(errors="replace") for text in self._api.log(seen.backfill.namespace, pod, query)]
                self._log = [printable(text.rstrip()) for text in lines] or ["the log is empty"]
            except BackfillError as error:
                self._log = [printable(error.message)]

        self._start(read)

    def _send(self, change: Change) -> None:
        """Write a change, and show the answer to it."""
        backfill = self._job.seen.backfill
        wait_s = RECEIPT_WAIT_S if isinstance(change, TakeReceipt) else WAIT_S
        try:
            written = write_change(
                self._api, backfill.namespace, backfill.name, change, how=None, claim=claim_of(None, "")
            )
            answer, _, seconds = await_acknowledgement(self._api, written, wait_s=wait_s)
        except BackfillError as error:
            self._answers.put(f"{error.reason}: {error.message}")
        else:
            self._answers.put(answer_line(written, answer, seconds))

    def _start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            work()
            self._job.news.set()

        threading.Thread(target=run, daemon=True).start()
