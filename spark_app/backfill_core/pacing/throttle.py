"""Rate limit of history: one token bucket for the job, in rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """Rows that may be read now; below zero is a debt, which must be repaid before anything else is read.

    Over any time t it admits at most `rate * t + burst` rows, plus the error of the last estimate; the burst is `rate * burst_s`
    rows, at least one. All of the time between two barriers counts, even if it is longer than the burst. So a barrier that is late by up
    to one more burst loses nothing, and never gets more than its time admits.
    A rate of `None` is unlimited; a rate of 0 never admits anything (R-SNAP-41).
    """

    rate_per_s: float | None
    burst_s: float
    """Seconds of unused rate that are kept."""

    tokens: float
    at_s: float
    """Monotonic time to which `tokens` applies."""

    owed: float = 0.0
    """Rows that the debt originally stood for. A lower rate since then reduces the debt in `tokens` and keeps its seconds."""

    pace: float | None = field(default=None, compare=False)
    """The last rate above 0, which converts a debt to seconds."""

    begins: bool = False
    """True if no limit was set yet, including an explicit absence of one."""

    passed_s: float | None = field(default=None, compare=False)
    """Time of the last barrier; `None` if none passed under this limit."""

    kept: float = field(default=0.0, compare=False)
    """Rows that the last barrier left in the bucket only because waiting rows could not be divided."""

    @classmethod
    def unlimited(cls) -> TokenBucket:
        """Return the bucket of a job whose limit is not set yet."""
        return cls(None, 1.0, 0.0, 0.0, begins=True)

    @classmethod
    def full(cls, rate_per_s: float | None, now_s: float, burst_s: float = 1.0) -> TokenBucket:
        """Return a bucket with the rows of one second, or with its capacity if that is less."""
        empty = cls(rate_per_s, burst_s, 0.0, now_s)
        return replace(empty, tokens=min(empty._room, float(rate_per_s or 0)))

    @property
    def _room(self) -> float:
        # At one row per second and a burst of one second, the bucket must still have room for one row (R-SNAP-42).
        return max(1.0, (self.rate_per_s or 0) * self.burst_s) if self.rate_per_s else 0.0

    def _room_at(self, now_s: float) -> float:
        since_s = 0.0 if self.passed_s is None else now_s - self.passed_s
        return max(self._room, min((self.rate_per_s or 0) * since_s, 2 * self._room)) + self.kept

    def passing(self, now_s: float, *, kept: float = 0.0) -> TokenBucket:
        """Return the bucket after a barrier took its share; `kept` is the part it left because rows are not divided."""
        now = self.refill(now_s)
        return replace(now, passed_s=now_s, kept=max(0.0, min(kept, now.tokens)))

    def refill(self, now_s: float) -> TokenBucket:
        """Return the bucket at a point in time; its time never runs backwards."""
        if self.rate_per_s is None or now_s <= self.at_s:
            return self
        tokens = min(self._room_at(now_s), self.tokens + self.rate_per_s * (now_s - self.at_s))
        return replace(self._with(max(tokens, min(self.tokens, 0.0))), at_s=now_s)

    def _with(self, tokens: float) -> TokenBucket:
        """Return the bucket with other tokens. A deeper debt increases `owed`, and repaying x % of the debt also reduces `owed` by x %."""
        before, debt = max(0.0, -self.tokens), max(0.0, -tokens)
        owed = self.owed + debt - before if debt >= before else self.owed * debt / before
        return replace(self, tokens=tokens, owed=owed)

    def available(self, now_s: float) -> float:
        """Return the rows that may start now; infinite without a limit, never below zero."""
        if self.rate_per_s is None:
            return math.inf
        if self.rate_per_s == 0:
            return 0.0
        # A rounding error must not cost a row at low rates.
        return max(0.0, self.refill(now_s).tokens + 1e-6)

    def covers_most(self, rows: float, now_s: float) -> bool:
        """Return whether rows that are not divided may pass now: if half of them is available, or the full capacity."""
        return self.rate_per_s != 0 and self.available(now_s) >= min(rows / 2, self._room)

    def take(self, rows: float, now_s: float) -> TokenBucket:
        """Charge rows; the bucket may go into debt. Negative rows are a refund."""
        if self.rate_per_s is None:
            return self
        now = self.refill(now_s)
        return now._with(min(now._room_at(now.at_s), now.tokens - rows))  # noqa: SLF001 - our own class

    def under(self, rate_per_s: float | None, now_s: float, burst_s: float) -> TokenBucket:
        """Set a limit: the first one starts with the rows of one second, a later one follows `with_rate`."""
        return TokenBucket.full(rate_per_s, now_s, burst_s) if self.begins else self.with_rate(rate_per_s, now_s)

    def with_rate(self, rate_per_s: float | None, now_s: float) -> TokenBucket:
        """Change the rate without a windfall: unused rows are lost, a debt remains.

        A debt keeps its length in seconds, because it was made at the old rate, but it never exceeds the rows owed. A rate of 0 leaves
        the debt unchanged, because nothing repays it then. Without a limit there is no debt.
        """
        old = self.refill(now_s)
        debt, pace = min(old.tokens, 0.0), old.rate_per_s or old.pace
        if rate_per_s is None or old.rate_per_s is None:
            debt = 0.0
        elif rate_per_s and pace:
            debt = max(debt * rate_per_s / pace, -old.owed)
        return TokenBucket(rate_per_s, self.burst_s, debt, max(now_s, self.at_s), old.owed if debt else 0.0, pace)
