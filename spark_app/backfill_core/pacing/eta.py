"""How fast, and until when.

Rate: rows of the durable commits under the limit in force, per second between them; the time of a pause is left out. Rows that were begun
under another limit do not count, nor does the commit that starts the clock.

Time left: rows that are not durable, at that rate; at the limit where the limit is known to be the pace; unknown where the limit was
changed and no rate is measured since. Before any rate was measured it is a guess (`job.steps`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import stdev

SAMPLES_MAX = 30
Z = 1.64
"""Half width of the interval in standard errors: nine of ten estimates hold."""


@dataclass(frozen=True, slots=True)
class RateMeter:
    """Rows a second over the last seals under one limit; `observe` is given each seal's rows."""

    samples: tuple[tuple[float, int], ...] = ()
    """(seconds since the seal before, rows), newest last."""

    last_s: float | None = None
    limit: float | None = None
    """Rows a second that were allowed; None: any number."""

    before: float = 0.0
    """Rate of the last seals under the limit before."""

    free: float = 0.0
    """Rate of the last seals without a limit; 0: there was none."""

    held: bool = False
    """Is there a pause? Then there is no rate and no time left to tell."""

    def observe(self, rows: int, now_s: float) -> RateMeter:
        """Count the rows of a seal; the first one only starts the clock. Seals of one moment count as one."""
        if self.last_s is None:
            return replace(self, last_s=now_s)
        passed = now_s - self.last_s
        if passed < 1e-3:
            if not self.samples:
                return self
            *earlier, (seconds, counted) = self.samples
            return replace(self, samples=(*earlier, (seconds, counted + rows)))
        return replace(self, samples=(*self.samples[1 - SAMPLES_MAX :], (passed, rows)), last_s=now_s)

    def hold(self, now_s: float, *, held: bool) -> RateMeter:
        """Begin a pause, or end it; its time is forgotten."""
        return replace(self, held=held, last_s=now_s if self.held and not held else self.last_s)

    def restart(self, now_s: float) -> RateMeter:
        """Begin again at a seal that has rows which were begun under another limit."""
        return replace(self, samples=(), last_s=now_s)

    @property
    def fresh(self) -> bool:
        """Was no rate measured yet, under any limit?"""
        return not (self.samples or self.before or self.free)

    def under(self, limit: float | None) -> RateMeter:
        """Begin anew where the limit is another one: rates of two limits do not mix, and the next seal has rows of both."""
        if limit == self.limit:
            return self
        free = self.measured or self.free if self.limit is None else self.free
        return replace(self, samples=(), last_s=None, limit=limit, before=self.rows_per_s, free=free)

    @property
    def measured(self) -> float:
        """Mean rate of the last seals under this limit; 0 before the second."""
        seconds = sum(passed for passed, _ in self.samples)
        return sum(rows for _, rows in self.samples) / seconds if seconds else 0.0

    @property
    def rows_per_s(self) -> float:
        """The newest rate that was measured, as far as the limit lets it be; 0: none was."""
        return self.measured or (self.before if self.limit is None else min(self.before, self.limit))

    @property
    def expected(self) -> float:
        """Rate of the rows to come; 0: unknown, as under a limit that was raised, and nothing tells the rate without one."""
        if self.samples or self.limit is None or max(self.free, self.before) < self.limit:
            return self.measured or self.free
        return float(self.limit)


@dataclass(frozen=True, slots=True)
class Eta:
    """Seconds left, with an interval."""

    seconds: float
    low: float
    high: float


def estimate(rows_left: int, meter: RateMeter) -> Eta | None:
    """Estimate the seconds left; None while there is no rate to go by."""
    rate = meter.expected
    if rate <= 0:
        return None
    rates = [rows / passed for passed, rows in meter.samples]
    # One sample says nothing about its own error: half and double.
    error = Z * stdev(rates) / math.sqrt(len(rates)) if len(rates) > 1 else rate / 2
    seconds = rows_left / rate
    high = rows_left / (rate - error) if error < rate * 0.9 else seconds * 10
    return Eta(seconds, rows_left / (rate + error), high)
