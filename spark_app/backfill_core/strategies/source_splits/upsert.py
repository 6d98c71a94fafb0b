"""State machine of SourceSplits for targets with one row for each key: one MERGE at a time, in the order of each partition's offsets.

The last record of a key wins, and after a delete the target has no row to compare an older record with. So records are merged in
order: the new records of a partition wait for the history of that partition, and for no other partition (ADR 0022).

batch       event                                                   next
---------   -----------------------------------------------------   ---------------------------------------------------------------
None        offsets can be read, and reading is permitted           Judging; Chosen if bad records need no quarantine, or are in it
Judging     its work finished                                       Chosen
Judging     its work is lost                                        None
Chosen      a commit is prepared                                    Announced: the commit contains the bad records and the MERGE's
                                                                    transaction version; None if no longer permitted
Announced   the commit is durable                                   Ready
Ready       the batch is permitted                                  Running
Ready       a later commit is prepared                              Announced again with a later epoch; None as above
Running     its work finished                                       Applied
Running     its work is lost                                        None: its offsets are chosen again
Applied     a commit is prepared                                    None: the positions move

If a new attempt finds the announced MERGE in the target, its offsets are in the target; otherwise they are chosen again. Offsets whose
bad records are already in the quarantine table (`aside`) are chosen first, and their bad records are skipped.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from backfill_core.pacing.open_transactions import PolledEnds
from backfill_core.pacing.retention import warn_missed_removals
from backfill_core.pacing.sizing import SplitSizer
from backfill_core.positions.offsets import OffsetRange, Subscribed, count
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import Head
from backfill_core.protocol.strategy import CommitRequest, Permits, StrategyStatus
from backfill_core.protocol.work import (
    BadRecordsAside,
    MergeOffsetRanges,
    OffsetRangesMerged,
    Result,
    SetBadRecordsAside,
    StagedFile,
    Work,
    WorkKind,
)
from backfill_core.strategies.source_splits.machine import PartitionSplits
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.reads import FIRST_OFFSETS, OFFSETS_MIN, Bounds
from backfill_core.strategies.source_splits.share import share
from backfill_core.strategies.source_splits.split import BACKFILLING
from backfill_core.strategies.source_splits.stored import AnnouncedRanges, SourceSplitsStored


@dataclass(frozen=True, slots=True)
class UpsertBatch:
    """Offsets of history or of new records, with at most one range for each partition."""

    kind: WorkKind
    ranges: tuple[OffsetRange, ...]
    judged: bool
    """True if its bad records are in the quarantine table, or need none."""

    skips_bad: bool
    ends: PolledEnds = field(default_factory=PolledEnds)
    """Ends of all partitions when it was chosen."""

    left: int = 0
    """New offsets that it left out."""

    files: tuple[StagedFile, ...] = ()
    """Files of bad records that are in no commit."""

    unread: tuple[OffsetRange, ...] = ()
    """Ranges of oversized records among them."""

    txn: int = 0
    """Transaction version of its MERGE, once announced."""

    @property
    def upto(self) -> dict[str, int]:
        """Return the offset after the last one for each of its partitions."""
        return {span.partition: span.stop for span in self.ranges}


@dataclass(frozen=True, slots=True)
class Judging:
    """The batch's bad records are being staged."""

    batch: UpsertBatch
    work_id: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """The batch waits for a commit."""

    batch: UpsertBatch


@dataclass(frozen=True, slots=True)
class AnnouncedUpsert:
    """A commit that is not durable yet announces the batch's MERGE as the next transaction."""

    batch: UpsertBatch


@dataclass(frozen=True, slots=True)
class Ready:
    """The newest durable commit announces the batch."""

    batch: UpsertBatch


@dataclass(frozen=True, slots=True)
class RunningUpsert:
    """The batch's MERGE is running."""

    batch: UpsertBatch
    work_id: int
    since_s: float
    charged: int | None
    """Offsets charged to the rate limit; `None` if there was no limit."""


@dataclass(frozen=True, slots=True)
class AppliedUpsert:
    """The batch's MERGE is durable; no commit records it yet."""

    batch: UpsertBatch
    result: OffsetRangesMerged


class UpsertSplits(PartitionSplits):
    """State machine for `Upsert` targets, see the module; implements `protocol.strategy.Strategy`."""

    removes_keys = True

    def __init__(
        self,
        subscribed: Subscribed,
        settings: SourceSplitsSettings,
        stored: SourceSplitsStored | None = None,
        *,
        last_txn: int | None = None,
        committed_ms: int | None = None,
    ) -> None:
        """Start a new job, or resume a stored state.

        Args:
            subscribed: Offsets of the source.
            settings: Sizes of reads.
            stored: State of an earlier attempt.
            last_txn: This job's newest transaction version in the target.
            committed_ms: Time of the commit of `stored`.
        """
        resumed = None if stored is None else stored.after_merge(last_txn)
        super().__init__(subscribed, settings, resumed)
        self._aside: dict[str, int] = {} if resumed is None else dict(resumed.aside)
        self._committed_ms = None if stored is None else committed_ms
        self._batch: Judging | Chosen | AnnouncedUpsert | Ready | RunningUpsert | AppliedUpsert | None = None
        self._last = WorkKind.HISTORY
        self._permits: Permits | None = None
        size = SplitSizer(settings.batch_target_s, FIRST_OFFSETS, OFFSETS_MIN, settings.read_max)
        self._sizers = {WorkKind.HISTORY: size, WorkKind.CHANGES: size}

    # -------------------------------------------------------------- state
    @property
    def stored(self) -> SourceSplitsStored:
        """See `Strategy`."""
        batch = self._batch.batch if isinstance(self._batch, AnnouncedUpsert | Ready | RunningUpsert) else None
        merging = None if batch is None else AnnouncedRanges(batch.txn, batch.upto)
        return replace(super().stored, merging=merging, aside=self._aside)

    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`; a finished MERGE is committed at once, because the target is newer than its state."""
        chosen = isinstance(self._batch, Chosen) and self._permitted(self._batch.batch, self._permits)
        return self._status(
            wants_commit=chosen or isinstance(self._batch, AppliedUpsert),
            blocks_commit=isinstance(self._batch, RunningUpsert),
        )

    @property
    def _idle(self) -> bool:
        return self._batch is None

    @property
    def _new(self) -> Bounds:
        """New offsets of partitions whose history is in the target."""
        return {
            name: (split.live, self._highs.get(name, split.live))
            for name, split in self._splits.items()
            if split.state != BACKFILLING
        }

    # -------------------------------------------------------------- events
    def _see(self, head: Head, now: Now) -> None:
        """See `PartitionSplits`; the first poll shows if compaction may have dropped removals since the last attempt."""
        super()._see(head, now)
        committed_ms, self._committed_ms = self._committed_ms, None
        unread = any(high > self._splits[name].reached for name, high in self._highs.items())
        if committed_ms is not None and unread:
            self._missed = warn_missed_removals(max(0, now.wall_ms - committed_ms) // 1000, head.removals_kept_s)

    def _finish(self, result: Result, now: Now) -> None:
        match self._batch, result:
            case Judging(batch, work_id), BadRecordsAside() if work_id == result.work_id:
                self._batch = Chosen(replace(batch, files=result.files, unread=result.unread))
            case RunningUpsert(batch, work_id, since_s, charged), OffsetRangesMerged() if work_id == result.work_id:
                self._batch = AppliedUpsert(batch, result)
                self._revision += 1
                if charged is not None and result.records:
                    # Offsets without a record do not count against the limit.
                    self._bucket = self._bucket.take(sum(result.records.values()) - charged, now.mono_s)
                self._sizers[batch.kind] = self._sizers[batch.kind].observe(count(batch.ranges), now.mono_s - since_s)
            case _:
                pass

    def _lose(self, work_id: int) -> None:
        if isinstance(self._batch, Judging | RunningUpsert) and self._batch.work_id == work_id:
            self._revision += isinstance(self._batch, RunningUpsert)
            self._batch = None

    def _seal(self, now: Now) -> None:
        super()._seal(now)
        if isinstance(self._batch, AnnouncedUpsert):
            self._batch = Ready(self._batch.batch)

    # -------------------------------------------------------------- choosing work
    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """See `Strategy`; one MERGE at a time."""
        self._permits, ids = permits, itertools.count(permits.first_id)
        admitted = self._passes_barrier(permits, now)
        if self._over:
            return ()
        match self._batch:
            case None:
                return self._judge(self._choose(permits, now, admitted=admitted), ids)
            case Ready(batch) if self._permitted(batch, permits):
                return self._start(batch, ids, now)
            case _:
                return ()

    def _choose(self, permits: Permits, now: Now, *, admitted: bool) -> UpsertBatch | None:
        """Return the next batch. New records and history alternate, so that neither has to wait for all of the other."""
        sides = [(WorkKind.CHANGES, self._new, permits.changes), (WorkKind.HISTORY, self._missing, admitted)]
        for kind, bounds, may in sides if self._last is WorkKind.HISTORY else reversed(sides):
            aside = {
                name: (start, min(end, self._aside[name]))
                for name, (start, end) in bounds.items()
                if start < min(end, self._aside.get(name, 0))
            }
            ranges = (
                share(aside or bounds, self._batch_offsets(kind, now), least=self._settings.share_min) if may else ()
            )
            if ranges:
                sets_aside = self._settings.sets_aside
                left = sum(stop - start for start, stop in self._new.values()) - count(ranges)
                return UpsertBatch(
                    kind, ranges, bool(aside) or not sets_aside, bool(aside) or sets_aside, self._polled, left
                )
        return None

    def _batch_offsets(self, kind: WorkKind, now: Now) -> int:
        offsets = min(self._sizers[kind].rows_per_split, self._settings.read_max)
        limited = kind is WorkKind.HISTORY and self._bucket.rate_per_s is not None
        return min(offsets, int(self._bucket.available(now.mono_s))) if limited else offsets

    def _judge(self, batch: UpsertBatch | None, ids: Iterator[int]) -> tuple[Work, ...]:
        if batch is None:
            return ()
        if batch.judged:
            self._batch = Chosen(batch)
            return ()
        self._batch = Judging(batch, next(ids))
        measures = self._measures(batch.kind, batch.ranges)
        return (SetBadRecordsAside(batch.kind, self._batch.work_id, batch.ranges, measures),)

    def _start(self, batch: UpsertBatch, ids: Iterator[int], now: Now) -> tuple[Work, ...]:
        """Start the announced MERGE; cancel it if a new rate limit does not admit it."""
        offsets, charged = count(batch.ranges), None
        if batch.kind is WorkKind.HISTORY and self._bucket.rate_per_s is not None:
            if offsets > self._bucket.available(now.mono_s):
                self._batch = None
                self._revision += 1
                return ()
            self._bucket, charged = self._bucket.take(offsets, now.mono_s), offsets
        if batch.kind is WorkKind.CHANGES:
            self._observe_backlog(batch.ends, batch.left, now)
        self._batch = RunningUpsert(batch, next(ids), now.mono_s, charged)
        measures, work_id = self._measures(batch.kind, batch.ranges), self._batch.work_id
        return (MergeOffsetRanges(batch.kind, work_id, batch.ranges, batch.txn, batch.skips_bad, measures),)

    @staticmethod
    def _permitted(batch: UpsertBatch, permits: Permits | None) -> bool:
        if permits is None:
            return False
        return permits.history if batch.kind is WorkKind.HISTORY else permits.changes

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """See `Strategy`; the commit reports the applied MERGE, and announces the next one."""
        applied = self._batch if isinstance(self._batch, AppliedUpsert) else None
        if applied is not None:
            self._move(applied)
        self._catch_up(now)
        files = self._take_aside()
        announces = self._announce(epoch.after(), permits, now)
        changes = 0 if applied is None else applied.result.changes
        history = applied is not None and applied.batch.kind is WorkKind.HISTORY
        return CommitRequest(
            files=files,
            rows=changes if history else 0,
            changes=0 if history else changes,
            changed=self._prepared(),
            announces=announces,
            polls=False,
        )

    def _move(self, applied: AppliedUpsert) -> None:
        """Advance the positions past a merged batch."""
        batch, records = applied.batch, applied.result.records
        if batch.kind is WorkKind.HISTORY:
            self._with_history(applied.result.work_id, batch.ranges, records)
        else:
            self._with_live(batch.ranges)
        self._leave_unread(applied.result.unread)
        self._aside = {name: stop for name, stop in self._aside.items() if stop > self._splits[name].reached}
        self._batch, self._last = None, batch.kind
        self._revision += 1

    def _take_aside(self) -> tuple[StagedFile, ...]:
        """Return the staged bad records of the chosen batch; this commit adds them to the quarantine table."""
        if not isinstance(self._batch, Chosen) or self._batch.batch.judged:
            return ()
        batch = self._batch.batch
        self._aside |= batch.upto
        self._leave_unread(batch.unread)
        self._batch = Chosen(replace(batch, judged=True, files=(), unread=()))
        self._revision += 1
        return batch.files

    def _announce(self, epoch: Epoch, permits: Permits, now: Now) -> bool:
        """Announce the next MERGE as the transaction of an epoch, or withdraw the announced one."""
        if isinstance(self._batch, Judging | RunningUpsert):
            return False
        batch = self._batch.batch if isinstance(self._batch, Chosen | AnnouncedUpsert | Ready) else None
        if batch is None and not self._over:
            # A rate limit admits history at a barrier only, and a quarantine needs the bad records first.
            unlimited = permits.history and self._bucket.rate_per_s is None
            chosen = self._choose(permits, now, admitted=unlimited)
            batch = chosen if chosen is not None and chosen.judged else None
        announced = isinstance(self._batch, AnnouncedUpsert | Ready)
        may = batch is not None and self._permitted(batch, permits)
        self._revision += announced or may
        self._batch = AnnouncedUpsert(replace(batch, txn=epoch.txn_version)) if batch is not None and may else None
        return may
