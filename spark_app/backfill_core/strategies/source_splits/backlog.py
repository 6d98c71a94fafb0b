"""Backlog of new records at each read. If it does not shrink, the source is faster than the job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from backfill_core.pacing.convergence import STEPS_WATCHED, LagTrend
from backfill_core.protocol.clock import Now
from backfill_core.protocol.strategy import JobWarning


@dataclass(frozen=True, slots=True)
class BacklogSample:
    """The start of one read."""

    at_s: float
    written: int
    """Total offsets of the source."""

    left: int
    """Offsets of the source that no read has taken."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Observations of the last reads. A read of all polled offsets leaves a backlog of 0."""

    trend: LagTrend = field(default_factory=LagTrend)
    observed: tuple[BacklogSample, ...] = ()

    def observe(self, written: int, left: int, now: Now) -> Backlog:
        """Record the start of a read, with the backlog after it."""
        observed = (*self.observed[-STEPS_WATCHED:], BacklogSample(now.mono_s, written, left))
        return replace(self, trend=self.trend.observe(left), observed=observed)

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Return a warning with both rates if the backlog does not shrink."""
        if not self.trend.non_convergent:
            return ()
        first, last = self.observed[0], self.observed[-1]
        seconds = last.at_s - first.at_s
        if seconds <= 0:
            return ()
        written, left = (last.written - first.written) / seconds, (last.left - first.left) / seconds
        rates = f"{written:,.0f} records/s are written, {written - left:,.0f} are read"
        return (JobWarning("NonConvergent", f"the backlog did not shrink over {STEPS_WATCHED} reads: {rates}"),)
