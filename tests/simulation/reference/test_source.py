"""The row-by-row machine of source backfill against its worked examples; its rules stand in a file of their own."""

from __future__ import annotations

import json

import pytest
from support.reference.source import ReferenceSource
from support.reference.source_shorthand import (
    DONE,
    catching_up,
    close,
    machine,
    offsets,
    read,
    reading,
    take,
    topic,
    visible,
)
from support.reference.topic import CATCHING_UP, FINISHED, Partition, States, Topic
from support.reference.vocabulary import Barrier, Mutation, Report, Splits


class TestK1SilentUpstream:
    """The shared source says nothing until the backfill has reached it."""

    def test_table(self) -> None:
        """R-SRC-1, 3, 6, 13, 14, 15, 23, 24, 25: row by row as in the worked example."""
        one = machine(topic(3), chunk_size=1)
        assert one.splits == {0: reading(None, 2)}
        assert one.poll()
        assert one.poll()
        assert one.splits == {0: reading(1, 2, rows=2)}
        assert one.poll()
        assert one.splits == {0: catching_up(2, 2, rows=3)}
        assert visible(*one.emitted) == [(0, "0"), (0, "1"), (0, "2")]
        assert close(one, 1) == [Barrier(1, 2)]
        assert one.states.read(0) == catching_up(2, 2, rows=3)
        assert one.reports == [Report("finish", 2, 3)]
        assert take(one, offsets(0, 3)) == [offsets(0, 3)]
        close(one, 2)
        wanted = {"num_consumed_rows": 3, "state": "Finished", "target_offset": "2"}
        assert json.loads(one.states.committed[0]) == wanted


class TestK2UpstreamAhead:
    """The target moves with the shared source until the reader meets it."""

    def test_table(self) -> None:
        """R-SRC-9, 14, 15, 16: hidden upstream, visible from history; after the switch the other way round."""
        one = machine(topic(101), {0: reading(97)}, chunk_size=3)
        assert one.splits[0].target == "100"
        assert take(one, offsets(0, 101)) == []
        one.topic.partitions[0] = topic(104).partitions[0]
        assert one.poll()
        assert one.splits == {0: reading(100, 101, rows=3)}
        assert take(one, offsets(0, 102)) == []
        assert one.splits[0].target == "102"
        assert one.poll()
        assert visible(*one.emitted)[-2:] == [(0, "101"), (0, "102")]
        assert one.splits == {0: catching_up(102, 102, rows=6)}
        assert take(one, offsets(0, 103)) == [offsets(0, 103)]
        assert one.splits[0].kind == FINISHED


class TestK3BackfillAhead:
    """The shared source was slowed down; it repeats what the backfill has emitted."""

    def test_table(self) -> None:
        """R-SRC-10, 11, 12, 16: hidden up to and with the backfill's offset, from any channel."""
        one = machine(topic(81), {0: reading(50)}, chunk_size=1)
        assert take(one, offsets(0, 30)) == []
        assert one.splits == {0: catching_up(50, 80)}
        assert one.poll()
        assert one.emitted == [Barrier(0, 1)]
        assert take(one, offsets(0, *range(31, 50))) == []
        assert one.splits[0].kind == CATCHING_UP
        assert take(one, offsets(0, 50)) == []
        assert one.splits[0].kind == FINISHED
        assert take(one, offsets(0, 51)) == [offsets(0, 51)]

    def test_both_at_the_same_offset(self) -> None:
        """R-SRC-10: the shared source's copy is hidden; there is nothing to catch up."""
        one = machine(topic(81), {0: reading(50)})
        assert take(one, offsets(0, 50)) == []
        assert one.splits[0].kind == FINISHED


class TestK4Compaction:
    """The offset that ends the catching up was compacted away."""

    def test_table(self) -> None:
        """R-SRC-12: a row above it is new, and visible."""
        one = machine(topic(8), {0: catching_up(5)})
        assert take(one, offsets(0, 4)) == []
        assert take(one, offsets(0, 7)) == [offsets(0, 7)]
        assert one.splits[0].kind == FINISHED


class TestK5NoData:
    """Nothing to read: the job is there at the next barrier."""

    @pytest.mark.parametrize(
        "partition",
        [
            pytest.param(Partition(), id="empty"),
            pytest.param(Partition(low=9, high=9), id="all of it expired"),
            pytest.param(Partition({6: True}, high=7, start=6), id="the source begins at its end"),
        ],
    )
    def test_table(self, partition: Partition) -> None:
        """R-SRC-5, 7, 24: finished at startup, with 0 rows and no target."""
        one = machine(Topic({0: partition}))
        assert one.splits == {0: DONE}
        assert take(one, offsets(0, 9)) == [offsets(0, 9)]
        close(one, 1)
        assert one.reports == [Report("finish", 2, 0)]


class TestK6SplitEvents:
    """The actor owns one split that it reads and one that is finished."""

    @staticmethod
    def owner() -> ReferenceSource:
        return machine(topic(60, 5, 5, 60), {0: reading(9), 1: DONE, 3: reading(40)}, owned=(0, 1), rate_limit=0)

    def test_a_discovered_split(self) -> None:
        """R-SRC-2, 36: finished, for the shared source reads it from its start; the reader goes on behind 9."""
        one = self.owner()
        assert close(one, 1, splits=Splits(frozenset({0, 1, 2}))) == [one.emitted[-1]]
        assert one.splits == {0: reading(9, 59), 1: DONE, 2: DONE}
        assert one.reader.positions == {0: 10}

    def test_a_migrated_split(self) -> None:
        """R-SRC-34, 35: it goes on where the former owner stood; what was lost stays stored for its next owner."""
        one = self.owner()
        close(one, 1, splits=Splits(frozenset({0, 3}), rescaled=True))
        assert one.splits == {0: reading(9, 59), 3: reading(40)}
        assert one.reader.positions == {0: 10, 3: 41}
        close(one, 2)
        assert one.states.read(1) == DONE

    def test_a_dropped_split(self) -> None:
        """R-SRC-24, 35: its row is deleted, it is read no more, and what is left is finished."""
        one = self.owner()
        close(one, 1, splits=Splits(frozenset({1})))
        assert (one.splits, one.reader.positions) == ({1: DONE}, {})
        close(one, 2)
        assert one.states.read(0) is None
        assert one.reports == [Report("update", 2, 0), Report("finish", 3, 0)]

    def test_the_former_owner_writes_its_last_state_on_the_same_barrier(self) -> None:
        """R-SRC-34, 36: who reads the table before that is committed repeats rows (#20506)."""
        states, there = States(), topic(9, 9)
        giver = machine(there, owned=(0,), states=states, chunk_size=4)
        taker = machine(there, owned=(1,), states=states, rate_limit=0)
        giver.poll()
        for one, owned in ((taker, {0, 1}), (giver, set[int]())):
            take(one, Barrier(1, 2, mutation=Mutation(splits=Splits(frozenset(owned), rescaled=True))))
            assert not one.poll()
        states.commit(1)
        assert taker.poll()
        assert taker.splits[0] == reading(3, 8, rows=4)

    def test_the_same_splits(self) -> None:
        """R-SRC-37: nothing is built, nothing is waited for."""
        one = self.owner()
        take(one, Barrier(1, 2, mutation=Mutation(splits=Splits(frozenset({0, 1})))))
        assert (one.change, one.readers_built) == (None, 1)


class TestK7PauseLayering:
    """A reader is parked by command, or by itself for want of barriers."""

    def test_table(self) -> None:
        """R-SRC-28, 29, 31, 32, 33: only `Resume` runs the reader that was built while paused."""
        one = machine(topic(9), chunk_size=1)
        one.pass_ms(5001)
        assert visible(*read(one)) == [(0, "0")]
        assert one.paused_self
        close(one, 1, pause=True)
        assert (one.paused_self, one.paused) == (False, True)
        old = one.reader
        close(one, 2, throttle=(10,))
        assert one.reader is not old
        assert read(one) == []
        close(one, 3, pause=False)
        assert visible(*read(one)) == [(0, str(offset)) for offset in range(1, 9)]

    def test_the_next_barrier_ends_what_the_machine_did_itself(self) -> None:
        """R-SRC-28, 29: not yet parked at five intervals; parked after, until a barrier comes."""
        one = machine(topic(9), chunk_size=1)
        one.pass_ms(5000)
        assert one.poll()
        one.pass_ms(1)
        assert one.poll()
        assert not one.poll()
        close(one, 1)
        assert len(visible(*read(one))) == 7

    def test_a_command_is_not_ended_by_a_barrier(self) -> None:
        """R-SRC-29, 30, 31: nor by being repeated; the shared source's rows and barriers go on (#19148)."""
        one = machine(topic(9, 9), {0: reading(3), 1: DONE}, owned=(0, 1), paused=True)
        assert close(one, 1, pause=True) == [one.emitted[-1]]
        assert one.warnings == ["already paused"]
        assert read(one) == []
        assert take(one, offsets(1, 7)) == [offsets(1, 7)]
        close(one, 2, pause=False)
        close(one, 3, pause=False)
        assert one.warnings == ["already paused", "not paused"]
        assert len(visible(*read(one))) == 5
