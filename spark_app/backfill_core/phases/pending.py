"""What of a versioned source waits while a job catches up, and how much more may come.

               EpochTime                                         Barriers
------------   -----------------------------------------------   ------------------------------------------------
lag            time between the commit of the newest version     number of versions that no batch took
               and of the one that a batch took last, in ms
first limit    none; the first batch sets it                     the lag when the catch-up begins
shrinks by     half of the time that a batch takes along         the versions of a batch
               (R-SNAP-25)                                       (R-SNAP-24)
and when       at the first event after the start of the         once the batch is durable, so that while it is
               batch that is no poll: what was ready came        applied one more version may come
               before
end is said    with the commit of the last batch (R-SNAP-31)     with the commit after it (R-SNAP-30)

The limit is for a source that offers back-pressure. A Delta table offers none and ignores it (ADR 0028); its trend is judged in the same unit.
"""

from __future__ import annotations

from typing import Literal

from backfill_core.pacing.convergence import EpochTimes, PendingLimit
from backfill_core.protocol.events import Head

LimitRule = Literal["EpochTime", "Barriers"]


class Pending:
    """The versions of one attempt that wait; see the module."""

    def __init__(self, rule: LimitRule, consumed: int) -> None:
        """Begin after a version, without a limit."""
        self.rule = rule
        self._taken = self._newest = consumed
        self._times = EpochTimes()
        self._limit: PendingLimit | None = None
        """None: the catch-up has not begun."""

        self._uncounted: int | None = None
        """What the batch took along that the limit does not know of yet; None: nothing."""

    # -------------------------------------------------------------- what there is
    def between(self, after: int, upto: int) -> int:
        """Return how much is between two versions, in the rule's unit."""
        if self.rule == "Barriers":
            return max(0, upto - after)
        return max(0, self._times.at(upto) - self._times.at(after))

    @property
    def lag(self) -> int:
        """What no batch took yet."""
        return self.between(self._taken, self._newest)

    @property
    def limit(self) -> float | None:
        """What may be pending; None: anything."""
        return None if self._limit is None else self._limit.limit

    @property
    def admits(self) -> bool:
        """May the source make another version?"""
        if self._limit is None:
            return True
        # The batch that took all of it is the last one of the catch-up, so what comes now is for after it.
        ends = self._uncounted is not None and self._taken >= self._newest
        return self._limit.admits(self.lag) and not (ends and self.rule == "EpochTime")

    # -------------------------------------------------------------- events
    def know(self, version: int, timestamp_ms: int) -> None:
        """Learn when a version was committed, without a look at the source."""
        self._times = self._times.learn(version, timestamp_ms)

    def poll(self, head: Head) -> None:
        """Learn of the newest version."""
        self._newest = max(self._newest, head.position)
        self._times = self._times.forget_before(self._taken).learn(head.position, head.timestamp_ms)

    def begin(self) -> None:
        """The catch-up begins with what is pending now; later calls change nothing."""
        if self._limit is not None:
            return
        epochs = self.rule == "EpochTime"
        self._limit = PendingLimit(None if epochs else float(self.lag), share=0.5 if epochs else 1.0)

    def wait(self) -> None:
        """What was seen so far does not count any more."""
        self._limit = self._uncounted = None

    def take(self, upto: int) -> None:
        """A batch up to a version starts; one that is repeated takes along only what is new in it."""
        self._uncounted = (self._uncounted or 0) + self.between(self._taken, upto)
        self._taken = max(self._taken, upto)

    def settle(self) -> None:
        """Something happened that is no poll."""
        if self.rule == "EpochTime":
            self._step()

    def seal(self) -> None:
        """The batch is durable."""
        if self.rule == "Barriers":
            self._step()

    def _step(self) -> None:
        if self._uncounted is not None and self._limit is not None:
            self._limit, self._uncounted = self._limit.step(self.lag, self._uncounted), None


class Age:
    """How old the target is.

    Lag: the time since the target was known to hold the newest version. That is the commit time of what is consumed, by the polls before and
    after it, or the newest poll that found nothing newer, if that was later. So the lag is 0 where no newer version is known, grows with
    time, and falls with what is consumed.
    """

    def __init__(self) -> None:
        """Begin without a poll."""
        self._times = EpochTimes()
        self._current_ms = 0
        """When a poll last found nothing newer, milliseconds since 1970."""

    def learn(self, version: int, timestamp_ms: int) -> None:
        """Learn when a version was committed."""
        self._times = self._times.learn(version, timestamp_ms)

    def poll(self, head: Head, consumed: int, wall_ms: int) -> None:
        """Learn of the newest version, at a moment."""
        self._times = self._times.forget_before(consumed).learn(head.position, head.timestamp_ms)
        if head.position <= consumed:
            self._current_ms = max(self._current_ms, wall_ms)

    def committed_ms(self, version: int) -> int | None:
        """Return the commit time of a version; `None` if no version before it is known."""
        known = self._times.known
        return self._times.at(version) if known and known[0][0] <= version else None

    def lag_ms(self, consumed: int, pinned_ms: int, now_ms: int) -> int:
        """Return the lag while a newer version is known."""
        committed_ms = self.committed_ms(consumed)
        return max(0, now_ms - max(pinned_ms if committed_ms is None else committed_ms, self._current_ms))
