"""Number of copy requests that are under way at a store: it grows until the store answers more slowly, or refuses.

observation                                         width
-------------------------------------------------   ------------------------------------------------------------
the store refuses a request (503)                   half, once per round; no growth in the next round
a round of answers, none refused, as fast as ever   doubled before the first sign of a busy store, then plus 8
a round at 1.5 times the best time                  unchanged
a round at 2.5 times the best time                  seven eighths

A round is as many answers as the width. Its time is the mean time of a small request (HEAD), which does not depend on the size of
the copied object. The width is never below 16 or above 256.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

NARROWEST, WIDEST = 16, 256
STEP = 8
SLOWER, MUCH_SLOWER = 1.5, 2.5
"""Multiples of the best time of a round at which the width no longer grows, and at which it falls."""


@dataclass(frozen=True, slots=True)
class RequestWidth:
    """Width, and the observations that decide the next one."""

    width: int = NARROWEST
    best_s: float | None = None
    """Shortest mean time of a round; `None` before the first round."""

    was_busy: bool = False
    """True after the first sign of a busy store."""

    refused: bool = False
    """True if a request of this round was refused."""

    answers: int = 0
    answers_s: float = 0.0
    """Answers of this round, and the sum of their times in seconds."""

    def share(self, batches: int) -> int:
        """Return the width of each of some batches; one request at least, or a batch would wait for ever."""
        return max(1, self.width // max(1, batches))

    def refuse(self) -> RequestWidth:
        """Return the state after a refused request."""
        if self.refused:
            return self
        return replace(
            self, width=max(NARROWEST, self.width // 2), was_busy=True, refused=True, answers=0, answers_s=0.0
        )

    def answer(self, seconds: float) -> RequestWidth:
        """Return the state after an answer to a small request."""
        state = replace(self, answers=self.answers + 1, answers_s=self.answers_s + seconds)
        return state if state.answers < state.width else _next_round(state)


def _next_round(ended: RequestWidth) -> RequestWidth:
    mean_s = ended.answers_s / ended.answers
    best_s = mean_s if ended.best_s is None else min(ended.best_s, mean_s)
    state = replace(ended, best_s=best_s, answers=0, answers_s=0.0, refused=False)
    if ended.refused:
        return state
    if mean_s > MUCH_SLOWER * best_s:
        return replace(state, width=max(NARROWEST, ended.width * 7 // 8), was_busy=True)
    if mean_s > SLOWER * best_s:
        return replace(state, was_busy=True)
    return replace(state, width=min(WIDEST, ended.width + STEP if ended.was_busy else ended.width * 2))
