"""The time by the API server's clock: what it has stamped is compared with it, so an operator whose own is wrong does no harm.

A pod's age is "now less its creationTimestamp". When the two are of different clocks, a fresh driver may look an hour
old and be given up, or a dead one be waited for. So the server's clock counts for both; every answer carries its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final

TOLERATED_MS: Final = 2_000
"""The header has whole seconds, and an answer takes a while: below this the clocks agree."""


def wall_ms() -> int:
    """Return milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


class ServerClock:
    """This machine's clock, corrected by what the API server says."""

    def __init__(self, own_ms: Callable[[], int] = wall_ms) -> None:
        """Trust the own clock until the server says something else."""
        self._own_ms = own_ms
        self.ahead_ms = 0
        """How much the server's clock is ahead of ours."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970 by the server's clock."""
        return self._own_ms() + self.ahead_ms

    def on_response(self, date: str | None) -> None:
        """Take the `Date` of an answer that has just come; one that cannot be read says nothing."""
        try:
            server_ms = int(parsedate_to_datetime(date or "").timestamp() * 1000)
        except (ValueError, OverflowError):
            return
        ahead_ms = server_ms - self._own_ms()
        self.ahead_ms = ahead_ms if abs(ahead_ms) > TOLERATED_MS else 0
