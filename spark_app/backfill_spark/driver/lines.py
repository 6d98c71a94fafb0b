"""Progress as lines, for a pod's log, a pipe and a file: how often, and as JSON for programs.

The driver's own thread hands in what it sees, and never waits: a reader that is slow must not hold up a seal. A thread of
ours says it.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from backfill_api.status.progress import Progress

POD_EVERY_S = 10.0
"""A log is kept for days; `backfill status` shows more."""

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
    """Return what a line must not be late for: a step, a phase, the first rows, a command that is in force."""
    step = progress.reason if not progress.attempt else ""
    # Between two splits of a slow job nothing runs either, and a warning has numbers that move.
    at_rest, warnings = progress.paused is not None and progress.quiet, len(progress.warnings)
    return (
        progress.attempt, progress.phase, progress.step, step, progress.rows_done > 0, progress.paused, at_rest,
        progress.stopping, progress.revision, progress.throttle_rows_per_second, progress.throttle_until,
        progress.throttle_bytes_per_second, progress.caught_up, warnings,
    )  # fmt: skip


def json_line(words: dict[str, Any]) -> str:
    """Return a line for programs."""
    return json.dumps(words, separators=(",", ":"), ensure_ascii=False) + "\n"


class Lines:
    """A line every so many seconds, and at once when something turns."""

    def __init__(self, say: Callable[[Progress], None], every_s: float) -> None:
        """Take the function that writes a line; a thread of ours calls it."""
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
        """Write what is left, unless the reader is gone."""
        self._waiting.put(None)
        self._thread.join(GOODBYE_S)

    def _run(self) -> None:
        while (progress := self._waiting.get()) is not None:
            self._say(progress)
