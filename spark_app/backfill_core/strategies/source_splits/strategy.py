"""State machine of SourceSplits: two sides read the partitions of a topic concurrently; each offset belongs to one side.

side      work                                 offsets of a partition              blocked by
-------   ----------------------------------   ---------------------------------   ------------------------------
History   several reads of HISTORY at a time   those before the job was created    a pause, a rate limit
Live      one read of CHANGES at a time        later ones, and all of a            a pause of everything
                                               partition that was created later

phase     ends when                                                       next
-------   -------------------------------------------------------------   -------
History   all history is in a commit (R-SRC-24)                           CatchUp
CatchUp   a commit has all records of one poll                            Live
Live      never; Exit may exit once `complete` is set

`split.py` defines the states of a partition. The progress of a side is a reader position, not the last record: the last offsets may
have no record (R-SRC-42).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from backfill_core.positions.offsets import OffsetRange, Subscribed, count
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import StrategyEvent, WidthSet
from backfill_core.protocol.strategy import CommitRequest, Permits, StrategyStatus
from backfill_core.protocol.work import OffsetRangesStaged, ReadOffsetRanges, Result, StagedFile, WorkKind
from backfill_core.strategies.source_splits.machine import PartitionSplits
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.reads import Bounds, Reads, StagedRead
from backfill_core.strategies.source_splits.stored import SourceSplitsStored


class SourceSplitsStrategy(PartitionSplits):
    """State machine of SourceSplits, see the module; implements `protocol.strategy.Strategy`."""

    def __init__(
        self, subscribed: Subscribed, settings: SourceSplitsSettings, stored: SourceSplitsStored | None = None
    ) -> None:
        """Start a new job, or resume a stored state."""
        super().__init__(subscribed, settings, stored)
        self._history = Reads(settings, target_s=settings.split_target_s, in_flight_max=settings.in_flight_max)
        self._live = Reads(settings, target_s=settings.batch_target_s, in_flight_max=1)

    # -------------------------------------------------------------- state
    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`."""
        return self._status(wants_commit=self._all_staged, blocks_commit=False)

    @property
    def _idle(self) -> bool:
        return self._history.idle and self._live.idle

    @property
    def _all_staged(self) -> bool:
        """True if a commit now would be the last one of an attempt with `after: Exit`."""
        if self._settings.follow or self._head is None or self._history.running or self._live.running:
            return False
        return not self._idle and self._history.all_taken(self._missing) and self._live.all_taken(self._new)

    @property
    def _new(self) -> Bounds:
        """Uncommitted new offsets."""
        return {name: (split.live, self._highs.get(name, split.live)) for name, split in self._splits.items()}

    # -------------------------------------------------------------- events
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`; the live side keeps one read at a time."""
        if isinstance(event, WidthSet):
            self._history.set_width(event.width)
        super().on(event, now)

    def _finish(self, result: Result, now: Now) -> None:
        """Handle a finished read; offsets without a record do not count against the rate limit."""
        if not isinstance(result, OffsetRangesStaged):
            return
        self._live.finish(result, now)
        read = self._history.finish(result, now)
        if read is not None and read.charged is not None:
            self._bucket = self._bucket.take(sum(result.records.values()) - read.charged, now.mono_s)

    def _lose(self, work_id: int) -> None:
        self._history.lose(work_id)
        self._live.lose(work_id)

    # -------------------------------------------------------------- choosing work
    def propose(self, permits: Permits, now: Now) -> tuple[ReadOffsetRanges, ...]:
        """See `Strategy`; new records come before history (R-SRC-21), also while history is paused (R-SRC-31, R-SRC-32)."""
        ids = itertools.count(permits.first_id)
        admitted = self._passes_barrier(permits, now)
        if self._over:
            return ()
        work = [*self._start_live(permits, ids, now)] if permits.changes else []
        if admitted:
            work += self._start_history(permits, ids, now)
        return tuple(work)

    def _start_live(self, permits: Permits, ids: Iterator[int], now: Now) -> Iterator[ReadOffsetRanges]:
        bounds = self._new
        if self._live.may_start(bounds):
            ranges = self._live.next_ranges(bounds, self._live.offsets_per_read)
            if ranges:
                work = self._live.begin(self._read(WorkKind.CHANGES, next(ids), ranges, permits), None, now)
                self._observe_backlog(self._polled, self._live.left(bounds), now)
                yield work

    def _start_history(self, permits: Permits, ids: Iterator[int], now: Now) -> Iterator[ReadOffsetRanges]:
        bounds = self._missing
        limited = self._bucket.rate_per_s is not None
        while self._history.may_start(bounds):
            total = int(self._bucket.available(now.mono_s)) if limited else self._history.offsets_per_read
            ranges = self._history.next_ranges(bounds, total)
            if not ranges:
                break
            offsets = count(ranges)
            self._bucket = self._bucket.take(offsets, now.mono_s)
            work = self._read(WorkKind.HISTORY, next(ids), ranges, permits)
            yield self._history.begin(work, offsets if limited else None, now)

    def _read(
        self, kind: WorkKind, work_id: int, ranges: tuple[OffsetRange, ...], permits: Permits
    ) -> ReadOffsetRanges:
        return ReadOffsetRanges(work_id, kind, ranges, permits.epoch.number, self._measures(kind, ranges))

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """See `Strategy`; a commit contains both history and new records, with the states of all partitions."""
        del epoch, permits
        history = self._history.take_ready(self._missing)
        live = self._live.take_ready(self._new)
        for read in history:
            self._with_history(read.work.work_id, read.work.ranges, read.result.records)
        for read in live:
            self._with_live(read.work.ranges)
        for read in (*history, *live):
            self._leave_unread(read.result.unread)
        self._revision += bool(history or live)
        self._catch_up(now)
        files, new_files = _files(history), _files(live)
        return CommitRequest(
            files=(*files, *new_files),
            rows=_rows(files),
            changes=_rows(new_files),
            changed=self._prepared(),
            announces=False,
            polls=False,
        )


def _files(reads: list[StagedRead]) -> tuple[StagedFile, ...]:
    return tuple(itertools.chain.from_iterable(read.result.files for read in reads))


def _rows(files: tuple[StagedFile, ...]) -> int:
    """Count the rows for the target; files of bad records are excluded."""
    return sum(file.rows for file in files if file.quarantined_by is None)
