"""One side of a job, its history or what is new: the ranges that are being read, and those that wait for a commit.

read      event                                                      then
-------   --------------------------------------------------------   ------------------------------------------------
Running   its work is lost                                           gone: its offsets are a gap, which is read first
Running   it finished                                                Staged
Staged    a commit is prepared, and of each of its partitions all    gone: the positions move
          before it is in that commit or an earlier one

A read has offsets of many partitions, and its files are committed together; so what a commit adds has no gap in any partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from backfill_core.pacing.sizing import SplitSizer
from backfill_core.positions.offsets import OffsetRange, count
from backfill_core.protocol.clock import Now
from backfill_core.protocol.work import OffsetRangesStaged, ReadOffsetRanges
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.share import share

FIRST_OFFSETS = 300_000
OFFSETS_MIN = 50_000
READY_MAX = 8
"""Reads that wait for a commit; then none starts: what is staged is lost by a crash (R-SRC-28, R-SRC-29)."""

Bounds = Mapping[str, tuple[int, int]]
"""Of each partition: the first offset that no commit has, and the one behind the last that may be read."""


@dataclass(frozen=True, slots=True)
class Running:
    """It is being read."""

    work: ReadOffsetRanges
    since_s: float
    charged: int | None
    """Offsets that a limit was charged for; None: there was no limit."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Its records are in files that no commit names yet."""

    work: ReadOffsetRanges
    result: OffsetRangesStaged


class Reads:
    """The reads of one side, from their start to their commit."""

    def __init__(self, settings: SourceSplitsSettings, *, target_s: float, in_flight_max: int) -> None:
        """Begin with none; a read without a limit should take so many seconds."""
        self._settings, self._in_flight_max = settings, in_flight_max
        self._sizer = SplitSizer(target_s, FIRST_OFFSETS, OFFSETS_MIN, settings.read_max)
        self._running: dict[int, Running] = {}
        self._staged: dict[int, Staged] = {}

    @property
    def running(self) -> bool:
        """Is anything being read?"""
        return bool(self._running)

    @property
    def idle(self) -> bool:
        """Is nothing being read, and does nothing wait for a commit?"""
        return not self._running and not self._staged

    @property
    def offsets_per_read(self) -> int:
        """Offsets that the next read without a limit should have."""
        return min(self._sizer.rows_per_split, self._settings.read_max)

    # -------------------------------------------------------------- choosing
    def may_start(self, bounds: Bounds) -> bool:
        """Is a slot free, and do few reads wait for a commit?"""
        return len(self._running) < self._in_flight_max and len(self._ready(bounds)) < READY_MAX

    def next_ranges(self, bounds: Bounds, wanted: int) -> tuple[OffsetRange, ...]:
        """Return what to read next: what was lost comes first, for reads behind it wait."""
        gaps, lost = self._gaps(bounds)
        return share(lost or gaps, min(wanted, self._settings.read_max), least=self._settings.share_min)

    def all_taken(self, bounds: Bounds) -> bool:
        """Is everything staged, in flight or committed?"""
        return not self._gaps(bounds)[0]

    def _gaps(self, bounds: Bounds) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
        """Return the first gap of each partition, and those with a read behind them; each is judged alone (R-SRC-19)."""
        taken: dict[str, list[OffsetRange]] = {}
        works = [*(one.work for one in self._running.values()), *(one.work for one in self._staged.values())]
        for span in chain.from_iterable(work.ranges for work in works):
            taken.setdefault(span.partition, []).append(span)
        gaps, lost = dict[str, tuple[int, int]](), dict[str, tuple[int, int]]()
        for name, (first, end) in bounds.items():
            at = first
            for span in sorted(taken.get(name, ()), key=lambda one: one.start):
                if span.start > at:
                    lost[name] = (at, span.start)
                    break
                at = span.stop
            if name in lost:
                gaps[name] = lost[name]
            elif at < end:
                gaps[name] = (at, end)
        return gaps, lost

    # -------------------------------------------------------------- events
    def begin(self, work: ReadOffsetRanges, charged: int | None, now: Now) -> ReadOffsetRanges:
        """Enter a read that starts."""
        self._running[work.work_id] = Running(work, now.mono_s, charged)
        return work

    def finish(self, result: OffsetRangesStaged, now: Now) -> Running | None:
        """Take a finished read, and return it as it ran; None: it is not one of these."""
        one = self._running.pop(result.work_id, None)
        if one is not None:
            self._staged[result.work_id] = Staged(one.work, result)
            if one.charged is None:
                self._sizer = self._sizer.observe(count(one.work.ranges), now.mono_s - one.since_s)
        return one

    def lose(self, work_id: int) -> None:
        """Forget a read: its offsets are read again."""
        self._running.pop(work_id, None)

    # -------------------------------------------------------------- committing
    def take_ready(self, bounds: Bounds) -> list[Staged]:
        """Hand over all that can be committed, in an order in which no offset is passed over."""
        ready = self._ready(bounds)
        for one in ready:
            del self._staged[one.work.work_id]
        return ready

    def _ready(self, bounds: Bounds) -> list[Staged]:
        at = {name: first for name, (first, _) in bounds.items()}
        ready: list[Staged] = []
        waiting = list(self._staged.values())
        moved = True
        while moved:
            moved = False
            for one in waiting:
                if all(at[span.partition] == span.start for span in one.work.ranges):
                    at.update({span.partition: span.stop for span in one.work.ranges})
                    ready.append(one)
                    moved = True
            waiting = [one for one in waiting if one not in ready]
        return ready
