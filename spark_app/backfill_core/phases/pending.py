"""Pending changes of a versioned source while a job catches up, and a limit for them.

               EpochTime                                         Barriers
------------   -----------------------------------------------   ------------------------------------------------
lag            time between the commit of the newest version     number of versions after the last batch
               and of the last version in a batch, in ms
first limit    none; the first batch sets it                     the lag when the catch-up begins
shrinks by     half of the time that a batch covers              the versions of a batch
               (R-SNAP-25)                                       (R-SNAP-24)
and when       at the first event after the start of the         once the batch is durable, so one more version may
               batch that is not a poll: ready events came       arrive while the batch is applied
               before
end recorded   with the commit of the last batch (R-SNAP-31)     with the commit after it (R-SNAP-30)

The limit is for a source that offers back-pressure. A Delta table offers none and ignores it (ADR 0028); its trend is judged in the same unit.
"""

from __future__ import annotations

from typing import Literal

from backfill_core.pacing.convergence import EpochTimes, PendingLimit
from backfill_core.protocol.events import Head

LimitRule = Literal["EpochTime", "Barriers"]


class Pending:
    """The pending versions of one attempt; see the module."""

    def __init__(self, rule: LimitRule, consumed: int) -> None:
        """Start after a version, without a limit."""
        self.rule = rule
        self._taken = self._newest = consumed
        self._times = EpochTimes()
        self._limit: PendingLimit | None = None
        """Limit of pending changes; `None` until the catch-up begins."""

        self._uncounted: int | None = None
        """Amount in the batch that the limit does not include yet; `None` without a batch."""

    # -------------------------------------------------------------- state
    def between(self, after: int, upto: int) -> int:
        """Return the amount between two versions, in the rule's unit."""
        if self.rule == "Barriers":
            return max(0, upto - after)
        return max(0, self._times.at(upto) - self._times.at(after))

    @property
    def lag(self) -> int:
        """Amount that no batch contains yet."""
        return self.between(self._taken, self._newest)

    @property
    def limit(self) -> float | None:
        """Most that may be pending; `None` without a limit."""
        return None if self._limit is None else self._limit.limit

    @property
    def admits(self) -> bool:
        """True if the source may commit another version."""
        if self._limit is None:
            return True
        # A batch that contains all pending versions is the last one of the catch-up, so newer versions belong to the time after it.
        ends = self._uncounted is not None and self._taken >= self._newest
        return self._limit.admits(self.lag) and not (ends and self.rule == "EpochTime")

    # -------------------------------------------------------------- events
    def know(self, version: int, timestamp_ms: int) -> None:
        """Record the commit time of a version without a poll of the source."""
        self._times = self._times.learn(version, timestamp_ms)

    def poll(self, head: Head) -> None:
        """Record the newest version."""
        self._newest = max(self._newest, head.position)
        self._times = self._times.forget_before(self._taken).learn(head.position, head.timestamp_ms)

    def begin(self) -> None:
        """Begin the catch-up with the versions pending now; later calls have no effect."""
        if self._limit is not None:
            return
        epochs = self.rule == "EpochTime"
        self._limit = PendingLimit(None if epochs else float(self.lag), share=0.5 if epochs else 1.0)

    def wait(self) -> None:
        """Discard the limit: earlier polls do not count any more."""
        self._limit = self._uncounted = None

    def has_taken(self, upto: int) -> bool:
        """Return whether a batch up to a version, or a later one, was started."""
        return self._taken >= upto

    def take(self, upto: int) -> None:
        """Start a batch up to a version; a repeated batch counts only its new versions."""
        self._uncounted = (self._uncounted or 0) + self.between(self._taken, upto)
        self._taken = max(self._taken, upto)

    def settle(self) -> None:
        """Record an event that is not a poll."""
        if self.rule == "EpochTime":
            self._step()

    def seal(self) -> None:
        """Record that the batch is durable."""
        if self.rule == "Barriers":
            self._step()

    def _step(self) -> None:
        if self._uncounted is not None and self._limit is not None:
            self._limit, self._uncounted = self._limit.step(self.lag, self._uncounted), None


class Age:
    """Age of the target's contents.

    The lag is the time since the target last contained the newest version of the source. That time is the commit time of the
    consumed version, known from the polls around it, or the newest poll without a newer version, whichever is later. So the lag is 0 if no
    newer version is known, grows with time, and falls as versions are consumed.
    """

    def __init__(self) -> None:
        """Start without a poll."""
        self._times = EpochTimes()
        self._current_ms = 0
        """Time of the last poll without a newer version, in milliseconds since 1970."""

    def learn(self, version: int, timestamp_ms: int) -> None:
        """Record the commit time of a version."""
        self._times = self._times.learn(version, timestamp_ms)

    def poll(self, head: Head, consumed: int, wall_ms: int) -> None:
        """Record the newest version and the time of the poll."""
        self._times = self._times.forget_before(consumed).learn(head.position, head.timestamp_ms)
        if head.position <= consumed:
            self._current_ms = max(self._current_ms, wall_ms)

    def committed_ms(self, version: int) -> int | None:
        """Return the commit time of a version; `None` if no version before it is known."""
        known_times = self._times.points
        return self._times.at(version) if known_times and known_times[0][0] <= version else None

    def lag_ms(self, consumed: int, pinned_ms: int, now_ms: int) -> int:
        """Return the lag while a newer version is known."""
        committed_ms = self.committed_ms(consumed)
        return max(0, now_ms - max(pinned_ms if committed_ms is None else committed_ms, self._current_ms))
