"""Counter backfill as a state machine: one position per partition of a topic, history and new records concurrently.

partition   work                          ends when                        then
---------   ---------------------------   ------------------------------   ---------
Copying     ranges of HISTORY, in order   its history is committed         Following
Following   ranges of CHANGES, in order   never; `complete` ends the job

A partition that exists at the start has history: its content at that time. Later records are its changes, and so are all
records of a partition that appears later. A partition is read in order, one range at a time, so its stored state is one offset.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from backfill_api.spec.spec import BackfillSpec
from backfill_core.job.steps import CATCH_UP, COPY
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.positions.offsets import Offsets, between
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import (
    Head,
    LimitSet,
    Sealed,
    SourcePolled,
    StrategyEvent,
    WorkFinished,
    WorkLost,
)
from backfill_core.protocol.strategy import (
    CommitRequest,
    Facts,
    Opened,
    Permits,
    StrategyPlugin,
    StrategyStatus,
    StrategyView,
)
from backfill_core.protocol.work import StagedFile, WorkKind

from .contract import CounterParams
from .stored import CounterStored, decode, open_request, summarize
from .work import OffsetsRead, ReadOffsets

HISTORY_MAX = 2
"""Partitions whose history is read at the same time."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Position of one partition: `sealed <= handed <= staged <= taken`, all of them offsets."""

    end: int
    """Offset after the last one of its history."""

    sealed: int = 0
    handed: int = 0
    """Offset in the newest commit, durable or not."""

    staged: int = 0
    taken: int = 0
    files: tuple[StagedFile, ...] = ()
    """Files of the offsets from `handed` to `staged`."""


class CounterStrategy:
    """See the module; satisfies `protocol.strategy.Strategy`."""

    def __init__(self, start: Offsets, stored: CounterStored | None, range_max: int) -> None:
        """Begin at the first offset of each partition, or continue from the commits of an earlier attempt."""
        self._range_max = range_max
        ends = start if stored is None else stored.ends
        self._at = {name: Partition(end) for name, end in ends.items()}
        self._head: Head | None = None
        """Head of the last poll; `None` if this attempt has not polled."""

        self._bucket = TokenBucket.full(None, 0.0)
        self._running: dict[int, ReadOffsets] = {}
        self._rows = self._rows_sealed = 0
        self._revision, self._prepared_at, self._sealed_at = 1, 0, 0
        self._caught_up = False
        if stored is not None:
            self._resume(stored)

    def _resume(self, stored: CounterStored) -> None:
        self._at = {name: self._continued(stored, name, partition) for name, partition in self._at.items()}
        self._rows = self._rows_sealed = stored.rows
        self._caught_up = stored.caught_up

    def _continued(self, stored: CounterStored, name: str, partition: Partition) -> Partition:
        at = stored.consumed[name]
        return replace(partition, sealed=at, handed=at, staged=at, taken=at)

    # -------------------------------------------------------------- requests of the job
    @property
    def stored(self) -> CounterStored:
        """See `Strategy`."""
        ends = {name: partition.end for name, partition in self._at.items()}
        return CounterStored(
            ends, {name: partition.handed for name, partition in self._at.items()}, self._rows, self._caught_up
        )

    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`."""
        copied = all(partition.sealed >= partition.end for partition in self._at.values())
        position = {name: partition.sealed for name, partition in self._at.items()}
        ended = self._caught_up and not self._running
        return StrategyStatus(
            covered=None if copied else between({}, position),
            consumed=position if copied else None,
            position=position,
            history_complete=copied,
            caught_up=self._caught_up,
            complete=ended and not self._dirty,
            step=CATCH_UP if copied else COPY,
            steps=(COPY, CATCH_UP),
            wants_commit=ended and self._dirty,
            wants_announcement=False,
            blocks_commit=False,
            failure=None,
        )

    @property
    def _dirty(self) -> bool:
        return self._revision != self._sealed_at

    # -------------------------------------------------------------- events
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        match event:
            case LimitSet(rows_per_s=rows_per_s, burst_s=burst_s):
                self._bucket = replace(self._bucket, burst_s=burst_s).with_rate(rows_per_s, now.mono_s)
            case SourcePolled(head=head):
                self._discover(head)
            case WorkFinished(result=OffsetsRead() as result) if result.work_id in self._running:
                work = self._running.pop(result.work_id)
                partition = self._at[work.partition]
                self._at[work.partition] = replace(partition, staged=work.stop, files=(*partition.files, *result.files))
            case WorkLost(work_id=work_id) if work_id in self._running:
                self._lose(self._running.pop(work_id))
            case Sealed():
                self._sealed_at, self._rows_sealed = self._prepared_at, self._rows
                self._at = {name: replace(partition, sealed=partition.handed) for name, partition in self._at.items()}
            case _:
                pass

    @property
    def _highs(self) -> Offsets:
        return {} if self._head is None else self._head.position

    def _discover(self, head: Head) -> None:
        """Register new records and new partitions; those have no history."""
        self._head = head
        for name in self._highs.keys() - self._at.keys():
            self._at[name] = Partition(end=0)
            self._revision += 1

    def _lose(self, work: ReadOffsets) -> None:
        """Read the same offsets again."""
        self._at[work.partition] = replace(self._at[work.partition], taken=work.start)

    # -------------------------------------------------------------- choosing work
    def propose(self, permits: Permits, now: Now) -> tuple[ReadOffsets, ...]:
        """Start the next range of each partition that may be read."""
        ids, started = itertools.count(permits.first_id), list[ReadOffsets]()
        busy = {work.partition for work in self._running.values()}
        for name in sorted(self._at.keys() - busy):
            span = None if self._caught_up else self._next_span(name, permits, now)
            if span is not None:
                kind, start, stop = span
                work = ReadOffsets(next(ids), kind, name, start, stop)
                self._running[work.work_id] = work
                self._at[name] = replace(self._at[name], taken=stop)
                started.append(work)
        return tuple(started)

    def _next_span(self, name: str, permits: Permits, now: Now) -> tuple[WorkKind, int, int] | None:
        """Return the next range of a partition, and charge its history."""
        partition = self._at[name]
        if partition.taken >= partition.end:
            stop = min(self._highs.get(name, 0), partition.taken + self._range_max)
            return (WorkKind.CHANGES, partition.taken, stop) if permits.changes and stop > partition.taken else None
        quota = int(min(self._range_max, partition.end - partition.taken, self._bucket.available(now.mono_s)))
        if not permits.history or quota < 1 or self._histories >= HISTORY_MAX:
            return None
        self._bucket = self._bucket.take(quota, now.mono_s)
        return WorkKind.HISTORY, partition.taken, partition.taken + quota

    @property
    def _histories(self) -> int:
        return sum(work.kind is WorkKind.HISTORY for work in self._running.values())

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """Hand over all staged files."""
        files = tuple(file for partition in self._at.values() for file in partition.files)
        self._revision += any(partition.staged > partition.handed for partition in self._at.values())
        self._at = {name: replace(partition, handed=partition.staged, files=()) for name, partition in self._at.items()}
        rows = sum(file.rows for file in files)
        self._rows += rows
        if not self._caught_up and self._at_the_end:
            self._caught_up = True
            self._revision += 1
        self._prepared_at = self._revision
        return CommitRequest(files, rows, 0, changed=self._dirty, announces=False, polls=False)

    @property
    def _at_the_end(self) -> bool:
        """Return whether all polled records are handed over, history too."""
        return self._head is not None and all(
            partition.handed >= max(partition.end, self._highs.get(name, 0)) for name, partition in self._at.items()
        )

    # -------------------------------------------------------------- view
    def view(self, now: Now) -> StrategyView:
        """See `Strategy`."""
        total = sum(partition.end for partition in self._at.values())
        left = sum(max(0, partition.end - partition.sealed) for partition in self._at.values())
        lag = sum(self._highs.get(name, 0) - partition.sealed for name, partition in self._at.items())
        return StrategyView(
            phase="Copy" if left else "Follow",
            rows_total=total,
            rows_done=min(total, total - left),
            splits_done=0,
            splits_left=0,
            consumed=self.status.consumed,
            head=self._head,
            lag_versions=0,
            lag_ms=0,
            rows_per_s=0.0,
            caught_up=self._caught_up,
            non_convergent=False,
            grid=(),
            reason="",
            facts=Facts(total, left),
            lag_records=max(0, lag),
        )


def resume(spec: BackfillSpec, stored: CounterStored | None, opened: Opened) -> CounterStrategy:
    """Make the machine of an attempt; the opened offsets are those after the last one of each partition."""
    params = spec.strategy.params
    return CounterStrategy(opened.subscribed.newest, stored, getattr(params, "range_max", CounterParams().range_max))


STRATEGY = StrategyPlugin("Counter", CounterParams, decode, open_request, resume, summarize)
