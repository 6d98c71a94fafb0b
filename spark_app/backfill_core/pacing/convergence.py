"""Is the job catching up? The limit of what may be pending, and the trend of the lag.

The limit only shrinks, so that job and source must meet. A source that offers back-pressure makes no new version while its
lag is not below the limit. A Delta table offers none: there a lag that does not fall over ten batches is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

STEPS_WATCHED = 10
TIMES_MAX = 1000


@dataclass(frozen=True, slots=True)
class PendingLimit:
    """How much may be pending; units are the caller's (versions, or milliseconds of epochs)."""

    limit: float | None
    """None before the first step: practically unlimited."""

    share: float = 0.5
    """What of a consumed amount it shrinks by. Half: the source may advance one epoch while the job advances two."""

    def step(self, lag: int, elapsed: int) -> PendingLimit:
        """Take one consumed step: `limit := min(lag, limit - elapsed * share)`, never below 0, never up (R-SNAP-23, 24, 25)."""
        before = float(lag) if self.limit is None else self.limit - elapsed * self.share
        return replace(self, limit=max(0.0, min(lag, before)))

    def admits(self, lag: int) -> bool:
        """May another version come (R-SNAP-26)?"""
        return self.limit is None or lag < self.limit


@dataclass(frozen=True, slots=True)
class LagTrend:
    """The last lags of a job, in the caller's unit."""

    lags: tuple[int, ...] = ()
    """After each of the last batches, oldest first."""

    def observe(self, lag: int) -> LagTrend:
        """Take the lag after a batch."""
        return LagTrend((*self.lags[-STEPS_WATCHED:], lag))

    @property
    def non_convergent(self) -> bool:
        """Did the lag not fall over ten batches?"""
        return len(self.lags) > STEPS_WATCHED and self.lags[-1] >= self.lags[0] > 0


@dataclass(frozen=True, slots=True)
class BatchStep:
    """A batch that became durable: when, up to which version, and the newest version then."""

    at_s: float
    upto: int
    head: int


@dataclass(frozen=True, slots=True)
class EpochTimes:
    """Commit times of versions, as far as they were seen; between two of them time passes evenly."""

    known: tuple[tuple[int, int], ...] = ()
    """(version, milliseconds since 1970), both ascending."""

    def learn(self, version: int, timestamp_ms: int) -> EpochTimes:
        """Take the commit time of a version; older ones than the newest known say nothing new. At most 1,000 are kept."""
        if not self.known:
            return EpochTimes(((version, timestamp_ms),))
        newest, newest_ms = self.known[-1]
        if version <= newest:
            return self
        kept = self.known if len(self.known) < TIMES_MAX else self.known[:-1]
        return EpochTimes((*kept, (version, max(timestamp_ms, newest_ms))))

    def forget_before(self, version: int) -> EpochTimes:
        """Keep what is needed for a version and all later ones."""
        first = max((at for at, one in enumerate(self.known) if one[0] <= version), default=0)
        return EpochTimes(self.known[first:])

    def at(self, version: int) -> int:
        """Return the commit time of a version; outside of what is known that of the nearest one."""
        if not self.known or version <= self.known[0][0]:
            return self.known[0][1] if self.known else 0
        for (low, low_ms), (high, high_ms) in pairwise(self.known):
            if version <= high:
                return low_ms + (high_ms - low_ms) * (version - low) // (high - low)
        return self.known[-1][1]
