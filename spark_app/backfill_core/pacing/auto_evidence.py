"""Evidence for the automatic limit: which lag, requests and answers count as measurements of the limit in force."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from backfill_core.protocol.events import StoreCounted

LAG_EVERY_S = 5.0
"""Time between two measurements of the lag, because changes follow another limit with a delay."""

REQUESTS_MIN = 20
"""Number of requests of one measurement: of fewer, a single refused one would be a high share."""


@dataclass(frozen=True, slots=True)
class LagTrend:
    """Lag of live changes. A lag that is too high and falls is no measurement: the limit in force is low enough."""

    measured_s: float = -math.inf
    lag_s: float = 0.0

    def see(self, lag_s: float, most_s: float, now_s: float) -> tuple[LagTrend, float | None]:
        """Return the trend after a barrier, and the lag if it is a measurement."""
        if now_s - self.measured_s < LAG_EVERY_S:
            return self, None
        falls = most_s < lag_s < self.lag_s
        return LagTrend(now_s, lag_s), None if falls else lag_s


@dataclass(frozen=True, slots=True)
class RefusedShare:
    """Refused part of the requests after the last measurement."""

    newest: StoreCounted | None = None
    measured: StoreCounted | None = None
    """Counts at the last measurement; `None` before the first counts."""

    def count(self, counts: StoreCounted) -> RefusedShare:
        """Return the share with newer counts. Lower counts belong to a file system that was opened again."""
        reopened = self.newest is not None and counts.requests < self.newest.requests
        return RefusedShare(counts, counts if reopened or self.measured is None else self.measured)

    def forget(self) -> RefusedShare:
        """Return the share without the requests so far: they were sent under another limit."""
        return replace(self, measured=self.newest)

    def measure(self) -> tuple[RefusedShare, float | None]:
        """Return the share from now on, and the refused percentage; `None` after too few requests."""
        newest, measured = self.newest, self.measured
        if newest is None or measured is None or newest.requests - measured.requests < REQUESTS_MIN:
            return self, None
        percent = 100 * (newest.refused - measured.refused) / (newest.requests - measured.requests)
        return self.forget(), percent
