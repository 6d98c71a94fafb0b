"""Source backfill into a target that holds one row a key: each partition in the order of its offsets, one MERGE after the other.

The last record of a key decides, and a removed row leaves nothing to compare an older record with. So no record is merged before
those in front of it: what is new in a partition waits for the history of that partition, and for no other (ADR 0022).

batch       event                                                   then
---------   -----------------------------------------------------   ---------------------------------------------------------------
None        there are offsets to read, and that is permitted        Judging; Chosen where bad records need no table, or are in it
Judging     its work finished                                       Chosen
Judging     its work is lost                                        None
Chosen      a commit is prepared                                    Announced: it takes the bad records, and says which transaction
                                                                    the MERGE will be; None when that is not permitted any more
Announced   the commit is durable                                   Ready
Ready       it is permitted                                         Running
Ready       a later commit is prepared                              Announced anew under a later epoch; None as above
Running     its work finished                                       Applied
Running     its work is lost                                        None: its offsets are chosen anew
Applied     a commit is prepared                                    None: the positions move

An attempt that finds an announced MERGE in the target knows that its offsets are there; one that does not chooses them anew. Of those
whose bad records are in their own table (`aside`) it chooses first, and passes the bad ones over.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from backfill_core.pacing.sizing import SplitSizer
from backfill_core.positions.offsets import OffsetRange, Subscribed, count
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
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
from backfill_core.strategies.source_splits.machine import Splits
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.reads import FIRST_OFFSETS, OFFSETS_MIN, Bounds
from backfill_core.strategies.source_splits.share import share
from backfill_core.strategies.source_splits.split import BACKFILLING
from backfill_core.strategies.source_splits.stored import AnnouncedRanges, SourceSplitsStored


@dataclass(frozen=True, slots=True)
class Batch:
    """Offsets of one side, a range of a partition at most: history, or what is new."""

    kind: WorkKind
    ranges: tuple[OffsetRange, ...]
    judged: bool
    """Are its bad records in their own table, or need they none?"""

    skips_bad: bool
    files: tuple[StagedFile, ...] = ()
    """Of bad records that no commit has."""

    txn: int = 0
    """Transaction version of its MERGE, once that is announced."""

    @property
    def upto(self) -> dict[str, int]:
        """Of each of its partitions, the offset after the last one."""
        return {one.partition: one.stop for one in self.ranges}


@dataclass(frozen=True, slots=True)
class Judging:
    """Its bad records are being staged."""

    batch: Batch
    work_id: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """It waits for a commit."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Announced:
    """A commit that is not durable yet says that the next transaction is its MERGE."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Ready:
    """The newest durable commit says so."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Running:
    """Its MERGE is under way."""

    batch: Batch
    work_id: int
    since_s: float
    charged: int | None
    """Offsets that a limit was charged for; None: there was no limit."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Its MERGE is durable; no commit says so yet."""

    batch: Batch
    result: OffsetRangesMerged


class UpsertSplits(Splits):
    """See the module; satisfies `protocol.strategy.Strategy`."""

    def __init__(
        self,
        found: Subscribed,
        settings: SourceSplitsSettings,
        stored: SourceSplitsStored | None = None,
        *,
        last_txn: int | None = None,
    ) -> None:
        """Begin, or go on after what the target holds; `last_txn`: its newest transaction version of this job."""
        begun = None if stored is None else stored.after_merge(last_txn)
        super().__init__(found, settings, begun)
        self._aside: dict[str, int] = {} if begun is None else dict(begun.aside)
        self._batch: Judging | Chosen | Announced | Ready | Running | Applied | None = None
        self._last = WorkKind.HISTORY
        self._permits: Permits | None = None
        size = SplitSizer(settings.batch_target_s, FIRST_OFFSETS, OFFSETS_MIN, settings.read_max)
        self._sizers = {WorkKind.HISTORY: size, WorkKind.CHANGES: size}

    # -------------------------------------------------------------- what the job asks
    @property
    def stored(self) -> SourceSplitsStored:
        """See `Strategy`."""
        said = self._batch.batch if isinstance(self._batch, Announced | Ready | Running) else None
        merging = None if said is None else AnnouncedRanges(said.txn, said.upto)
        return replace(super().stored, merging=merging, aside=self._aside)

    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`; a finished MERGE is committed at once: the target is ahead of its state."""
        chosen = isinstance(self._batch, Chosen) and self._permitted(self._batch.batch, self._permits)
        return self._status(
            wants_commit=chosen or isinstance(self._batch, Applied), blocks_commit=isinstance(self._batch, Running)
        )

    @property
    def _idle(self) -> bool:
        return self._batch is None

    @property
    def _new(self) -> Bounds:
        """What is new in a partition whose history is in the target."""
        return {
            name: (one.live, self._highs.get(name, one.live))
            for name, one in self._splits.items()
            if one.state != BACKFILLING
        }

    # -------------------------------------------------------------- events
    def _finish(self, result: Result, now: Now) -> None:
        match self._batch, result:
            case Judging(batch, work_id), BadRecordsAside() if work_id == result.work_id:
                self._batch = Chosen(replace(batch, files=result.files))
            case Running(batch, work_id, since_s, charged), OffsetRangesMerged() if work_id == result.work_id:
                self._batch = Applied(batch, result)
                self._revision += 1
                if charged is not None and result.records:
                    # Offsets without a record cost no permit.
                    self._bucket = self._bucket.take(sum(result.records.values()) - charged, now.mono_s)
                self._sizers[batch.kind] = self._sizers[batch.kind].observe(count(batch.ranges), now.mono_s - since_s)
            case _:
                pass

    def _lose(self, work_id: int) -> None:
        if isinstance(self._batch, Judging | Running) and self._batch.work_id == work_id:
            self._revision += isinstance(self._batch, Running)
            self._batch = None

    def _seal(self, now: Now) -> None:
        super()._seal(now)
        if isinstance(self._batch, Announced):
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

    def _choose(self, permits: Permits, now: Now, *, admitted: bool) -> Batch | None:
        """Return what comes next: what is new and history take turns, as neither may wait for all of the other."""
        sides = [(WorkKind.CHANGES, self._new, permits.changes), (WorkKind.HISTORY, self._missing, admitted)]
        for kind, bounds, may in sides if self._last is WorkKind.HISTORY else reversed(sides):
            known = {
                name: (start, min(end, self._aside[name]))
                for name, (start, end) in bounds.items()
                if start < min(end, self._aside.get(name, 0))
            }
            ranges = share(known or bounds, self._wanted(kind, now), least=self._settings.share_min) if may else ()
            if ranges:
                sets_aside = self._settings.sets_aside
                return Batch(kind, ranges, bool(known) or not sets_aside, bool(known) or sets_aside)
        return None

    def _wanted(self, kind: WorkKind, now: Now) -> int:
        wanted = min(self._sizers[kind].rows_per_split, self._settings.read_max)
        limited = kind is WorkKind.HISTORY and self._bucket.rate_per_s is not None
        return min(wanted, int(self._bucket.available(now.mono_s))) if limited else wanted

    def _judge(self, batch: Batch | None, ids: Iterator[int]) -> tuple[Work, ...]:
        if batch is None:
            return ()
        if batch.judged:
            self._batch = Chosen(batch)
            return ()
        self._batch = Judging(batch, next(ids))
        return (SetBadRecordsAside(batch.kind, self._batch.work_id, batch.ranges),)

    def _start(self, batch: Batch, ids: Iterator[int], now: Now) -> tuple[Work, ...]:
        """Start the announced MERGE; one that a new limit does not admit is given up."""
        offsets, charged = count(batch.ranges), None
        if batch.kind is WorkKind.HISTORY and self._bucket.rate_per_s is not None:
            if offsets > self._bucket.available(now.mono_s):
                self._batch = None
                self._revision += 1
                return ()
            self._bucket, charged = self._bucket.take(offsets, now.mono_s), offsets
        if batch.kind is WorkKind.CHANGES:
            self._observe_backlog(batch.ranges, now)
        self._batch = Running(batch, next(ids), now.mono_s, charged)
        return (MergeOffsetRanges(batch.kind, self._batch.work_id, batch.ranges, batch.txn, batch.skips_bad),)

    @staticmethod
    def _permitted(batch: Batch, permits: Permits | None) -> bool:
        if permits is None:
            return False
        return permits.history if batch.kind is WorkKind.HISTORY else permits.changes

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """See `Strategy`; what a MERGE brought is told, and the next one is announced."""
        applied = self._batch if isinstance(self._batch, Applied) else None
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

    def _move(self, applied: Applied) -> None:
        """Move the positions over a merged batch."""
        batch, records = applied.batch, applied.result.records
        if batch.kind is WorkKind.HISTORY:
            self._with_history(applied.result.work_id, batch.ranges, records)
        else:
            self._with_live(batch.ranges)
        self._aside = {name: stop for name, stop in self._aside.items() if stop > self._splits[name].reached}
        self._batch, self._last = None, batch.kind
        self._revision += 1

    def _take_aside(self) -> tuple[StagedFile, ...]:
        """Hand over the bad records of a batch that is judged; from this commit on they are in their own table."""
        if not isinstance(self._batch, Chosen) or self._batch.batch.judged:
            return ()
        batch = self._batch.batch
        self._aside |= batch.upto
        self._batch = Chosen(replace(batch, judged=True, files=()))
        self._revision += 1
        return batch.files

    def _announce(self, epoch: Epoch, permits: Permits, now: Now) -> bool:
        """Announce the next MERGE as the transaction of an epoch, or take back what was announced."""
        if isinstance(self._batch, Judging | Running):
            return False
        batch = self._batch.batch if isinstance(self._batch, Chosen | Announced | Ready) else None
        if batch is None and not self._over:
            # A limit admits history at a barrier, and bad records are set aside first.
            unlimited = permits.history and self._bucket.rate_per_s is None
            chosen = self._choose(permits, now, admitted=unlimited)
            batch = chosen if chosen is not None and chosen.judged else None
        told = isinstance(self._batch, Announced | Ready)
        may = batch is not None and self._permitted(batch, permits)
        self._revision += told or may
        self._batch = Announced(replace(batch, txn=epoch.txn_version)) if batch is not None and may else None
        return may
