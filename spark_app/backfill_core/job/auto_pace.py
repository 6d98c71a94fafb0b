"""The automatic limit of an attempt: what a job measures at each barrier, for the machine of `auto_throttle`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_core.job.commit import CommitLog
from backfill_core.pacing.auto_throttle import USED, AutoSettings, AutoThrottle
from backfill_core.protocol.clock import Now

COMMIT_SECONDS = "commitSeconds"


WINDOW_S = 5.0
"""Time over which the rows of a job are compared with its limit: a split may hold the rows of some seconds."""

EARLIER = 1.2
"""A job that commits this many times its limit commits rows that were read before the limit was lowered."""


@dataclass(frozen=True, slots=True)
class AutoPace:
    """The limit, and the committed rows of the last seconds under it."""

    throttle: AutoThrottle
    marks: tuple[tuple[float, int], ...]
    """Monotonic time and committed rows of history at the last barriers, oldest first; since the limit changed."""

    commits: int = 0
    """Number of commits that were measured."""

    lowered_s: float = -WINDOW_S
    """Time at which the limit was lowered."""

    @classmethod
    def begin(cls, settings: AutoSettings | None, rows_done: int, now: Now) -> AutoPace | None:
        """Return the pace of an attempt that starts; `None` if the spec requests none."""
        return None if settings is None else cls(AutoThrottle.begin(settings), ((now.mono_s, rows_done),))

    def observe(self, log: CommitLog, rows_done: int, now: Now) -> AutoPace:
        """Return the pace after a barrier; a commit is measured once.

        Args:
            log: Past commits of the attempt.
            rows_done: Rows of history that are committed.
            now: Current time.
        """
        if log.count == self.commits:
            return self
        mark = (now.mono_s, rows_done)
        recent = tuple(earlier for earlier in self.marks if earlier[0] >= now.mono_s - WINDOW_S)
        counted = replace(self, marks=(*recent, mark), commits=log.count)
        if self._earlier(rows_done, now):
            return counted
        before, (since_s, rows_before) = self.throttle, self.marks[0]
        used = rows_done - rows_before >= USED * before.rows_per_s * (now.mono_s - since_s)
        throttle = before.observe({COMMIT_SECONDS: log.seconds[-1]}, used=used, now_s=now.mono_s)
        if throttle.rows_per_s == before.rows_per_s:
            return replace(counted, throttle=throttle)
        lowered = throttle.rows_per_s < before.rows_per_s
        return replace(counted, throttle=throttle, marks=(mark,), lowered_s=now.mono_s if lowered else self.lowered_s)

    def _earlier(self, rows_done: int, now: Now) -> bool:
        """Return whether the commit contains rows that were read before the limit was lowered: it says nothing about this limit."""
        if now.mono_s - self.lowered_s >= WINDOW_S:
            return False
        since_s, rows_before = self.marks[-1]
        return rows_done - rows_before > EARLIER * self.throttle.rows_per_s * (now.mono_s - since_s)

    def held(self, rows_done: int, now: Now) -> AutoPace:
        """Return the pace of a job whose history is paused: the time does not count."""
        return replace(self, marks=((now.mono_s, rows_done),))

    @property
    def describe(self) -> str:
        """Description of the limit and of the target that binds, for users."""
        throttle = self.throttle
        rows = f"{throttle.rows_per_s:,} rows/s"
        if throttle.binding:
            return f"slowed to {rows}: {throttle.binding}"
        return f"limited to {rows} by throttle.auto, and faster while its targets hold"
