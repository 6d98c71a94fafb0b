"""What a run tells while it goes on: lines for logs, JSON for programs, a block of lines on a terminal.

The driver's own thread hands in what it sees, and never waits: a reader that is slow (a pager, a terminal that is held)
must not hold up a seal. A thread of ours says it.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from backfill_api.progress import Progress

LINE_EVERY_S = 5.0
JSON_EVERY_S = 1.0
SCREEN_EVERY_S = 0.25
WAITING_MAX = 1000
"""Lines that a slow reader may be behind; further ones are left out."""

GOODBYE_S = 2.0


def clock() -> str:
    """Return the moment, RFC 3339, in UTC, to the second."""
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def progress_words(job_id: str, progress: Progress, elapsed_s: float | None = None, *, grid: bool) -> dict[str, Any]:
    """Return a look at a job for programs: moment, job, seconds since the start, and the fields of the progress."""
    left_out = set() if grid else {"grid"}
    return {
        "time": clock(),
        "jobId": job_id,
        **({} if elapsed_s is None else {"elapsedSeconds": round(elapsed_s, 1)}),
        **progress.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=left_out),
    }


def progress_in(words: dict[str, Any]) -> Progress:
    """Read what `progress_words` returned."""
    return Progress.model_validate(
        {name: value for name, value in words.items() if name not in {"time", "jobId", "elapsedSeconds"}}
    )


def turning(progress: Progress) -> tuple[object, ...]:
    """Return what a line must not be late for: a step, a phase, a command that is in force."""
    step = progress.reason if not progress.attempt else ""
    return (
        progress.attempt, progress.phase, step, progress.paused, progress.quiet, progress.stopping, progress.revision,
        progress.throttle_rows_per_second, progress.throttle_until, progress.caught_up, progress.warnings,
    )  # fmt: skip


class Teller(Protocol):
    """Says a run to somebody, on a thread of its own."""

    def see(self, progress: Progress) -> None:
        """Take a look at the job; returns at once."""

    def close(self) -> None:
        """Say what is left to be said, and end."""


class Lines:
    """A line every so many seconds, and at once when something turns."""

    def __init__(self, say: Callable[[Progress], None], every_s: float) -> None:
        """Take what says a line; it is called on a thread of ours."""
        self._say = say
        self._every_s = every_s
        self._last_s = float("-inf")
        self._turning: tuple[object, ...] = ()
        self._waiting: queue.SimpleQueue[Progress | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
        self._thread.start()

    def see(self, progress: Progress) -> None:
        """Take a look at the job."""
        now_s, turns = time.monotonic(), turning(progress)
        if (now_s - self._last_s >= self._every_s or turns != self._turning) and self._waiting.qsize() < WAITING_MAX:
            self._last_s, self._turning = now_s, turns
            self._waiting.put(progress)

    def close(self) -> None:
        """Say what is left to be said, unless nobody listens."""
        self._waiting.put(None)
        self._thread.join(GOODBYE_S)

    def _run(self) -> None:
        while (progress := self._waiting.get()) is not None:
            self._say(progress)


class Redrawn:
    """Draws the newest look again and again, and once more at the end."""

    def __init__(self, draw: Callable[[Progress], None], progress: Progress) -> None:
        """Take what draws; it is called on a thread of ours."""
        self._draw = draw
        self._progress = progress
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._thread.start()

    def see(self, progress: Progress) -> None:
        """Take a look at the job."""
        self._progress = progress

    def close(self) -> None:
        """Draw it as it is at the end."""
        self._over.set()
        self._thread.join(GOODBYE_S)

    def _run(self) -> None:
        while not self._over.wait(SCREEN_EVERY_S):
            self._draw(self._progress)
        self._draw(self._progress)


def json_line(words: dict[str, Any]) -> str:
    """Return a line for programs."""
    return json.dumps(words, separators=(",", ":"), ensure_ascii=False) + "\n"
