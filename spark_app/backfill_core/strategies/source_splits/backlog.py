"""What reads of new records leave to the next one: where that does not get less, the source is faster than the job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from backfill_core.pacing.convergence import STEPS_WATCHED, LagTrend
from backfill_core.protocol.clock import Now
from backfill_core.protocol.strategy import JobWarning


@dataclass(frozen=True, slots=True)
class Observation:
    """The start of one read."""

    at_s: float
    written: int
    """Offsets that the source had in all."""

    left: int
    """Of these, those that no read has taken."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The last reads; one that takes all that was known leaves nothing, however much came before it."""

    trend: LagTrend = field(default_factory=LagTrend)
    observed: tuple[Observation, ...] = ()

    def observe(self, written: int, left: int, now: Now) -> Backlog:
        """Take the start of a read, with what is left behind it."""
        observed = (*self.observed[-STEPS_WATCHED:], Observation(now.mono_s, written, left))
        return replace(self, trend=self.trend.observe(left), observed=observed)

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Name both rates when what is left does not get less."""
        if not self.trend.non_convergent:
            return ()
        first, last = self.observed[0], self.observed[-1]
        seconds = last.at_s - first.at_s
        if seconds <= 0:
            return ()
        written, left = (last.written - first.written) / seconds, (last.left - first.left) / seconds
        rates = f"{written:,.0f} records/s are written, {written - left:,.0f} are read"
        return (JobWarning("NonConvergent", f"what is new did not get less over {STEPS_WATCHED} reads: {rates}"),)
