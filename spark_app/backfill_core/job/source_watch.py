"""Polls of the source: one at a time from the barriers, and one more when earlier answers become stale.

event                                     then
---------------------------------------   ------------------------------------------------------------------
a poll starts                             no barrier starts another poll before its answer arrives
a commit makes earlier polls stale        answers that are still awaited count as stale
`SourcePolled`                            fresh, unless the poll started before the polls became stale
`PollFailed`                              tolerated while the error is retryable, for `LOST_MAX` polls in a row
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_core.errors import BackfillError
from backfill_core.protocol.clock import Now

KEPT_EVERY = 10
"""Barriers between two polls that check that the source still keeps the next version, so that a slow copy does not lose it."""

LOST_MAX = 30
"""Tolerated number of failed polls in a row, about half a minute of barriers."""


@dataclass(frozen=True, slots=True)
class SourceWatch:
    """Counts of polls, and the age of their answers."""

    polls: int = 0
    answered: int = 0
    stale_up_to: int = 0
    """Answers up to this one do not count as fresh."""

    lost: int = 0
    """Failed polls in a row."""

    answered_ms: int | None = None
    """Wall time of the newest successful answer, in milliseconds."""

    @property
    def awaits(self) -> bool:
        """True if a poll is not answered yet."""
        return self.polls != self.answered

    @property
    def fresh(self) -> bool:
        """True if the newest answer belongs to a poll that started after polls became stale."""
        return self.answered > self.stale_up_to

    def ask(self) -> SourceWatch:
        """Return the counts with one more poll under way."""
        return replace(self, polls=self.polls + 1)

    def expire(self) -> SourceWatch:
        """Return the counts with all polls so far stale."""
        return replace(self, stale_up_to=self.polls)

    def answer(self, now: Now) -> SourceWatch:
        """Return the counts with one more answer."""
        return replace(self, answered=self.answered + 1, lost=0, answered_ms=now.wall_ms)

    def lose(self) -> SourceWatch:
        """Return the counts with one more failure."""
        return replace(self, answered=self.answered + 1, lost=self.lost + 1)

    def bears(self, error: BackfillError) -> bool:
        """True if the poll that failed last may be tried again."""
        return error.retryable and not error.ends_attempt and self.lost <= LOST_MAX
