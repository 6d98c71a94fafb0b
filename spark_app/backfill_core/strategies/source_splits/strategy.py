"""Source backfill as a machine: two sides that read the partitions of a topic side by side, each offset on one of them.

side      work                                 of a partition                      held by
-------   ----------------------------------   ---------------------------------   ------------------------------
History   several reads of HISTORY at a time   what it had when the job was made   a pause, a limit
Live      one read of CHANGES at a time        what came after, and all of one     a pause of everything
                                               that appeared later

phase     ends when                                                       then
-------   -------------------------------------------------------------   -------
History   all history is in a commit (R-SRC-24)                           CatchUp
CatchUp   a commit has all that a look at the source showed               Live
Live      never; `complete` says when Exit may exit

The states of a partition are `split.py`. How far a side is, is a position of the reader, not the last record it saw: the last
offsets may have no record (R-SRC-42).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import MADE_AGAIN_HINT, BackfillError, SourceReplacedError
from backfill_core.job.steps import CATCH_UP as CATCH_UP_STEP
from backfill_core.job.steps import COPY
from backfill_core.pacing.eta import RateMeter
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.positions.offsets import OffsetRange, Offsets, Subscribed, count
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
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
from backfill_core.protocol.strategy import CommitRequest, Opened, Permits, StrategyStatus, StrategyView
from backfill_core.protocol.work import OffsetRangesStaged, ReadOffsetRanges, StagedFile, WorkKind
from backfill_core.strategies.source_splits import view
from backfill_core.strategies.source_splits.backlog import Backlog
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.reads import Bounds, Reads, Staged
from backfill_core.strategies.source_splits.split import BACKFILLING, Split
from backfill_core.strategies.source_splits.stored import (
    CATCH_UP,
    HISTORY,
    LIVE,
    SourceSplitsStored,
    has_history_left,
)


@dataclass(frozen=True, slots=True)
class Durable:
    """What the newest durable commit holds, as the job asks for it."""

    splits: Mapping[str, Split]
    copied: bool
    """Is all history there?"""

    position: Offsets
    """Of each partition, the offset before which all is there."""

    covered: tuple[OffsetRange, ...] | None
    """What is there while history is missing."""

    @classmethod
    def of(cls, splits: Mapping[str, Split]) -> Durable:
        """Return the look at some partitions; made once a commit, for a topic may have a thousand."""
        copied = not has_history_left(splits)
        held = (OffsetRange(name, *span) for name, one in splits.items() for span in one.held)
        return cls(splits, copied, {name: one.reached for name, one in splits.items()}, None if copied else tuple(held))


class SourceSplitsStrategy:
    """See the module; satisfies `protocol.strategy.Strategy`."""

    def __init__(
        self, found: Subscribed, settings: SourceSplitsSettings, stored: SourceSplitsStored | None = None
    ) -> None:
        """Begin with what the source has now, or go on from what an earlier attempt committed."""
        self._settings = settings
        self._source_id = found.source_id
        self._splits: dict[str, Split] = _begun(found) if stored is None else dict(stored.splits)
        """As handed to a commit, durable or not."""

        self._sealing: Mapping[str, Split] = dict(self._splits)
        """In the newest commit, durable or not."""

        self._durable = Durable.of(self._sealing)
        self._caught_up = stored is not None and stored.phase == LIVE
        self._history = Reads(settings, target_s=settings.split_target_s, in_flight_max=settings.in_flight_max)
        self._live = Reads(settings, target_s=settings.batch_target_s, in_flight_max=1)
        self._head: Head | None = None
        self._highs: dict[str, int] = {}
        """As polled by this attempt; a partition that a look left out is as it was."""

        self._lag = view.LiveLag()
        self._backlog = Backlog()
        self._failure: BackfillError | None = None
        self._bucket = TokenBucket.full(None, 0.0)
        self._bucket_set = self._barrier_passed = False
        self._held = False
        self._meter = RateMeter()
        self._revision, self._prepared_at, self._sealed_at = 1, 1, 0

    # -------------------------------------------------------------- what the job asks
    @property
    def phase(self) -> str:
        """The phase of the state that the next commit stores."""
        if has_history_left(self._splits):
            return HISTORY
        return LIVE if self._caught_up else CATCH_UP

    @property
    def stored(self) -> SourceSplitsStored:
        """See `Strategy`; of each partition its own state (R-SRC-23)."""
        return SourceSplitsStored(self._source_id, self.phase, self._splits)

    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`."""
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
            wants_commit=self._all_staged or (self._ends and dirty),
            wants_announcement=False,
            blocks_commit=False,
            failure=self._failure,
        )

    @property
    def _ends(self) -> bool:
        """Has an attempt that exits nothing more to read?"""
        return self._caught_up and not self._settings.follow and self._history.idle and self._live.idle

    @property
    def _all_staged(self) -> bool:
        """Would a commit now be the last one of an attempt that exits?"""
        if self._settings.follow or self._head is None or self._history.running or self._live.running:
            return False
        waits = not (self._history.idle and self._live.idle)
        return waits and self._history.all_taken(self._missing) and self._live.all_taken(self._new)

    @property
    def _missing(self) -> Bounds:
        """History that no commit has (R-SRC-3, R-SRC-4)."""
        return {name: (one.next, one.end) for name, one in self._splits.items() if one.state == BACKFILLING}

    @property
    def _new(self) -> Bounds:
        """What is new and no commit has."""
        return {name: (one.live, self._highs.get(name, one.live)) for name, one in self._splits.items()}

    # -------------------------------------------------------------- events
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        match event:
            case LimitSet():
                self._set_limit(event, now)
            case BarrierPassed(scheduled=scheduled):
                self._barrier_passed = self._barrier_passed or scheduled
            case SourcePolled(head=head):
                self._see(head)
            case WorkFinished(result=OffsetRangesStaged() as result):
                self._finish(result, now)
            case WorkLost(work_id=work_id):
                self._history.lose(work_id)
                self._live.lose(work_id)
            case Sealed():
                self._seal(now)
            case _:
                pass

    def _set_limit(self, limit: LimitSet, now: Now) -> None:
        """Limit the history; the live side has no limit (R-SRC-33, R-SRC-41)."""
        if self._bucket_set:
            self._bucket = self._bucket.with_rate(limit.rows_per_s, now.mono_s)
        else:
            self._bucket, self._bucket_set = TokenBucket.full(limit.rows_per_s, now.mono_s, limit.burst_s), True

    def _see(self, head: Head) -> None:
        """Learn of new records, and of new partitions: the live side reads them from their first offset on (R-SRC-2)."""
        if head.source_id != self._source_id:
            self._failure = SourceReplacedError(
                f"the source was {self._source_id or 'nameless'} and is now {head.source_id or 'nameless'}.",
                hint=MADE_AGAIN_HINT,
            )
            return
        self._head = head
        for name, high in head.position.items():
            if name not in self._splits:
                self._splits[name] = Split.found_later()
                self._revision += 1
            self._highs[name] = max(high, self._highs.get(name, 0))
        self._lag.see(head, self._durable.splits)

    def _finish(self, result: OffsetRangesStaged, now: Now) -> None:
        """Take a finished read; offsets without a record cost no permit."""
        self._live.finish(result, now)
        one = self._history.finish(result, now)
        if one is not None and one.charged is not None:
            self._bucket = self._bucket.take(sum(result.records.values()) - one.charged, now.mono_s)

    def _seal(self, now: Now) -> None:
        before = self._durable
        self._sealed_at = self._prepared_at
        self._durable = Durable.of(self._sealing)
        copied = sum(
            one.next - before.splits[name].next for name, one in self._sealing.items() if name in before.splits
        )
        if copied:
            self._meter = self._meter.observe(copied, now.mono_s)
        self._lag.settle(self._durable.splits)

    # -------------------------------------------------------------- choosing work
    def propose(self, permits: Permits, now: Now) -> tuple[ReadOffsetRanges, ...]:
        """See `Strategy`; what is new comes before history (R-SRC-21), and is read while that is held (R-SRC-31, R-SRC-32)."""
        ids = itertools.count(permits.first_id)
        at_barrier, self._barrier_passed = self._barrier_passed, False
        self._hold(now, held=not permits.history)
        if self._failure is not None or (self._caught_up and not self._settings.follow):
            return ()
        work = [*self._start_live(permits, ids, now)] if permits.changes else []
        if permits.history and (self._bucket.rate_per_s is None or at_barrier):
            work += self._start_history(permits, ids, now)
        return tuple(work)

    def _hold(self, now: Now, *, held: bool) -> None:
        """Stop the clock of the rate while history is held."""
        if self._held and not held:
            self._meter = self._meter.restarted(now.mono_s)
        self._held = held

    def _start_live(self, permits: Permits, ids: Iterator[int], now: Now) -> Iterator[ReadOffsetRanges]:
        bounds = self._new
        if self._live.may_start(bounds):
            ranges = self._live.next_ranges(bounds, self._live.offsets_per_read)
            if ranges:
                left = sum(stop - start for start, stop in bounds.values()) - count(ranges)
                self._backlog = self._backlog.observe(sum(self._highs.values()), left, now)
                work = ReadOffsetRanges(next(ids), WorkKind.CHANGES, ranges, permits.epoch.number)
                yield self._live.begin(work, None, now)

    def _start_history(self, permits: Permits, ids: Iterator[int], now: Now) -> Iterator[ReadOffsetRanges]:
        bounds = self._missing
        limited = self._bucket.rate_per_s is not None
        while self._history.may_start(bounds):
            wanted = int(self._bucket.available(now.mono_s)) if limited else self._history.offsets_per_read
            ranges = self._history.next_ranges(bounds, wanted)
            if not ranges:
                break
            offsets = count(ranges)
            self._bucket = self._bucket.take(offsets, now.mono_s)
            work = ReadOffsetRanges(next(ids), WorkKind.HISTORY, ranges, permits.epoch.number)
            yield self._history.begin(work, offsets if limited else None, now)

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """See `Strategy`; history and what is new are committed together, with the states of all partitions."""
        del epoch, permits, now
        history = self._history.take_ready(self._missing)
        live = self._live.take_ready(self._new)
        for one in history:
            for span in one.work.ranges:
                records = min(one.result.records.get(span.partition, 0), span.stop - span.start)
                self._splits[span.partition] = self._splits[span.partition].with_history(span.stop, records)
        for span in itertools.chain.from_iterable(one.work.ranges for one in live):
            self._splits[span.partition] = self._splits[span.partition].with_live(span.stop)
        self._revision += bool(history or live)
        if not self._caught_up and self._at_the_end:
            self._caught_up = True
            self._revision += 1
        self._prepared_at, self._sealing = self._revision, dict(self._splits)
        files, new_files = _files(history), _files(live)
        return CommitRequest(
            files=(*files, *new_files),
            rows=_rows(files),
            changes=_rows(new_files),
            changed=self._revision != self._sealed_at,
            announces=False,
            polls=False,
        )

    @property
    def _at_the_end(self) -> bool:
        """Is everything that a look at the source showed handed over?"""
        return self._head is not None and all(
            one.state != BACKFILLING and one.live >= self._highs.get(name, 0) for name, one in self._splits.items()
        )

    # -------------------------------------------------------------- view
    def view(self, now: Now) -> StrategyView:
        """See `Strategy`."""
        return view.of(
            view.Look(
                splits=self._durable.splits,
                head=self._head,
                highs=self._highs,
                phase=self.phase,
                caught_up=self._caught_up,
                held=self._held,
                meter=self._meter,
                behind_since_ms=self._lag.since_ms,
                backlog=self._backlog,
                rate_limit=self._bucket.rate_per_s,
            ),
            now,
        )


def _begun(found: Subscribed) -> dict[str, Split]:
    """Return the partitions of a job that begins (R-SRC-2, R-SRC-6)."""
    return {name: Split.at(found.first[name], newest) for name, newest in found.newest.items()}


def _files(reads: list[Staged]) -> tuple[StagedFile, ...]:
    return tuple(itertools.chain.from_iterable(one.result.files for one in reads))


def _rows(files: tuple[StagedFile, ...]) -> int:
    """Return the rows of the target; bad records are none."""
    return sum(file.rows for file in files if file.quarantined_by is None)


def resume(spec: BackfillSpec, stored: SourceSplitsStored | None, opened: Opened) -> SourceSplitsStrategy:
    """Make the machine of an attempt."""
    return SourceSplitsStrategy(opened.subscribed, SourceSplitsSettings.of(spec), stored)
