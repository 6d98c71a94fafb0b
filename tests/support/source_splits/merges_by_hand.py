"""The strategy of a topic with one row per key driven by hand: a test ends each MERGE, and commits are durable at once."""

from __future__ import annotations

import json
from typing import Any

from backfill_core.positions.offsets import OffsetRange, Offsets, Subscribed
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import BarrierPassed, Head, LimitSet, Sealed, SourcePolled, WorkFinished
from backfill_core.protocol.strategy import CommitRequest, Permits
from backfill_core.protocol.work import MergeOffsetRanges, OffsetRangesMerged, Work, WorkKind
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.stored import decode
from backfill_core.strategies.source_splits.upsert import UpsertSplits


class Driven:
    """A machine that is driven by hand: each commit is durable at once."""

    def __init__(
        self, subscribed: Subscribed, stored: Any = None, last_txn: int | None = None, **settings: Any
    ) -> None:
        """Open an attempt; its source is polled as it was opened."""
        self.machine = UpsertSplits(
            subscribed, SourceSplitsSettings(**settings), None if stored is None else decode(stored), last_txn=last_txn
        )
        self._found, self._epoch, self._ids = subscribed, 1, 1
        self.machine.on(LimitSet(None, 1.0), self.now)
        self.see(subscribed.newest)

    @property
    def now(self) -> Now:
        """The time, which grows with the epochs."""
        return Now(float(self._epoch), 0)

    def see(self, newest: Offsets) -> None:
        """Poll the source."""
        self.machine.on(SourcePolled(Head(newest, 0, self._found.source_id)), self.now)

    def permits(self, *, history: bool = True, changes: bool = True) -> Permits:
        """Return the permits of the open epoch."""
        return Permits(history, changes, True, Epoch(1, self._epoch), self._ids)

    def start(self, **permits: bool) -> list[Work]:
        """Return the work that starts now."""
        work = [*self.machine.propose(self.permits(**permits), self.now)]
        self._ids += len(work)
        return work

    def commit(self, **permits: bool) -> CommitRequest:
        """Commit at a barrier; the stored state goes through JSON."""
        request = self.machine.prepare_commit(Epoch(1, self._epoch), self.permits(**permits), self.now)
        self.stored = json.loads(json.dumps(self.machine.stored.encode()))
        self.machine.on(Sealed(self._epoch, self._epoch, 0.1), self.now)
        self._epoch += 2 if request.announces else 1
        self.machine.on(BarrierPassed(Epoch(1, self._epoch), scheduled=True), self.now)
        return request

    def finish(self, work: Work) -> None:
        """Answer a MERGE."""
        assert isinstance(work, MergeOffsetRanges)
        records = {offsets.partition: offsets.stop - offsets.start for offsets in work.ranges}
        self.machine.on(WorkFinished(OffsetRangesMerged(work.work_id, 1, records)), self.now)

    def merge(self) -> tuple[WorkKind, tuple[OffsetRange, ...]]:
        """Announce and make the next MERGE; return its kind and ranges."""
        self.start()
        self.commit()
        [work] = self.start()
        assert isinstance(work, MergeOffsetRanges)
        self.finish(work)
        return work.kind, work.ranges


def topic(**ends: int) -> Subscribed:
    """Return a topic whose partitions (`p0=5`) begin at 0."""
    newest = {name[1:]: end for name, end in ends.items()}
    return Subscribed(dict.fromkeys(newest, 0), newest, "topic")
