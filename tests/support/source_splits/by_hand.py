"""The strategy of sources with offsets driven by hand: a test ends each read, and commits are durable at once."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from backfill_core.positions.offsets import OffsetRange, Subscribed
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import (
    BarrierPassed,
    Head,
    LimitSet,
    Sealed,
    SourcePolled,
    WorkFinished,
    WorkLost,
)
from backfill_core.protocol.strategy import CommitRequest, Permits
from backfill_core.protocol.work import OffsetRangesStaged, ReadOffsetRanges, StagedFile, WorkKind
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.split import Split
from backfill_core.strategies.source_splits.stored import SourceSplitsStored, decode
from backfill_core.strategies.source_splits.strategy import SourceSplitsStrategy

SOURCE = "topic-1"


@dataclass
class Log:
    """One partition: `holes` are offsets without a record."""

    high: int = 0
    low: int = 0
    holes: set[int] = field(default_factory=set)
    filtered: set[int] = field(default_factory=set)
    """Offsets whose records the transform filters out."""

    open_at: int | None = None
    """First offset of an open transaction; `None` if none is open."""

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return self.high if self.open_at is None else self.open_at

    def records(self, start: int, stop: int) -> list[int]:
        """Return the offsets of a range that have a record."""
        return [offset for offset in range(start, stop) if offset not in self.holes]


class ByHand:
    """One attempt after the other over some partitions; `target` counts the committed records."""

    def __init__(self, *highs: int, logs: dict[str, Log] | None = None, latest: bool = False, **settings: Any) -> None:
        """Subscribe to partitions 0, 1, … with these numbers of records; the first commit is the fence."""
        self.logs = logs or {str(number): Log(high) for number, high in enumerate(highs)}
        self.settings = SourceSplitsSettings(**{"share_min": 1, **settings})
        self.target = Counter[tuple[str, int]]()
        self.committed: list[ReadOffsetRanges] = []
        """The reads of the newest commit."""

        self.now_s = 0.0
        self._latest = latest
        self._attempt = 0
        self.stored: SourceSplitsStored | None = None
        self.open()

    def open(self) -> None:
        """Begin an attempt from the stored state; work in flight is lost."""
        self._attempt += 1
        lows = {name: log.low for name, log in self.logs.items()}
        newest = {name: log.stable for name, log in self.logs.items()}
        subscribed = Subscribed(newest if self._latest else lows, newest, SOURCE)
        self.strategy = SourceSplitsStrategy(subscribed, self.settings, self.stored)
        self.running: dict[int, ReadOffsetRanges] = {}
        self._staged: dict[str, list[tuple[ReadOffsetRanges, list[tuple[str, int]]]]] = {}
        self._next_id, self._epoch = 1, Epoch(self._attempt, 1)
        self.stored = decode(json.loads(json.dumps(self.strategy.stored.encode())))
        self.strategy.on(Sealed(0, 0, 0.1), self.now)

    @property
    def now(self) -> Now:
        """Virtual time of the attempt."""
        return Now(self.now_s, round(self.now_s * 1000))

    @property
    def splits(self) -> dict[str, Split]:
        """The partitions of the newest commit."""
        assert self.stored is not None
        return dict(self.stored.splits)

    # -------------------------------------------------------------- the world
    def produce(self, partition: str, records: int = 1, *, markers: int = 0) -> None:
        """Append records to a partition, which may be a new one, and offsets without a record behind them."""
        log = self.logs.setdefault(partition, Log())
        log.high += records
        log.holes.update(range(log.high, log.high + markers))
        log.high += markers

    def poll(self, source_id: str = SOURCE) -> None:
        """Let the strategy poll the source."""
        stable = {name: log.stable for name, log in self.logs.items()}
        watermarks = {name: log.high for name, log in self.logs.items()}
        self.strategy.on(SourcePolled(Head(stable, self.now.wall_ms, source_id, None, watermarks)), self.now)

    def limit(self, rows_per_s: int | None) -> None:
        """Set a limit."""
        self.strategy.on(LimitSet(rows_per_s, 1.0), self.now)

    def second(self) -> None:
        """Let a second pass, with a barrier that commits nothing."""
        self.now_s += 1
        self.strategy.on(BarrierPassed(self._epoch, scheduled=True), self.now)

    # -------------------------------------------------------------- steps
    def start(self, *, history: bool = True, changes: bool = True) -> list[ReadOffsetRanges]:
        """Let the strategy choose reads; return those that begin."""
        permits = Permits(history, changes, checks=True, epoch=self._epoch, first_id=self._next_id)
        work = list(self.strategy.propose(permits, self.now))
        self._next_id += len(work)
        self.running |= {read.work_id: read for read in work}
        return work

    def finish(self, work: ReadOffsetRanges) -> None:
        """Let a read end well."""
        del self.running[work.work_id]
        rows = [
            (span.partition, offset)
            for span in work.ranges
            for offset in self.logs[span.partition].records(span.start, span.stop)
        ]
        counts = Counter(name for name, _ in rows)
        rows = [(name, offset) for name, offset in rows if offset not in self.logs[name].filtered]
        file = StagedFile(f"a{self._attempt}/{work.work_id}", len(rows), len(rows), (work, rows))
        self.strategy.on(WorkFinished(OffsetRangesStaged(work.work_id, (file,), counts)), self.now)

    def lose(self, work: ReadOffsetRanges) -> None:
        """Let a read fail."""
        del self.running[work.work_id]
        self.strategy.on(WorkLost(work.work_id), self.now)

    def commit(self) -> CommitRequest:
        """Let a barrier pass that commits, and return the commit, whose rows the target then holds."""
        permits = Permits(history=True, changes=True, checks=True, epoch=self._epoch, first_id=self._next_id)
        request = self.strategy.prepare_commit(self._epoch, permits, self.now)
        text = json.dumps(self.strategy.stored.encode())
        self._epoch = self._epoch.after()
        self.strategy.on(BarrierPassed(self._epoch, scheduled=True), self.now)
        handles: list[Any] = [file.handle for file in request.files]
        self.committed = [work for work, _ in handles]
        self.target.update(row for _, rows in handles for row in rows)
        self.stored = decode(json.loads(text))
        self.strategy.on(Sealed(self._epoch.number, self._epoch.number, 0.1), self.now)
        return request

    def hold(self, partition: str = "0") -> None:
        """Begin a transaction at the end of a partition: later records cannot be read."""
        self.logs[partition].open_at = self.logs[partition].high

    def release(self, partition: str = "0") -> None:
        """End the transaction."""
        self.logs[partition].open_at = None

    def run(self, times: int = 100) -> None:
        """Continue until nothing starts any more; the last commits may add nothing."""
        for _ in range(times):
            self.poll()
            work = self.start()
            for read in work:
                self.finish(read)
            self.commit()
            if not work:
                return

    @staticmethod
    def history(work: list[ReadOffsetRanges]) -> list[tuple[OffsetRange, ...]]:
        """Return the ranges of history among some reads."""
        return [read.ranges for read in work if read.kind is WorkKind.HISTORY]

    @staticmethod
    def live(work: list[ReadOffsetRanges]) -> list[tuple[OffsetRange, ...]]:
        """Return the ranges of new records among some reads."""
        return [read.ranges for read in work if read.kind is WorkKind.CHANGES]
