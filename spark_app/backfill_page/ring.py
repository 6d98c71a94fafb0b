"""Rates, limits and lags of a watched job for its charts; a status stores none of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from backfill_console.facts import WITHOUT_DRIVER
from backfill_console.frame import JobFrame

SAMPLE_EVERY_S = 2.0
SAMPLES_MAX = 900
"""Samples that are kept: half an hour."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of a job at one time."""

    at_s: int
    """Seconds since 1970."""

    rows_per_second: int | None
    """`None` while no driver runs."""

    limit: int | None
    """Limit in rows a second; `None` if there is none."""

    lag: int | None
    """Lag in seconds; `None` while no driver runs."""


@dataclass(frozen=True, slots=True)
class Ring:
    """The newest samples, oldest first."""

    samples: tuple[Sample, ...] = ()
    last: datetime | None = None

    def after(self, frame: JobFrame, at: datetime) -> Ring:
        """Return the ring with a sample of this frame; unchanged without an attempt, or soon after a sample."""
        progress = frame.progress
        soon = self.last is not None and (at - self.last).total_seconds() < SAMPLE_EVERY_S
        if not progress.attempt or soon:
            return self
        limit = None if frame.limit is None else frame.limit.rows_per_second
        # A status keeps the values of the last driver.
        rests = frame.phase in WITHOUT_DRIVER
        rate, lag = (None, None) if rests else (progress.rows_per_second, progress.lag_seconds)
        sample = Sample(int(at.timestamp()), rate, limit, lag)
        return Ring((*self.samples, sample)[-SAMPLES_MAX:], at)

    def columns(self) -> dict[str, list[int | None]]:
        """Return the samples as one list of each value, as a chart takes them."""
        return {
            "at": [sample.at_s for sample in self.samples],
            "rate": [sample.rows_per_second for sample in self.samples],
            "limit": [sample.limit for sample in self.samples],
            "lag": [sample.lag for sample in self.samples],
        }
