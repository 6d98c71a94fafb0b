"""Delays before a failed watch is reopened. A watch that ends at once without events counts as failed.

A proxy that does not support streaming ends each watch immediately. Meanwhile, lists find the changes.
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
"""A watch that was open for this long works, even without events: there were no changes."""

WARN_AT: Final = 5
"""Number of consecutive failures of one watch that causes a warning."""

_log = logging.getLogger(__name__)


class WatchPace:
    """Consecutive failures of each watched path, and the time of its next request."""

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
        """Record the end of a watch. It did not fail if it had a line, or was open for `LASTED_S`."""
        if lines or seconds >= LASTED_S:
            self._failures.pop(path, None)
            self._due.pop(path, None)
        else:
            self.failed(path, "it ended at once without events")

    def failed(self, path: str, why: object, retry_after: float | None = None) -> None:
        """Record a failure; the delay before the next request of the path doubles."""
        failures = self._failures[path]
        self._failures[path] += 1
        pause_s = jittered(min(self._max_s, FIRST_S * 2.0 ** min(failures, DOUBLINGS_MAX)))
        self._due[path] = asyncio.get_running_loop().time() + max(pause_s, retry_after or 0.0)
        self._on_failed(path)
        if failures + 1 == WARN_AT:
            message = "the watch of %s failed %d times in a row; lists replace it until it works: %s"
            _log.warning(message, path, WARN_AT, str(why)[:500])
