"""MERGEs of ranges against the row-by-row machine: the same table at each commit, and each bad record in its own table
once."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest
from support.reference.keyed_topic import Keyed, KeyedTopic, Place
from support.reference.vocabulary import Fatal

from backfill_core.positions.offsets import OffsetRange, Subscribed
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import BarrierPassed, Head, LimitSet, Sealed, SourcePolled, WorkFinished, WorkLost
from backfill_core.protocol.strategy import Permits
from backfill_core.protocol.work import (
    BadRecordsAside,
    MergeOffsetRanges,
    OffsetRangesMerged,
    SetBadRecordsAside,
    StagedFile,
    Work,
)
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.stored import decode
from backfill_core.strategies.source_splits.upsert import UpsertSplits

PARTITIONS = 4
KEYS = 5
"""Keys in each partition; few, so that most records replace or remove a row."""


class Merged:
    """The range machine, the target that its MERGEs fill, and the machine of rows."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.records: dict[Place, Keyed] = {}
        self.newest: dict[str, int] = {}
        for name in range(rng.randrange(PARTITIONS)):
            self.produce(str(name), rng.choice((0, 1, 6, 20)))
        self.first = dict.fromkeys(self.newest, 0)
        self._settings = SourceSplitsSettings(
            follow=True, sets_aside=rng.random() < 0.6, read_max=rng.choice((1, 4, 100)), share_min=rng.choice((1, 3))
        )
        self._bad = self._settings.sets_aside
        self.rows = KeyedTopic(self.records)
        self.target: dict[str, tuple[int, Place]] = {}
        self.aside = Counter[Place]()
        self.seen = Counter[str]()
        self._stored: object = None
        self._txn: int | None = None
        self._attempt = 0
        self.open()

    # -------------------------------------------------------------- the world
    def produce(self, name: str, count: int) -> None:
        """Append offsets; some have no record."""
        at = self.newest.get(name, 0)
        for offset in range(at, at + count):
            key, kind = f"{name}-{self._rng.randrange(KEYS)}", self._rng.randrange(10)
            if kind == 0:
                continue
            bad = kind == 1 and (not hasattr(self, "_bad") or self._bad)
            value = None if kind in (2, 3) else offset
            self.records[name, offset] = Keyed(None) if bad else Keyed(key, value, passes=kind != 4)
        self.newest[name] = at + count

    def open(self) -> None:
        """Begin an attempt from the stored state; running work is lost."""
        self._attempt += 1
        first = {name: self.first.get(name, 0) for name in self.newest}
        subscribed = Subscribed(first, dict(self.newest), "topic")
        stored = None if self._stored is None else decode(json.loads(json.dumps(self._stored)))
        self.machine = UpsertSplits(subscribed, self._settings, stored, last_txn=self._txn)
        self.running: dict[int, Work] = {}
        self._epoch, self._next_id = Epoch(self._attempt, 1), 1
        self.machine.on(LimitSet(None, 1.0), self._now)
        self.commit()

    @property
    def _now(self) -> Now:
        return Now(float(self._epoch.number), 0)

    def _permits(self) -> Permits:
        history, changes = self._rng.random() < 0.8, self._rng.random() < 0.9
        return Permits(history, changes, checks=True, epoch=self._epoch, first_id=self._next_id)

    # -------------------------------------------------------------- steps
    def poll(self) -> None:
        """Poll the source."""
        self.machine.on(SourcePolled(Head(dict(self.newest), 0, "topic")), self._now)

    def start(self) -> None:
        """Let the machine choose work."""
        for work in self.machine.propose(self._permits(), self._now):
            self.running[work.work_id] = work
            self._next_id = work.work_id + 1

    def finish(self, work: Work, *, answered: bool = True) -> None:
        """Let work end successfully; without an answer its effect stays, and the attempt dies."""
        del self.running[work.work_id]
        assert isinstance(work, MergeOffsetRanges | SetBadRecordsAside)
        records = self._in(work.ranges)
        if isinstance(work, SetBadRecordsAside):
            bad = [place for place, record in records if record.key is None]
            file = StagedFile(f"bad/{work.work_id}", 10, len(bad), bad, quarantined_by=work.work_id)
            self.machine.on(WorkFinished(BadRecordsAside(work.work_id, (file,) if bad else ())), self._now)
            return
        assert self._txn is None or work.txn_version > self._txn
        self._txn = work.txn_version
        last = {record.key: (record, place) for place, record in records if record.key is not None}
        for key, (record, place) in last.items():
            self.target.pop(key, None)
            if record.value is not None and record.passes:
                self.target[key] = (record.value, place)
        self.seen["merges"] += 1
        if answered:
            records = Counter(place[0] for place, _ in records)
            self.machine.on(WorkFinished(OffsetRangesMerged(work.work_id, len(last), records)), self._now)
        else:
            self.seen["unanswered"] += 1
            self.open()

    def _in(self, ranges: tuple[OffsetRange, ...]) -> list[tuple[Place, Keyed]]:
        places = [(offsets.partition, at) for offsets in ranges for at in range(offsets.start, offsets.stop)]
        return [(place, self.records[place]) for place in places if place in self.records]

    def lose(self, work: Work) -> None:
        """Let work fail."""
        del self.running[work.work_id]
        self.machine.on(WorkLost(work.work_id), self._now)

    def commit(self) -> None:
        """Commit if no MERGE runs; then the target must equal the rows before its offsets."""
        if self.machine.status.blocks_commit:
            return
        request = self.machine.prepare_commit(self._epoch, self._permits(), self._now)
        self._stored = self.machine.stored.encode()
        self._txn = self._epoch.txn_version
        for file in request.files:
            self.aside.update(file.handle)
        self._epoch = self._epoch.after(2 if request.announces else 1)
        self.machine.on(Sealed(self._epoch.number, 1, 0.1), self._now)
        self.machine.on(BarrierPassed(self._epoch, scheduled=True), self._now)
        self._check()

    def _check(self) -> None:
        stored = decode(json.loads(json.dumps(self._stored)))
        reached = {name: split.reached for name, split in stored.splits.items()}
        self.rows.advance_all(reached)
        assert self.target == self.rows.table
        if self._settings.sets_aside:
            assert set(self.aside) == self.rows.bad_before({**reached, **stored.aside}.items())
            assert max(self.aside.values(), default=1) == 1
            self.seen["aside"] += bool(stored.aside)
        self.seen["commits"] += 1


def live(seed: int) -> Merged:
    """Run one interleaving."""
    rng = Random(seed)
    world = Merged(rng)
    for _ in range(150):
        under_way = [*world.running.values()]
        acts = ("poll", "produce", "start", "finish", "lose", "commit", "crash", "unanswered")
        match rng.choices(acts, (4, 4, 8, 8, 1, 8, 0.4, 0.4))[0]:
            case "poll":
                world.poll()
            case "produce":
                world.produce(str(rng.randrange(PARTITIONS)), rng.randrange(4))
            case "start":
                world.start()
            case "finish" if under_way:
                world.finish(under_way[0])
            case "lose" if under_way:
                world.lose(under_way[0])
            case "unanswered" if under_way and isinstance(under_way[0], MergeOffsetRanges):
                world.finish(under_way[0], answered=False)
            case "commit":
                world.commit()
            case "crash":
                world.open()
            case _:
                pass
    return world


@pytest.mark.parametrize("seed", range(150))
def test_merged_ranges_equal_rows(seed: int) -> None:
    """R-SRC-2, 20, 40, 42, ADR 0022: for every interleaving of both sides, bad records, losses, crashes and lost
    answers."""
    live(seed)


def test_the_interleavings_cover_the_rare_cases() -> None:
    """The cases are MERGEs with a lost answer, and bad records in a commit without the records around them."""
    seen = sum((live(seed).seen for seed in range(60)), Counter[str]())
    required = {"commits": 1500, "merges": 200, "unanswered": 5, "aside": 50}
    assert {what: seen[what] for what, least in required.items() if seen[what] < least} == {}, seen


class TestTheMachineOfRows:
    """The machine of rows follows its own rules."""

    def test_a_removed_row_does_not_come_back(self) -> None:
        """Each partition is in its order; records that do not pass the filter also remove rows."""
        records = {
            ("0", 0): Keyed("a", 1),
            ("0", 2): Keyed("a", None),
            ("0", 3): Keyed("b", 3),
            ("0", 4): Keyed("b", 4, passes=False),
            ("0", 5): Keyed(None),
            ("1", 0): Keyed("c", 0),
        }
        topic = KeyedTopic(records)
        tables = []
        for stop in range(7):
            topic.advance("0", stop)
            tables.append({key: value for key, (value, _) in topic.table.items()})

        assert tables == [{}, {"a": 1}, {"a": 1}, {}, {"b": 3}, {}, {}]
        assert topic.aside == {("0", 5)}

    def test_records_without_an_order_are_refused(self) -> None:
        """The cases are a key in two partitions, a repeated offset, and a bad record without a quarantine table."""
        records = {("0", 0): Keyed("a", 1), ("1", 0): Keyed("a", 2), ("2", 0): Keyed(None)}
        topic = KeyedTopic(records, sets_aside=False)
        topic.advance("0", 1)

        for partition, stop in (("1", 1), ("0", 0), ("2", 1)):
            with pytest.raises(Fatal):
                topic.advance(partition, stop)
