"""Reads of one side of a job, its history or its live side: running reads, and staged reads that wait for a commit.

read      event                                                      next
-------   --------------------------------------------------------   ------------------------------------------------
Running   its work is lost                                           removed: its offsets are a gap, which is read first
Running   it finished                                                Staged
Staged    a commit is prepared, and all earlier offsets of its       removed: the positions move
          partitions are in that commit or an earlier one

A read has offsets of many partitions, and its files are committed together. So the offsets of a commit have no gap in any partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from backfill_api.spec.override import Width
from backfill_core.pacing.sizing import SplitSizer
from backfill_core.positions.offsets import OffsetRange, count
from backfill_core.protocol.clock import Now
from backfill_core.protocol.work import OffsetRangesStaged, ReadOffsetRanges
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.share import share

FIRST_OFFSETS = 300_000
OFFSETS_MIN = 50_000
READY_MAX = 8
"""Maximum reads that wait for a commit. Then no read starts: a crash loses staged files (R-SRC-28, R-SRC-29)."""

Bounds = Mapping[str, tuple[int, int]]
"""For each partition, the first uncommitted offset, and the offset after the last readable one."""


@dataclass(frozen=True, slots=True)
class RunningRead:
    """A read in progress."""

    work: ReadOffsetRanges
    since_s: float
    charged: int | None
    """Offsets charged to the rate limit; `None` if there was no limit."""


@dataclass(frozen=True, slots=True)
class StagedRead:
    """A read whose files are not committed yet."""

    work: ReadOffsetRanges
    result: OffsetRangesStaged


class Reads:
    """The reads of one side, from their start to their commit."""

    def __init__(self, settings: SourceSplitsSettings, *, target_s: float, in_flight_max: int) -> None:
        """Start without reads; a read without a rate limit should take `target_s` seconds."""
        self._settings, self._in_flight_max = settings, in_flight_max
        self._sizer = SplitSizer(target_s, FIRST_OFFSETS, OFFSETS_MIN, settings.read_max)
        self._running: dict[int, RunningRead] = {}
        self._staged: dict[int, StagedRead] = {}

    @property
    def running(self) -> bool:
        """Return true if a read is running."""
        return bool(self._running)

    @property
    def idle(self) -> bool:
        """Return true if no read is running or waiting for a commit."""
        return not self._running and not self._staged

    @property
    def offsets_per_read(self) -> int:
        """Return the size of the next read without a rate limit, in offsets."""
        return min(self._sizer.rows_per_split, self._settings.read_max)

    # -------------------------------------------------------------- choosing
    def set_width(self, width: Width) -> None:
        """Change the number and the duration of reads; reads that run are not affected."""
        if width.max_in_flight is not None:
            self._in_flight_max = width.max_in_flight
        if width.split_target_seconds is not None:
            self._sizer = self._sizer.toward(width.split_target_seconds)

    def may_start(self, bounds: Bounds) -> bool:
        """Return true if a slot is free, and fewer than `READY_MAX` reads wait for a commit."""
        return len(self._running) < self._in_flight_max and len(self._ready(bounds)) < READY_MAX

    def next_ranges(self, bounds: Bounds, total: int) -> tuple[OffsetRange, ...]:
        """Return the next ranges to read. Lost ranges come first, because later reads wait for them."""
        gaps, lost = self._gaps(bounds)
        return share(lost or gaps, min(total, self._settings.read_max), least=self._settings.share_min)

    def all_taken(self, bounds: Bounds) -> bool:
        """Return true if all offsets are in flight, staged or committed."""
        return not self.left(bounds)

    def left(self, bounds: Bounds) -> int:
        """Return the number of offsets that are not in flight, staged or committed; of each partition, only the first gap counts."""
        return sum(stop - start for start, stop in self._gaps(bounds)[0].values())

    def _gaps(self, bounds: Bounds) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
        """Return the first gap of each partition, and the gaps before a read; partitions are independent (R-SRC-19)."""
        taken: dict[str, list[OffsetRange]] = {}
        works = [*(read.work for read in self._running.values()), *(read.work for read in self._staged.values())]
        for span in chain.from_iterable(work.ranges for work in works):
            taken.setdefault(span.partition, []).append(span)
        gaps, lost = dict[str, tuple[int, int]](), dict[str, tuple[int, int]]()
        for name, (first, end) in bounds.items():
            position = first
            for span in sorted(taken.get(name, ()), key=attrgetter("start")):
                if span.start > position:
                    lost[name] = (position, span.start)
                    break
                position = span.stop
            if name in lost:
                gaps[name] = lost[name]
            elif position < end:
                gaps[name] = (position, end)
        return gaps, lost

    # -------------------------------------------------------------- events
    def begin(self, work: ReadOffsetRanges, charged: int | None, now: Now) -> ReadOffsetRanges:
        """Register a read that starts, and return its work."""
        self._running[work.work_id] = RunningRead(work, now.mono_s, charged)
        return work

    def finish(self, result: OffsetRangesStaged, now: Now) -> RunningRead | None:
        """Move a finished read to the staged ones, and return it; `None` if the read is unknown."""
        read = self._running.pop(result.work_id, None)
        if read is not None:
            self._staged[result.work_id] = StagedRead(read.work, result)
            if read.charged is None:
                self._sizer = self._sizer.observe(count(read.work.ranges), now.mono_s - read.since_s)
        return read

    def lose(self, work_id: int) -> None:
        """Remove a lost read: its offsets are read again."""
        self._running.pop(work_id, None)

    # -------------------------------------------------------------- committing
    def take_ready(self, bounds: Bounds) -> list[StagedRead]:
        """Remove and return all reads that can be committed, in an order that skips no offset."""
        ready = self._ready(bounds)
        for read in ready:
            del self._staged[read.work.work_id]
        return ready

    def _ready(self, bounds: Bounds) -> list[StagedRead]:
        positions = {name: first for name, (first, _) in bounds.items()}
        ready: list[StagedRead] = []
        waiting = list(self._staged.values())
        moved = True
        while moved:
            moved = False
            for read in waiting:
                if all(positions[span.partition] == span.start for span in read.work.ranges):
                    positions.update({span.partition: span.stop for span in read.work.ranges})
                    ready.append(read)
                    moved = True
            waiting = [read for read in waiting if read not in ready]
        return ready
