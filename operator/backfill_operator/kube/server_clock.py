"""The API server's time, so that a wrong clock of the operator does no harm.

A pod's age is the current time minus its creationTimestamp. With two clocks, the operator may give up a new driver that
seems an hour old, or wait for a dead one. So both times come from the server's clock, which every response contains. A
cluster has several API servers, and the clock of one of them may be wrong.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from statistics import median_low
from typing import Final

from backfill_operator.kube.rate import time_of

TOLERATED_MS: Final = 2_000
"""The header has whole seconds and a response takes a while, so a smaller difference is ignored."""

FIRST_S: Final = 1_577_836_800
LAST_S: Final = 4_102_444_800
"""The years 2020 to 2099. Any other time is not plausible for a server, and years stay below five digits."""


KEPT: Final = 32
"""Number of last responses in use. While one of them confirms this machine's clock, the clock is not corrected."""


def wall_ms() -> int:
    """Return milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


class ServerClock:
    """This machine's clock, corrected by the API server's."""

    def __init__(self, own_ms: Callable[[], int] = wall_ms) -> None:
        """Use this machine's clock until the first response."""
        self._own_ms = own_ms
        self._differences: deque[int] = deque(maxlen=KEPT)
        """Milliseconds that the servers of the last responses were ahead; 0 if the difference is tolerated."""

    @property
    def ahead_ms(self) -> int:
        """Difference of the server's clock to ours, in milliseconds; positive if the server is ahead."""
        confirmed = not self._differences or 0 in self._differences
        return 0 if confirmed else median_low(self._differences)

    def now_ms(self) -> int:
        """Return milliseconds since 1970 by the server's clock."""
        return self._own_ms() + self.ahead_ms

    def on_response(self, date: str | None) -> None:
        """Take the `Date` header of a response that has just arrived; an unreadable one is ignored."""
        server_s = time_of(date)
        if server_s is None or not FIRST_S <= server_s < LAST_S:
            return
        ahead_ms = int(server_s * 1000) - self._own_ms()
        self._differences.append(ahead_ms if abs(ahead_ms) > TOLERATED_MS else 0)
