"""Rate of a copy, and its time left.

Rate: rows of the durable commits under the current limit, per second between them, without pauses. Rows that were started under another
limit do not count, and the commit that starts the clock does not count either.

Time left: rows that are not durable, at that rate, or at the limit if the limit is known to determine the pace, without the work since the
last commit. It is unknown if the limit changed and no rate was measured since. Before the first measurement it is a guess (`job.steps`).

Interval: it contains the mean rate of the remaining seals in nine of ten cases, if the machine changes its pace by at most `DRIFT`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

SAMPLES_MAX = 30
Z, T_EXCESS = 1.64, 1.9
"""Half width of the interval in standard errors: nine of ten estimates are within it. Student's quantile is near `Z + T_EXCESS / freedom`."""

ASSUMED_DEVIATION, ASSUMED_SAMPLES = 0.2, 2
"""Deviation of the rate of one seal that is assumed before it is measured, and its weight in samples."""

DRIFT = 0.1
"""Part of its rate by which a machine becomes faster or slower later: code that is compiled, other work that begins."""


@dataclass(frozen=True, slots=True)
class RateMeter:
    """Rows per second over the last seals under one limit; `observe` receives the rows of each seal."""

    samples: tuple[tuple[float, int], ...] = ()
    """(seconds since the previous seal, rows), newest last."""

    last_s: float | None = None
    limit: float | None = None
    """Limit in rows per second; `None` if unlimited."""

    before: float = 0.0
    """Rate of the last seals under the previous limit."""

    free: float = 0.0
    """Rate of the last seals without a limit; 0 if there was none."""

    held: bool = False
    """True during a pause, in which rate and time left are unknown."""

    def observe(self, rows: int, now_s: float) -> RateMeter:
        """Count the rows of a seal; the first seal only starts the clock. Simultaneous seals count as one."""
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
        """Begin a pause, or end it; its time is not counted."""
        return replace(self, held=held, last_s=now_s if self.held and not held else self.last_s)

    def restart(self, now_s: float) -> RateMeter:
        """Start again at a seal that contains rows which were started under another limit."""
        return replace(self, samples=(), last_s=now_s)

    @property
    def fresh(self) -> bool:
        """True if no rate was measured yet, under any limit."""
        return not (self.samples or self.before or self.free)

    def under(self, limit: float | None) -> RateMeter:
        """Start again if the limit changed: rates of two limits do not mix, and the next seal has rows of both."""
        if limit == self.limit:
            return self
        free = self.measured or self.free if self.limit is None else self.free
        return replace(self, samples=(), last_s=None, limit=limit, before=self.rows_per_s, free=free)

    @property
    def measured(self) -> float:
        """Mean rate of the last seals under this limit; 0 before the second seal."""
        seconds = sum(passed for passed, _ in self.samples)
        return sum(rows for _, rows in self.samples) / seconds if seconds else 0.0

    def worked_s(self, now_s: float) -> float:
        """Return the seconds of work on rows that the next seal will contain; at most those of an average seal."""
        if self.held or self.last_s is None or not self.samples:
            return 0.0
        average_s = sum(passed for passed, _ in self.samples) / len(self.samples)
        return min(max(0.0, now_s - self.last_s), average_s)

    @property
    def rows_per_s(self) -> float:
        """The newest measured rate, capped by the limit; 0 if no rate was measured."""
        return self.measured or (self.before if self.limit is None else min(self.before, self.limit))

    @property
    def expected(self) -> float:
        """Expected rate of the next rows; 0 if unknown, as under a raised limit without a measured rate."""
        if self.samples or self.limit is None or max(self.free, self.before) < self.limit:
            return self.measured or self.free
        return float(self.limit)


@dataclass(frozen=True, slots=True)
class Eta:
    """Seconds left, with an interval."""

    seconds: float
    low: float
    high: float


def estimate(rows_left: int, meter: RateMeter, now_s: float) -> Eta | None:
    """Estimate the seconds left; `None` without a rate.

    Args:
        rows_left: Rows that are not durable.
        meter: Rate of the durable rows.
        now_s: Monotonic time.
    """
    rate = meter.expected
    if rate <= 0:
        return None
    rates = [rows / passed for passed, rows in meter.samples]
    # One sample does not show its own error, so the interval is half and double.
    error = _error(rates, rate, _seals(rows_left, meter)) if len(rates) > 1 else rate / 2
    seconds = rows_left / rate
    high = rows_left / (rate - error) if error < rate * 0.9 else seconds * 10
    worked_s = meter.worked_s(now_s)
    return Eta(*(max(0.0, left_s - worked_s) for left_s in (seconds, rows_left / (rate + error), high)))


def _error(rates: list[float], rate: float, seals_left: float) -> float:
    """Return the half width of the interval that contains the mean rate of the remaining seals in nine of ten cases.

    Both means vary: that of the measured seals, and that of the remaining ones. Few samples understate the deviation, so it is mixed with
    an assumed one, and a quantile of Student's distribution is used.
    """
    freedom = len(rates) - 1 + ASSUMED_SAMPLES
    variance = ((len(rates) - 1) * _deviation(rates) ** 2 + ASSUMED_SAMPLES * (ASSUMED_DEVIATION * rate) ** 2) / freedom
    quantile = Z + T_EXCESS / freedom
    drift = DRIFT * rate
    return math.hypot(quantile * math.sqrt(variance * (1 / len(rates) + 1 / seals_left)), drift)


def _seals(rows_left: int, meter: RateMeter) -> float:
    """Return the number of the remaining seals, at least 1."""
    rows = sum(rows for _, rows in meter.samples) / len(meter.samples)
    return max(1.0, rows_left / rows) if rows else 1.0


def _deviation(rates: list[float]) -> float:
    """Return the standard deviation of a sample; `statistics.stdev` computes it in exact fractions, twenty times as slow."""
    mean = math.fsum(rates) / len(rates)
    return math.sqrt(math.fsum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1))
