"""How fast, and until when."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

SAMPLES_MAX = 30
Z = 1.64
"""Half width of the interval in standard errors: nine of ten estimates hold."""


@dataclass(frozen=True, slots=True)
class RateMeter:
    """Rows a second over the last seals; `observe` is given each seal's rows."""

    samples: tuple[tuple[float, int], ...] = ()
    """(seconds since the seal before, rows), newest last."""

    last_s: float | None = None
    limit: int | None = None
    """Rows a second that were allowed; None: any number."""

    stale: bool = False
    """Is the rate that of another limit? Then the next seal is the first one that counts."""

    held: bool = False
    """Is there a pause? Then there is no rate and no time left to tell."""

    def observe(self, rows: int, now_s: float) -> RateMeter:
        """Count the rows of a seal; the first one only starts the clock. Seals of one moment count as one."""
        if self.last_s is None:
            return replace(self, last_s=now_s)
        passed = now_s - self.last_s
        if self.stale:
            return replace(self, samples=(), stale=False).observe(rows, now_s)
        if passed < 1e-3:
            if not self.samples:
                return self
            *earlier, (seconds, counted) = self.samples
            return replace(self, samples=(*earlier, (seconds, counted + rows)))
        return replace(self, samples=(*self.samples[1 - SAMPLES_MAX :], (passed, rows)), last_s=now_s)

    def hold(self, now_s: float, *, held: bool) -> RateMeter:
        """Begin a pause, or end it; its time is forgotten."""
        return replace(self, held=held, last_s=now_s if self.held and not held else self.last_s)

    def under(self, limit: int | None) -> RateMeter:
        """Keep the rate of another limit until the next seal: rates of two limits do not mix."""
        return replace(self, limit=limit, stale=bool(self.samples) and (self.stale or limit != self.limit))

    @property
    def rows_per_s(self) -> float:
        """Mean rate of the last seals; 0 before the second."""
        seconds = sum(passed for passed, _ in self.samples)
        return sum(rows for _, rows in self.samples) / seconds if seconds else 0.0


@dataclass(frozen=True, slots=True)
class Eta:
    """Seconds left, with an interval."""

    seconds: float
    low: float
    high: float


def estimate(rows_left: int, meter: RateMeter) -> Eta | None:
    """Estimate the seconds left; None while there is no rate to go by."""
    rate = meter.rows_per_s
    if rate <= 0:
        return None
    rates = [rows / passed for passed, rows in meter.samples]
    mean = sum(rates) / len(rates)
    spread = math.sqrt(sum((one - mean) ** 2 for one in rates) / max(1, len(rates) - 1)) / math.sqrt(len(rates))
    # One sample says nothing about its own error: half and double.
    error = Z * spread if len(rates) > 1 else rate / 2
    seconds = rows_left / rate
    high = rows_left / (rate - error) if error < rate * 0.9 else seconds * 10
    return Eta(seconds, rows_left / (rate + error), high)
