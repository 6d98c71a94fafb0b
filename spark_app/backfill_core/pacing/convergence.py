"""Is the job catching up? RisingWave slows the upstream; we measure against the same rule.

The limit only shrinks, by half of what was consumed, so that the upstream may still advance about one epoch
while the job advances two. A lag above it means that the upstream would have been slowed down (R-SNAP-26).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

STEPS_WATCHED = 10


@dataclass(frozen=True, slots=True)
class PendingLimit:
    """The pending limit and the last lags; units are the caller's (versions, or milliseconds of epochs)."""

    limit: float | None
    """None before the first step: practically unlimited."""

    lags: tuple[int, ...] = ()
    """Lag after each of the last steps, oldest first."""

    def step(self, lag: int, elapsed: int) -> PendingLimit:
        """Take one consumed step: `limit := min(lag, limit - elapsed / 2)`, never below 0, never up (R-SNAP-23, 25)."""
        before = float(lag) if self.limit is None else self.limit - elapsed / 2
        return replace(self, limit=max(0.0, min(lag, before)), lags=(*self.lags[-STEPS_WATCHED:], lag))

    @property
    def non_convergent(self) -> bool:
        """Did the lag not fall over ten steps?"""
        return len(self.lags) > STEPS_WATCHED and self.lags[-1] >= self.lags[0] > 0
