"""How soon a watch is opened again that failed, or that ended at once and brought nothing.

A proxy that cannot stream ends each watch as soon as it has begun. Lists carry the work meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from backfill_operator.kube.rate import jittered, wait

FIRST_S: Final = 0.25
DOUBLINGS_MAX: Final = 16
LASTED_S: Final = 20.0
"""A watch that was open for this long works, even if it brought nothing: there was nothing to tell."""

WARN_AT: Final = 5
"""Failures in a row of one watch that are worth a warning."""

_log = logging.getLogger(__name__)


class WatchPace:
    """Failures in a row of each watched path, and when the path may be requested again."""

    def __init__(self, max_s: float, on_failed: Callable[[str], None] = lambda _: None) -> None:
        """Start without failures.

        Args:
            max_s: The longest pause that this process chooses; a Retry-After may be longer.
            on_failed: Called with the path of each failure.
        """
        self._max_s = max_s
        self._on_failed = on_failed
        self._failures: Counter[str] = Counter()
        self._due: dict[str, float] = {}

    async def wait(self, path: str) -> None:
        """Wait until the path may be requested again."""
        await wait(self._due.get(path, 0.0) - asyncio.get_running_loop().time())

    def ended(self, path: str, *, lines: int, seconds: float) -> None:
        """Take the end of a watch: one that brought a line, or was open for long, did not fail."""
        if lines or seconds >= LASTED_S:
            self._failures.pop(path, None)
            self._due.pop(path, None)
        else:
            self.failed(path, "it ended at once and brought nothing")

    def failed(self, path: str, why: object, retry_after: float | None = None) -> None:
        """Take a failure; the next request of the path waits twice as long as after the one before."""
        failures = self._failures[path]
        self._failures[path] += 1
        pause_s = jittered(min(self._max_s, FIRST_S * 2.0 ** min(failures, DOUBLINGS_MAX)))
        self._due[path] = asyncio.get_running_loop().time() + max(pause_s, retry_after or 0.0)
        self._on_failed(path)
        if failures + 1 == WARN_AT:
            message = "the watch of %s failed %d times in a row, and lists replace it until it works: %s"
            _log.warning(message, path, WARN_AT, str(why)[:500])
