"""Progress as lines for a pod's log, a pipe or a file; JSON lines for programs.

The driver's thread adds progress to a queue and never waits, because a slow reader must not delay a seal. A separate thread writes
the lines.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from backfill_api.spec.override import WIDTH_FIELDS
from backfill_api.status.progress import Progress

POD_EVERY_S = 10.0
"""Seconds between two lines of a pod's log. Logs are kept for days, so lines are few; `backfill status` shows more."""

WAITING_MAX = 1000
"""Number of lines that may wait for a slow reader; further lines are dropped."""

GOODBYE_S = 2.0


def clock() -> str:
    """Return the current time in UTC, RFC 3339, to the second."""
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def progress_document(job_id: str, progress: Progress, elapsed_s: float | None = None, *, grid: bool) -> dict[str, Any]:
    """Return a job's progress for programs: time, job, seconds since the start, and the fields of the progress."""
    left_out = set() if grid else {"grid"}
    return {
        "time": clock(),
        "jobId": job_id,
        **({} if elapsed_s is None else {"elapsedSeconds": round(elapsed_s, 1)}),
        **progress.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=left_out),
    }


def progress_in(fields: dict[str, Any]) -> Progress:
    """Parse a result of `progress_document`."""
    return Progress.model_validate(
        {name: value for name, value in fields.items() if name not in {"time", "jobId", "elapsedSeconds"}}
    )


def turning(progress: Progress) -> tuple[object, ...]:
    """Return the values whose change causes a line at once: step, phase, first rows, commands in force and others."""
    step = progress.reason if not progress.attempt else ""
    # `quiet` counts only while the job is paused, because a slow job is also quiet between two splits.
    # Warnings are counted, not compared, because their messages contain changing numbers.
    at_rest, warnings = progress.paused is not None and progress.quiet, len(progress.warnings)
    return (
        progress.attempt, progress.phase, progress.step, step, progress.rows_done > 0, progress.paused, at_rest,
        progress.stopping, progress.revision, progress.throttle_rows_per_second, progress.throttle_until,
        progress.throttle_bytes_per_second, progress.caught_up, warnings,
        *(getattr(progress, name) for name in WIDTH_FIELDS),
    )  # fmt: skip


def json_line(fields: dict[str, Any]) -> str:
    """Return a line for programs."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False) + "\n"


class Lines:
    """Writes a line every `every_s` seconds, and at once after an important change (`turning`)."""

    def __init__(self, say: Callable[[Progress], None], every_s: float) -> None:
        """Take the function that writes a line; a separate thread calls it."""
        self._say = say
        self._every_s = every_s
        self._last_s = float("-inf")
        self._turning: tuple[object, ...] = ()
        self._waiting: queue.SimpleQueue[Progress | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
        self._thread.start()

    def see(self, progress: Progress) -> None:
        """Take the newest progress, and queue a line if one is due."""
        now_s, turns = time.monotonic(), turning(progress)
        if (now_s - self._last_s >= self._every_s or turns != self._turning) and self._waiting.qsize() < WAITING_MAX:
            self._last_s, self._turning = now_s, turns
            self._waiting.put(progress)

    def close(self) -> None:
        """Write the queued lines; stop waiting after two seconds, because the reader may be gone."""
        self._waiting.put(None)
        self._thread.join(GOODBYE_S)

    def _run(self) -> None:
        while (progress := self._waiting.get()) is not None:
            self._say(progress)
