"""Share of the transactions of other writers that commits of a job may have made fail, and the distance of commits that bounds it.

A log has no failed transaction. So each commit of the job that replaced files counts as one, once writers rewrite files again after it. It
counts as none if one of these rewrites had read a version before the commit: that transaction was in flight, and Delta found no conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

from backfill_core.in_place.conflicts import ForeignChanges

BUSY_REWRITES: Final = 5
"""Rewrites in `RECENT_MS` before a listing from which on writers are busy, so that the first commit of an attempt keeps a distance too."""

RECENT_MS: Final = 60_000
PERCENT: Final = 100


@dataclass(frozen=True, slots=True)
class WriterConflicts:
    """Counts of a job; the state keeps them, so that they cover all attempts."""

    percent_max: int
    """Most transactions of other writers that may fail, in percent."""

    rewrites: int = 0
    """Commits of other writers that removed files, or replaced their deletion vectors."""

    failed: int = 0
    """Transactions of other writers that commits of the job may have made fail."""

    committed: int | None = None
    """Version of the newest commit of the job that replaced files; `None` if a rewrite followed it."""

    @property
    def percent(self) -> float:
        """Return the share of failed transactions."""
        tried = self.rewrites + self.failed
        return PERCENT * self.failed / tried if tried else 0.0

    def after(self, foreign: ForeignChanges, committed: int | None) -> Self:
        """Return the counts including a commit of the job.

        Args:
            foreign: Foreign changes since the last commit.
            committed: Version of the commit; `None` if it replaced no file.
        """
        last, read = self.committed, foreign.oldest_read
        followed = last is not None and foreign.rewrites > 0
        passed = last is not None and read is not None and read < last
        still_open = None if followed else last
        return replace(
            self,
            rewrites=self.rewrites + foreign.rewrites,
            failed=self.failed + (followed and not passed),
            committed=still_open if committed is None else committed,
        )

    @property
    def rewrites_to_wait(self) -> int:
        """Return the number of rewrites before the next commit: more than usual if commits came too early before."""
        counted = self.failed + (self.committed is not None)
        needed = -(-PERCENT * counted // self.percent_max) - self.rewrites
        return max(-(-PERCENT // self.percent_max), needed)

    def distance_ms(self, rewrites: int, passed_ms: int) -> int:
        """Return the time in which writers make `rewrites_to_wait`; 0 if there are none.

        Args:
            rewrites: Their newest rewrites.
            passed_ms: Time of these.
        """
        return self.rewrites_to_wait * passed_ms // rewrites if rewrites else 0
