"""The arithmetic of ranges against the row-by-row machine of the rules: the same rows and the same stored JSON at each
commit.

The row-by-row machine hides a new record while its partition is being backfilled, because its own reader will emit it.
Here both sides have separate offsets, so such a record is visible at once. The machine receives it when the partition
is no longer being backfilled. Its output then equals the content of the target.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from random import Random

import pytest
from support.reference.source import ReferenceSource
from support.reference.topic import (
    BACKFILLING,
    CATCHING_UP,
    FINISHED,
    Partition,
    Reached,
    Reader,
    Record,
    Records,
    States,
    Topic,
)
from support.reference.vocabulary import Barrier, Mutation, Splits
from support.source_splits.by_hand import ByHand, Log

from backfill_core.protocol.work import ReadOffsetRanges, WorkKind

Items = list[Record | Reached]


class RangeReader(Reader):
    """Reads the same input as the strategy: the records of a range, and the mark that its end was reached."""

    def __init__(self, topic: Topic, items: Items) -> None:
        super().__init__(topic, {})
        self._items = items

    def fetch(self, rows_max: int) -> Items:
        items, self._items = self._items, []
        return items


class RowByRow:
    """The machine of the rules, run together with the strategy; `check` compares both after a commit."""

    def __init__(self, world: ByHand) -> None:
        self._world, self._states = world, States()
        # When the job is created, the shared source is at the end of each partition, and earlier records are history.
        self._topic = Topic(
            {
                int(name): Partition(dict.fromkeys(log.records(log.low, log.high), True), log.low, log.high)
                for name, log in world.logs.items()
            }
        )
        self._clock = 0
        self._deferred: dict[str, deque[int]] = {}
        self.seen = Counter[str]()
        self.visible = Counter[tuple[str, int]]()
        self.start()

    def start(self) -> None:
        """Begin, or resume after a crash from the committed states."""
        self._states.crash()
        self._machine = ReferenceSource(self._topic, self._topic.partitions, self._states)
        self._clock += 1
        self._machine.upstream.append(Barrier(self._clock - 1, self._clock))
        self._machine.poll()
        self._barrier()

    def _barrier(self, splits: Splits | None = None) -> None:
        barrier = Barrier(self._clock, self._clock + 1, mutation=Mutation(splits=splits))
        self._clock += 1
        self._machine.upstream.append(barrier)
        self._drain()
        self._states.commit(barrier.prev)
        self._drain()

    def _drain(self) -> None:
        before = len(self._machine.emitted)
        while True:
            if not isinstance(self._machine.reader, RangeReader):
                self._machine.reader = RangeReader(self._topic, [])
            if not self._machine.poll():
                break
        for message in self._machine.emitted[before:]:
            if isinstance(message, Records):
                self.visible.update((str(row.split), int(row.offset)) for row in message.rows if row.visible)

    def follow(self, reads: list[ReadOffsetRanges]) -> None:
        """Take the reads of a commit of the strategy: its history as chunks of the reader, then new records."""
        new = {int(name) for name in self._world.splits} - self._machine.splits.keys()
        if new:
            self._topic.partitions |= {number: Partition() for number in new}
            self._barrier(Splits(frozenset(self._topic.partitions)))
        for span in (part for read in reads if read.kind is WorkKind.HISTORY for part in read.ranges):
            items: Items = [
                Record(int(span.partition), str(at)) for at in self._records(span.partition, span.start, span.stop)
            ]
            self._machine.reader = RangeReader(self._topic, [*items, Reached(int(span.partition), str(span.stop - 1))])
            self._drain()
        for span in (part for read in reads if read.kind is WorkKind.CHANGES for part in read.ranges):
            records = self._records(span.partition, span.start, span.stop)
            self._deferred.setdefault(span.partition, deque()).extend(records)
        for name, records in self._deferred.items():
            if self._machine.splits[int(name)].kind == BACKFILLING:
                self.seen["deferred"] += len(records)
                continue
            while records:
                self._machine.upstream.append(Records((Record(int(name), str(records.popleft())),)))
                self._drain()
        self._barrier()

    def _records(self, name: str, start: int, stop: int) -> list[int]:
        return self._world.logs[name].records(start, stop)

    def check(self) -> None:
        """Check that the same rows exist, each once, and that the same JSON is stored (R-SRC-40, R-SRC-44)."""
        early = Counter((name, at) for name, records in self._deferred.items() for at in records)
        assert self._world.target == self.visible + early
        assert max(self._world.target.values(), default=1) == 1
        for name, ours in self._world.splits.items():
            expected = json.loads(self._states.committed[int(name)])
            self.seen[ours.state] += 1
            if ours.state == FINISHED and next(iter(expected["state"])) == CATCHING_UP:
                # Only its position moved: the machine received no record.
                assert self._records(name, ours.end, ours.live) == []
                expected["state"] = FINISHED
                self.seen["finished by position"] += 1
            assert ours.to_json() == expected, name


def drawn(rng: Random) -> ByHand:
    """Return a world with some partitions: empty ones, ones with markers at the end, ones with a start above 0."""
    logs = dict[str, Log]()
    for number in range(rng.randrange(4)):
        low = rng.choice((0, 0, 7))
        high = low + rng.choice((0, 1, 5, 20))
        holes = {at for at in range(low, high) if rng.random() < 0.3 or at >= high - rng.choice((0, 0, 2))}
        logs[str(number)] = Log(high, low, holes)
    sizes = {"read_max": rng.choice((1, 4, 100)), "share_min": rng.choice((1, 3)), "in_flight_max": rng.choice((1, 3))}
    return ByHand(logs=logs, follow=True, **sizes)


def live(seed: int) -> RowByRow:
    """Run one interleaving, and return the machine of the rules."""
    rng = Random(seed)
    world = drawn(rng)
    rows = RowByRow(world)
    rows.check()
    for _ in range(120):
        under_way = [world.running[number] for number in sorted(world.running)]
        match rng.choices(("poll", "produce", "start", "finish", "lose", "commit", "crash"), (4, 6, 6, 8, 1, 5, 0.4))[
            0
        ]:
            case "poll":
                world.poll()
            case "produce":
                name = str(rng.randrange(6) if len(world.logs) < 6 else rng.choice(sorted(world.logs)))
                world.produce(name, rng.randrange(4), markers=rng.choice((0, 0, 1, 3)))
            case "start":
                world.start(history=rng.random() < 0.8, changes=rng.random() < 0.9)
            case "finish" if under_way:
                world.finish(rng.choice(under_way))
            case "lose" if under_way:
                world.lose(rng.choice(under_way))
            case "commit":
                world.commit()
                rows.follow(world.committed)
                rows.check()
            case "crash":
                world.open()
                rows.start()
                rows.check()
                rows.seen["crash"] += 1
            case _:
                pass
    return rows


@pytest.mark.parametrize("seed", range(200))
def test_ranges_equal_rows(seed: int) -> None:
    """R-SRC-2, 3, 4, 5, 6, 7, 12 to 17, 23, 40, 42, 44: for every interleaving of both sides, losses, crashes and commits."""
    live(seed)


def test_the_interleavings_cover_the_rare_cases() -> None:
    """Both sides must meet in every state, and new records must arrive before the history of their partition is read."""
    seen = sum((live(seed).seen for seed in range(60)), Counter[str]())
    required = {
        BACKFILLING: 200,
        CATCHING_UP: 50,
        FINISHED: 500,
        "deferred": 100,
        "finished by position": 5,
        "crash": 30,
    }
    assert {what: seen[what] for what, least in required.items() if seen[what] < least} == {}, seen
