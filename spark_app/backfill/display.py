"""Display of a run without a terminal: a block in a notebook that is redrawn, or lines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from html import escape
from typing import Any, Protocol

from backfill.lines import GOODBYE_S, Lines, clock
from backfill_api.amounts import show_seconds
from backfill_api.status.progress import Progress
from backfill_console.formatting import (
    format_eta,
    format_filtered,
    format_lag,
    format_limit,
    format_phase,
    format_position,
    format_state,
    one_line,
    show_rows,
)

LINE_EVERY_S = 5.0
COLOURS = {"paused": "#b58900", "caught up": "#2e7d32"}


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


def in_notebook(display: Any, job_id: str) -> Newest:
    """Show a block in the cell's output that each progress redraws; a closed notebook does not end the job."""
    shown = display(_Html(html(job_id, Progress(reason="starting Spark"))), display_id=True)
    return Newest(lambda progress: shown.update(_Html(html(job_id, progress))), lambda _: None)


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


def html(job_id: str, progress: Progress) -> str:
    """Return the progress of a job as HTML: a bar and the most important values. All text of the job is escaped."""
    state = format_state(progress)
    colour = COLOURS.get("paused" if progress.paused else state, "#1565c0")
    phase = format_phase(progress)
    head = f"<b>{escape(job_id)}</b> {f'attempt {progress.attempt}, ' if progress.attempt else ''}{escape(phase)}"
    bar = (
        '<div style="background:#ddd;width:100%;height:0.6em;border-radius:0.3em;margin:0.3em 0">'
        f'<div style="background:{colour};width:{progress.percent}%;height:100%;border-radius:0.3em"></div></div>'
    )
    rows = (
        f"{show_rows(progress.rows_done)} of {show_rows(progress.rows_total)}{format_filtered(progress.rows_filtered)}"
    )
    facts = {
        "rows": rows,
        "rate": f"{show_rows(progress.rows_per_second)} rows/s" if progress.rows_per_second else "-",
        "limit": format_limit(progress),
        "ETA": format_eta(progress),
        "lag": f"{format_lag(progress)}, {show_seconds(progress.lag_seconds)}",
        "changes": show_rows(progress.changes_done),
        "state": state,
    }
    cells = "".join(f'<span style="opacity:0.6">{name}</span> {escape(value)} &emsp;' for name, value in facts.items())
    notes = [note for note in (format_position(progress), progress.reason) if note]
    notes += [f"warning: {warning}" for warning in progress.warnings]
    body = f"{progress.percent} % &emsp;{cells}" if progress.attempt else ""
    lines = "".join(f'<div style="color:#b58900">{escape(note)}</div>' for note in notes)
    return f'<div style="font-family:sans-serif;max-width:60em">{head}{bar}{body}{lines}</div>'
