"""Display of a run without a terminal: a block in a notebook that is redrawn, or lines."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from backfill.buttons import buttons_for
from backfill.lines import GOODBYE_S, Lines, clock, current_time
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.progress import Progress
from backfill_console.formatting import one_line
from backfill_console.frame import Trend
from backfill_console.frames import frame_of_driver
from backfill_console.html import frame_html

if TYPE_CHECKING:
    from backfill.control import Commands
    from backfill.run import Run

LINE_EVERY_S = 5.0
REDRAW_EVERY_S = 1.0

Display = Callable[..., Any]
"""`display` of IPython."""


class Observer(Protocol):
    """Receives each progress of a run, and returns at once."""

    def see(self, progress: Progress) -> None:
        """Receive the progress of the run."""

    def close(self) -> None:
        """Show the last one."""


class Newest:
    """Passes the newest progress to a callback on a separate thread; progress that arrives while it runs is skipped."""

    def __init__(self, call: Callable[[Progress], None], on_error: Callable[[Exception], None]) -> None:
        """Begin to wait for looks; `on_error` gets what `call` raises, which is not called again then."""
        self._call = call
        self._on_error = on_error
        self._progress: Progress | None = None
        self._over = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="on_progress", daemon=True)
        self._thread.start()

    def see(self, progress: Progress) -> None:
        """Receive the progress of the run."""
        with self._news:
            self._progress = progress
            self._news.notify()

    def close(self) -> None:
        """Hand over the last progress, unless the callback is stuck."""
        with self._news:
            self._over = True
            self._news.notify()
        self._thread.join(GOODBYE_S)

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._over or self._progress is not None)
                progress, self._progress = self._progress, None
            if progress is None:
                return
            try:
                self._call(progress)
            except Exception as error:  # noqa: BLE001 - the caller's own code; `run` raises it
                self._on_error(error)
                return


def notebook() -> Any | None:
    """Return IPython's `display` in a notebook; None elsewhere."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython
    from IPython.display import display

    return display if getattr(get_ipython(), "kernel", None) is not None else None


class LiveBlock:
    """Block in the output of a cell, redrawn in place every second; a closed notebook does not end the job."""

    def __init__(
        self, display: Display, job_id: str, spec: BackfillSpec | None = None, commands: Commands | None = None
    ) -> None:
        """Show the start, and redraw on a separate thread.

        Args:
            display: Shows a value in the output of the cell.
            job_id: Id of the job.
            spec: Its spec, which names strategy and tables.
            commands: Receives the commands of buttons; `None` for no buttons, as while the cell keeps the kernel busy.
        """
        self._job_id = job_id
        self._spec = spec
        self._progress = Progress(reason="starting Spark")
        self._trend = Trend()
        self._began_s = time.monotonic()
        self._over = threading.Event()
        self._shown = display(_Html(self._html()), display_id=True)
        self._buttons = None if commands is None else buttons_for(commands, display)
        self._thread = threading.Thread(target=self._run, name="notebook", daemon=True)
        self._thread.start()

    def see(self, progress: Progress) -> None:
        """Draw this progress from now on."""
        self._progress = progress

    def close(self) -> None:
        """Draw the last frame, which a stored notebook keeps."""
        self._over.set()
        self._thread.join(GOODBYE_S)
        if self._buttons is not None:
            self._buttons.close()

    def _run(self) -> None:
        with suppress(Exception):  # the notebook is closed
            while not self._over.wait(REDRAW_EVERY_S):
                self._shown.update(_Html(self._html()))
            self._shown.update(_Html(self._html()))

    def _html(self) -> str:
        now = current_time()
        self._trend = self._trend.after(self._progress, now)
        up_s = time.monotonic() - self._began_s
        return html(self._job_id, self._progress, spec=self._spec, trend=self._trend, up_s=up_s)


def view_for(
    job_id: str,
    spec: BackfillSpec,
    on_progress: Callable[[Progress], None] | None,
    elsewhere: Callable[[str], Observer],
    commands: Commands | None = None,
) -> Callable[[Run], Observer]:
    """Return the view of a run: a callback, else a block in a notebook, else `elsewhere`.

    Args:
        job_id: Id of the job.
        spec: Its spec.
        on_progress: The caller's callback.
        elsewhere: View outside a notebook.
        commands: Receives the commands of buttons; `None` for no buttons.
    """
    shown = notebook()

    def view(run: Run) -> Observer:
        if on_progress is not None:
            return Newest(on_progress, run.give_up)
        return elsewhere(job_id) if shown is None else LiveBlock(shown, job_id, spec, commands)

    return view


def in_lines(job_id: str) -> Lines:
    """Print a line every five seconds, and one at each turn, on standard error."""
    return Lines(lambda progress: print(f"{clock()} {job_id}  {one_line(progress)}", file=sys.stderr), LINE_EVERY_S)


def unseen(_job_id: str) -> Lines:
    """Show nothing."""
    return Lines(lambda _: None, float("inf"))


class _Html:
    """Text that a notebook shows as HTML."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text


def html(
    job_id: str,
    progress: Progress,
    *,
    spec: BackfillSpec | None = None,
    trend: Trend | None = None,
    up_s: float | None = None,
) -> str:
    """Return the progress of a job as HTML. All text of the job is escaped."""
    return frame_html(frame_of_driver(job_id, progress, now=current_time(), spec=spec, trend=trend, up_s=up_s))
