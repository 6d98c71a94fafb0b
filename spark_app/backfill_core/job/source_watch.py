"""Watching the source: one poll at a time from the barriers, and one more whenever what was seen does not count any more.

event                                     then
---------------------------------------   ------------------------------------------------------------------
a poll is asked for                       it is awaited; no barrier asks for another before it is answered
a commit makes earlier polls stale        those that are awaited count as stale when they come
`SourcePolled`                            fresh, unless it was awaited when polls became stale
`PollFailed`                              borne while the error may pass, for half a minute of barriers
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_core.errors import BackfillError
from backfill_core.protocol.clock import Now

KEPT_EVERY = 10
"""Barriers between two polls that ask whether the source still keeps the next version: a slow copy must not end with that."""

LOST_MAX = 30
"""Failed polls in a row that are borne."""


@dataclass(frozen=True, slots=True)
class SourceWatch:
    """Counts of polls."""

    asked: int = 0
    answered: int = 0
    stale_up_to: int = 0
    """Answers up to this one do not count as fresh."""

    lost: int = 0
    """Failed ones in a row."""

    answered_ms: int | None = None
    """Wall time of the newest answer that was no failure."""

    @property
    def awaits(self) -> bool:
        """Is an answer to come?"""
        return self.asked != self.answered

    @property
    def fresh(self) -> bool:
        """Was the newest answer asked for after polls became stale?"""
        return self.answered > self.stale_up_to

    def ask(self) -> SourceWatch:
        """One more poll is under way."""
        return replace(self, asked=self.asked + 1)

    def expire(self) -> SourceWatch:
        """What was asked so far does not count as fresh."""
        return replace(self, stale_up_to=self.asked)

    def answer(self, now: Now) -> SourceWatch:
        """A poll was answered."""
        return replace(self, answered=self.answered + 1, lost=0, answered_ms=now.wall_ms)

    def lose(self) -> SourceWatch:
        """A poll failed."""
        return replace(self, answered=self.answered + 1, lost=self.lost + 1)

    def bears(self, error: BackfillError) -> bool:
        """May the poll that failed last be tried again?"""
        return error.retryable and not error.ends_attempt and self.lost <= LOST_MAX
