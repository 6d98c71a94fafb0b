"""How fast history may be read: one token bucket for the job, in rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """Rows that may be read now; below zero is a debt that is paid before anything else is read.

    Over any time t it admits at most `rate * t + burst` rows, plus the error of the last estimate; the burst
    is `rate * burst_s` rows, at least one. From one barrier to the next all of the time counts, also where that is longer than
    the burst: a barrier that is late by up to one burst more loses nothing, and still takes no more than the time is worth.
    A rate of None is unlimited; 0 admits nothing, ever (R-SNAP-41).
    """

    rate_per_s: float | None
    burst_s: float
    """How much unused rate is kept, in seconds."""

    tokens: float
    at_s: float
    """When `tokens` was true, monotonic seconds."""

    owed: float = 0.0
    """Rows that the debt was made of; a lower rate since then has made it fewer in `tokens`, which keep its seconds."""

    pace: float | None = field(default=None, compare=False)
    """The last rate above 0: what the seconds of a debt are measured in."""

    begins: bool = False
    """Was no limit told yet, not even that there is none?"""

    passed_s: float | None = field(default=None, compare=False)
    """When the last barrier passed; None: under this limit none did."""

    kept: float = field(default=0.0, compare=False)
    """Rows that the last barrier left in the bucket only because what waited for it could not be cut."""

    @classmethod
    def unlimited(cls) -> TokenBucket:
        """Return the bucket of a job that no limit was told yet."""
        return cls(None, 1.0, 0.0, 0.0, begins=True)

    @classmethod
    def full(cls, rate_per_s: float | None, now_s: float, burst_s: float = 1.0) -> TokenBucket:
        """Return a bucket with one second's rows in it, or as many as it holds if those are fewer."""
        empty = cls(rate_per_s, burst_s, 0.0, now_s)
        return replace(empty, tokens=min(empty._room, float(rate_per_s or 0)))

    @property
    def _room(self) -> float:
        # At one row a second and a burst of one second the bucket must still be able to hold one row (R-SNAP-42).
        return max(1.0, (self.rate_per_s or 0) * self.burst_s) if self.rate_per_s else 0.0

    def _room_at(self, now_s: float) -> float:
        since_s = 0.0 if self.passed_s is None else now_s - self.passed_s
        return max(self._room, min((self.rate_per_s or 0) * since_s, 2 * self._room)) + self.kept

    def passing(self, now_s: float, *, kept: float = 0.0) -> TokenBucket:
        """Return the bucket once a barrier has taken its share; `kept`: what it left because rows stay together."""
        now = self.refill(now_s)
        return replace(now, passed_s=now_s, kept=max(0.0, min(kept, now.tokens)))

    def refill(self, now_s: float) -> TokenBucket:
        """Return the bucket as it is at a moment; time never runs backwards for it."""
        if self.rate_per_s is None or now_s <= self.at_s:
            return self
        tokens = min(self._room_at(now_s), self.tokens + self.rate_per_s * (now_s - self.at_s))
        return replace(self._with(max(tokens, min(self.tokens, 0.0))), at_s=now_s)

    def _with(self, tokens: float) -> TokenBucket:
        """Return the bucket with other tokens: a deeper debt is owed in rows, and what pays a part of it pays that part."""
        before, debt = max(0.0, -self.tokens), max(0.0, -tokens)
        owed = self.owed + debt - before if debt >= before else self.owed * debt / before
        return replace(self, tokens=tokens, owed=owed)

    def available(self, now_s: float) -> float:
        """Return how many rows may start now; infinite without a limit, never below zero."""
        if self.rate_per_s is None:
            return math.inf
        if self.rate_per_s == 0:
            return 0.0
        # A hair of rounding must not cost a row at low rates.
        return max(0.0, self.refill(now_s).tokens + 1e-6)

    def covers_most(self, rows: float, now_s: float) -> bool:
        """May rows that stay together go now? When half of them is there, or all that the bucket holds."""
        return self.rate_per_s != 0 and self.available(now_s) >= min(rows / 2, self._room)

    def take(self, rows: float, now_s: float) -> TokenBucket:
        """Charge rows; the bucket may go into debt. Negative rows give back."""
        if self.rate_per_s is None:
            return self
        now = self.refill(now_s)
        return now._with(min(now._room_at(now.at_s), now.tokens - rows))  # noqa: SLF001 - our own class

    def under(self, rate_per_s: float | None, now_s: float, burst_s: float) -> TokenBucket:
        """Take a limit: the first one begins with one second's rows, a later one as `with_rate` says."""
        return TokenBucket.full(rate_per_s, now_s, burst_s) if self.begins else self.with_rate(rate_per_s, now_s)

    def with_rate(self, rate_per_s: float | None, now_s: float) -> TokenBucket:
        """Change the rate without a windfall: what was saved is lost, a debt is not.

        A debt keeps its length in seconds, because it was made at the old rate, but is never more rows than were owed; a rate
        of 0 leaves it as it is, because nothing pays it then; without a limit there is none.
        """
        old = self.refill(now_s)
        debt, pace = min(old.tokens, 0.0), old.rate_per_s or old.pace
        if rate_per_s is None or old.rate_per_s is None:
            debt = 0.0
        elif rate_per_s and pace:
            debt = max(debt * rate_per_s / pace, -old.owed)
        return TokenBucket(rate_per_s, self.burst_s, debt, max(now_s, self.at_s), old.owed if debt else 0.0, pace)
