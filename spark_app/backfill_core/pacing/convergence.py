"""Convergence of a job: the limit of pending changes, and the trend of the lag.

The limit only shrinks, so that job and source must meet. A source that offers back-pressure commits no new version until its
lag is below the limit. A Delta table offers none, so a lag that does not fall over ten batches is reported instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

STEPS_WATCHED = 10
TIMES_MAX = 1000


@dataclass(frozen=True, slots=True)
class PendingLimit:
    """Most that may be pending, in the caller's unit (versions, or milliseconds of epochs)."""

    limit: float | None
    """`None` before the first step, which means practically unlimited."""

    share: float = 0.5
    """Part of a consumed amount by which the limit shrinks. Half: the source may advance one epoch while the job advances two."""

    def step(self, lag: int, elapsed: int) -> PendingLimit:
        """Return the limit after a consumed step: `limit := min(lag, limit - elapsed * share)`, never below 0, never up (R-SNAP-23, 24, 25)."""
        before = float(lag) if self.limit is None else self.limit - elapsed * self.share
        return replace(self, limit=max(0.0, min(lag, before)))

    def admits(self, lag: int) -> bool:
        """Return whether another version may arrive (R-SNAP-26)."""
        return self.limit is None or lag < self.limit


@dataclass(frozen=True, slots=True)
class LagTrend:
    """Recent lags of a job, in the caller's unit."""

    lags: tuple[int, ...] = ()
    """Lag after each of the last batches, oldest first."""

    def observe(self, lag: int) -> LagTrend:
        """Return the trend with the lag after one more batch."""
        return LagTrend((*self.lags[-STEPS_WATCHED:], lag))

    @property
    def non_convergent(self) -> bool:
        """True if the lag did not fall over ten batches."""
        return len(self.lags) > STEPS_WATCHED and self.lags[-1] >= self.lags[0] > 0


@dataclass(frozen=True, slots=True)
class BatchStep:
    """A batch that became durable: its time, its last version, and the newest version at that time."""

    at_s: float
    upto: int
    head: int


@dataclass(frozen=True, slots=True)
class EpochTimes:
    """Known commit times of versions, with linear interpolation between them."""

    points: tuple[tuple[int, int], ...] = ()
    """(version, milliseconds since 1970), both ascending."""

    def learn(self, version: int, timestamp_ms: int) -> EpochTimes:
        """Add the commit time of a version. Versions up to the newest known one are ignored, and at most 1,000 are kept."""
        if not self.points:
            return EpochTimes(((version, timestamp_ms),))
        newest, newest_ms = self.points[-1]
        if version <= newest:
            return self
        kept = self.points if len(self.points) < TIMES_MAX else self.points[:-1]
        return EpochTimes((*kept, (version, max(timestamp_ms, newest_ms))))

    def forget_before(self, version: int) -> EpochTimes:
        """Drop times that are not needed for this version and later ones."""
        first = max((at for at, (earlier, _) in enumerate(self.points) if earlier <= version), default=0)
        return EpochTimes(self.points[first:])

    def at(self, version: int) -> int:
        """Return the commit time of a version; outside of the known range, that of the nearest known version."""
        if not self.points or version <= self.points[0][0]:
            return self.points[0][1] if self.points else 0
        for (low, low_ms), (high, high_ms) in pairwise(self.points):
            if version <= high:
                return low_ms + (high_ms - low_ms) * (version - low) // (high - low)
        return self.points[-1][1]
