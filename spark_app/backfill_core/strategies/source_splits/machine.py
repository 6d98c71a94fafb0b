"""Common base of the state machines for a topic: states of partitions, polled positions, and durable positions.

The machines differ in the order of reads. `strategy.py` has two independent sides, for `Append` and `Changelog` targets. `upsert.py`
reads each partition in the order of its offsets, for targets with one row for each key.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

from backfill_core.errors import RECREATED_HINT, BackfillError, SourceReplacedError
from backfill_core.job.steps import CATCH_UP as CATCH_UP_STEP
from backfill_core.job.steps import COPY
from backfill_core.pacing.open_transactions import OpenTransactions, PolledEnds, TransactionWait
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.positions.offsets import OffsetRange, Offsets, Subscribed, between
from backfill_core.protocol.clock import Now
from backfill_core.protocol.eta import RateMeter
from backfill_core.protocol.events import (
    BarrierPassed,
    Head,
    LimitSet,
    Sealed,
    SourcePolled,
    StrategyEvent,
    WorkFinished,
    WorkLost,
)
from backfill_core.protocol.strategy import Permits, StrategyStatus, StrategyView
from backfill_core.protocol.work import Result, WorkKind
from backfill_core.strategies.source_splits import view
from backfill_core.strategies.source_splits.backlog import Backlog
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.reads import Bounds
from backfill_core.strategies.source_splits.split import BACKFILLING, Split
from backfill_core.strategies.source_splits.stored import (
    CATCH_UP,
    HISTORY,
    LIVE,
    SourceSplitsStored,
    has_history_left,
)

TRUNCATED_HINT = (
    "The source lost records, as in an unclean election of a leader: give the job another jobId and another target."
)


@dataclass(frozen=True, slots=True)
class DurableOffsets:
    """Positions of the newest durable commit, in the forms that the job uses."""

    splits: Mapping[str, Split]
    copied: bool
    """True if the history is complete."""

    position: Offsets
    """For each partition, the offset up to which the target is complete."""

    covered: tuple[OffsetRange, ...] | None
    """Offset ranges in the target while history is missing; `None` afterwards."""

    @classmethod
    def of(cls, splits: Mapping[str, Split]) -> DurableOffsets:
        """Compute the positions once for each commit, because a topic may have a thousand partitions."""
        copied = not has_history_left(splits)
        held = (OffsetRange(name, *span) for name, split in splits.items() for span in split.held)
        return cls(
            splits, copied, {name: split.reached for name, split in splits.items()}, None if copied else tuple(held)
        )


class PartitionSplits(ABC):
    """The partitions of one job of a topic."""

    removes_keys: ClassVar[bool] = False
    """True if a record without a value removes a row of the target."""

    def __init__(
        self, subscribed: Subscribed, settings: SourceSplitsSettings, stored: SourceSplitsStored | None = None
    ) -> None:
        """Start with the source's current positions, or resume the committed state of an earlier attempt."""
        self._settings = settings
        self._source_id = subscribed.source_id
        self._splits: dict[str, Split] = _begun(subscribed) if stored is None else dict(stored.splits)
        """Positions of all prepared commits, durable or not."""

        self._sealing: Mapping[str, Split] = dict(self._splits)
        """Positions of the newest commit, durable or not."""

        self._durable = DurableOffsets.of(self._sealing)
        self._first = None if stored is None else dict(self._splits)
        """Positions at the start of a resumed attempt."""

        self._unread: tuple[OffsetRange, ...] = () if stored is None else stored.unread
        self._caught_up = stored is not None and stored.phase == LIVE
        self._head: Head | None = None
        self._highs: dict[str, int] = {}
        """Ends of partitions as polled by this attempt; a partition that a poll omits keeps its value."""

        self._watermarks: dict[str, int] = {}
        """Ends of partitions including records behind open transactions."""

        self._open = OpenTransactions()
        self._wait: TransactionWait | None = None
        self._goal: PolledEnds | None = None
        """Ends at the start of a read that took all records, once all history is committed; no commit has reached them yet."""

        self._left_out: Offsets = {} if stored is None or settings.follow else stored.cut_off
        """Ends of the partitions that an attempt with `after: Exit` does not read to."""

        self._lag = view.LiveLag()
        self._backlog = Backlog()
        self._missed: str | None = None
        """Warning about removals of keys that the topic may have dropped while no attempt ran."""

        self._failure: BackfillError | None = None
        self._bucket = TokenBucket.unlimited()
        self._barrier_passed = False
        self._meter = RateMeter()
        self._first_work: int | None = None
        """Number of the first work that may begin under the limit in force; `None` until work may begin."""

        self._mixed = False
        """True if the newest commit has records of reads that started under another limit."""

        self._revision, self._prepared_at, self._sealed_at = 1, 1, 0

    # -------------------------------------------------------------- implemented by subclasses
    @property
    @abstractmethod
    def _idle(self) -> bool:
        """True if no work is running or waiting for a commit."""

    @property
    @abstractmethod
    def _new(self) -> Bounds:
        """Readable new offsets that are in no commit."""

    @abstractmethod
    def _finish(self, result: Result, now: Now) -> None:
        """Handle finished work."""

    @abstractmethod
    def _lose(self, work_id: int) -> None:
        """Remove lost work: its offsets are read again."""

    # -------------------------------------------------------------- state
    @property
    def phase(self) -> str:
        """The phase of the state that the next commit stores."""
        if has_history_left(self._splits):
            return HISTORY
        return LIVE if self._caught_up else CATCH_UP

    @property
    def stored(self) -> SourceSplitsStored:
        """See `Strategy`; each partition has its own state (R-SRC-23)."""
        cut_off = {span.partition: span.stop for span in self._cut_off}
        return SourceSplitsStored(self._source_id, self.phase, self._splits, cut_off=cut_off, unread=self._unread)

    def _status(self, *, wants_commit: bool, blocks_commit: bool) -> StrategyStatus:
        durable, dirty = self._durable, self._revision != self._sealed_at
        return StrategyStatus(
            covered=durable.covered,
            consumed=durable.position if durable.copied else None,
            position=durable.position,
            history_complete=durable.copied,
            caught_up=self._caught_up,
            complete=self._ends and not dirty,
            step=CATCH_UP_STEP if durable.copied else COPY,
            steps=(COPY, CATCH_UP_STEP),
            wants_commit=wants_commit or (self._ends and dirty),
            wants_announcement=False,
            blocks_commit=blocks_commit,
            failure=self._failure,
            cut_off=self._cut_off or self._open.lasting,
        )

    @property
    def _over(self) -> bool:
        """True if the attempt starts no further read, because it failed or will exit."""
        return self._failure is not None or (self._caught_up and not self._settings.follow)

    @property
    def _ends(self) -> bool:
        """True if an attempt with `after: Exit` has read everything."""
        return self._caught_up and not self._settings.follow and self._idle

    @property
    def _cut_off(self) -> tuple[OffsetRange, ...]:
        """Ranges that the attempt does not read, as of the next commit."""
        return between(self._live_offsets, self._left_out)

    @property
    def _live_offsets(self) -> Offsets:
        return {name: split.live for name, split in self._splits.items()}

    @property
    def _polled(self) -> PolledEnds:
        """Ends of all partitions as of the newest poll."""
        return PolledEnds(dict(self._highs), dict(self._watermarks))

    @property
    def _missing(self) -> Bounds:
        """Uncommitted history (R-SRC-3, R-SRC-4)."""
        return {name: (split.next, split.end) for name, split in self._splits.items() if split.state == BACKFILLING}

    # -------------------------------------------------------------- events
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        match event:
            case LimitSet():
                self._set_limit(event, now)
            case BarrierPassed(scheduled=scheduled):
                self._barrier_passed = self._barrier_passed or scheduled
            case SourcePolled(head=head):
                self._see(head, now)
            case WorkFinished(result=result):
                self._finish(result, now)
            case WorkLost(work_id=work_id):
                self._goal = None
                self._lose(work_id)
            case Sealed():
                self._seal(now)
            case _:
                pass

    def _set_limit(self, limit: LimitSet, now: Now) -> None:
        """Limit the history; the live side has no limit (R-SRC-33, R-SRC-41)."""
        if limit.rows_per_s != self._meter.limit:
            self._first_work = None
        self._meter = self._meter.under(limit.rows_per_s)
        self._bucket = self._bucket.under(limit.rows_per_s, now.mono_s, limit.burst_s)

    def _see(self, head: Head, now: Now) -> None:
        """Record new ends and new partitions; the live side reads a new partition from its first offset (R-SRC-2).

        A partition that ends earlier than before was truncated: its next records get offsets that count as read.
        """
        if head.source_id != self._source_id:
            self._failure = SourceReplacedError(
                f"the source was {self._source_id or 'nameless'} and is now {head.source_id or 'nameless'}.",
                hint=RECREATED_HINT,
            )
            return
        for name, high in head.position.items():
            seen = self._splits[name].live if name in self._splits else 0
            if high < seen:
                message = f"partition {name} of the source ends at offset {high}, but an earlier poll found {seen}."
                self._failure = SourceReplacedError(message, hint=TRUNCATED_HINT)
                return
        self._head = head
        for name, high in head.position.items():
            if name not in self._splits:
                self._splits[name] = Split.found_later()
                self._revision += 1
            self._highs[name] = max(high, self._highs.get(name, 0))
            watermark = high if head.watermarks is None else head.watermarks.get(name, high)
            self._watermarks[name] = max(self._highs[name], watermark, self._watermarks.get(name, 0))
        self._open = self._open.poll(self._highs, self._watermarks, now.mono_s)
        self._lag.see(head, self._durable.splits)

    def _seal(self, now: Now) -> None:
        before = self._durable
        self._sealed_at = self._prepared_at
        self._durable = DurableOffsets.of(self._sealing)
        copied = sum(
            split.next - before.splits[name].next for name, split in self._sealing.items() if name in before.splits
        )
        if copied:
            meter = self._meter
            self._meter = meter.restart(now.mono_s) if self._mixed else meter.observe(copied, now.mono_s)
        self._mixed = False
        self._lag.settle(self._durable.splits)

    # -------------------------------------------------------------- choosing work
    def _measures(self, kind: WorkKind, ranges: tuple[OffsetRange, ...]) -> bool:
        """Return true if the records of a read are measured first.

        An oversized record ends Java before the driver can commit that. So in a resumed attempt a side of a partition is measured
        until a commit has moved it: either an attempt measures the record, or it commits some offsets before it.
        """
        if self._first is None:
            return False
        position: Callable[[Split], int] = attrgetter("next" if kind is WorkKind.HISTORY else "live")
        unread = Split.found_later()
        return any(
            position(self._durable.splits.get(span.partition, unread))
            == position(self._first.get(span.partition, unread))
            for span in ranges
        )

    def _passes_barrier(self, permits: Permits, now: Now) -> bool:
        """Record the permits; return true if history may start now. A rate limit admits it at barriers only."""
        at_barrier, self._barrier_passed = self._barrier_passed, False
        self._meter = self._meter.hold(now.mono_s, held=not permits.history)
        self._first_work = permits.first_id if self._first_work is None else self._first_work
        return permits.history and (self._bucket.rate_per_s is None or at_barrier)

    # -------------------------------------------------------------- committing
    def _catch_up(self, now: Now) -> None:
        """Check if commits contain all records of a poll. Records behind open transactions get a limited wait.

        Reads may end after the next poll, and producers may never pause. So the poll before a read that took all records counts too.
        """
        if self._caught_up or self._head is None or has_history_left(self._splits):
            return
        live = self._live_offsets
        if self._wait is None:
            reached = [ends for ends in (self._polled, self._goal) if ends is not None and ends.reached(live)]
            if not reached:
                return
            wait_s = math.inf if self._settings.follow else self._settings.open_transaction_s
            self._wait = TransactionWait(reached[0].watermarks, now.mono_s + wait_s)
        missing = self._wait.missing(live)
        if missing and now.mono_s < self._wait.until_s:
            return
        self._caught_up, self._left_out = True, {span.partition: span.stop for span in missing}
        self._revision += 1

    def _with_history(self, work_id: int, ranges: tuple[OffsetRange, ...], records: Mapping[str, int]) -> None:
        self._mixed = self._mixed or self._first_work is None or work_id < self._first_work
        for span in ranges:
            read = min(records.get(span.partition, 0), span.stop - span.start)
            self._splits[span.partition] = self._splits[span.partition].with_history(span.stop, read)

    def _with_live(self, ranges: tuple[OffsetRange, ...]) -> None:
        for span in ranges:
            self._splits[span.partition] = self._splits[span.partition].with_live(span.stop)

    def _leave_unread(self, ranges: tuple[OffsetRange, ...]) -> None:
        self._unread = tuple(dict.fromkeys((*self._unread, *ranges)))

    def _observe_backlog(self, ends: PolledEnds, left: int, now: Now) -> None:
        """Record a read of new offsets that left some of the polled ones out."""
        self._backlog = self._backlog.observe(sum(ends.readable.values()), left, now)
        if not left and self._goal is None and not self._missing:
            self._goal = ends

    def _prepared(self) -> bool:
        """Record the positions of the commit; return true if they differ from the newest durable ones."""
        self._prepared_at, self._sealing = self._revision, dict(self._splits)
        return self._revision != self._sealed_at

    # -------------------------------------------------------------- view
    def view(self, now: Now) -> StrategyView:
        """See `Strategy`."""
        return view.of(
            view.TopicView(
                splits=self._durable.splits,
                head=self._head,
                watermarks=self._watermarks,
                phase=self.phase,
                caught_up=self._caught_up and not (self._cut_off or self._open.lasting),
                meter=self._meter,
                behind_since_ms=self._lag.since_ms,
                backlog=self._backlog,
                open=self._open,
                wait=None if self._caught_up else self._wait,
                rate_limit=self._bucket.rate_per_s,
                removes_keys=self.removes_keys,
                missed=self._missed,
            ),
            now,
        )


def _begun(subscribed: Subscribed) -> dict[str, Split]:
    """Return the partitions of a new job (R-SRC-2, R-SRC-6)."""
    return {name: Split.at(subscribed.first[name], newest) for name, newest in subscribed.newest.items()}
