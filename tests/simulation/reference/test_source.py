"""The row-by-row machine of source backfill against its worked examples; a separate file has its rules."""

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
    """The shared source is silent until the backfill has reached it."""

    def test_a_silent_upstream_follows_the_worked_example(self) -> None:
        """R-SRC-1, 3, 6, 13, 14, 15, 23, 24, 25: row by row as in the worked example."""
        executor = machine(topic(3), chunk_size=1)
        assert executor.splits == {0: reading(None, 2)}
        assert executor.poll()
        assert executor.poll()
        assert executor.splits == {0: reading(1, 2, rows=2)}
        assert executor.poll()
        assert executor.splits == {0: catching_up(2, 2, rows=3)}
        assert visible(*executor.emitted) == [(0, "0"), (0, "1"), (0, "2")]
        assert close(executor, 1) == [Barrier(1, 2)]
        assert executor.states.read(0) == catching_up(2, 2, rows=3)
        assert executor.reports == [Report("finish", 2, 3)]
        assert take(executor, offsets(0, 3)) == [offsets(0, 3)]
        close(executor, 2)
        expected = {"num_consumed_rows": 3, "state": "Finished", "target_offset": "2"}
        assert json.loads(executor.states.committed[0]) == expected


class TestK2UpstreamAhead:
    """The target moves with the shared source until the reader meets it."""

    def test_the_target_moves_with_an_upstream_that_is_ahead(self) -> None:
        """R-SRC-9, 14, 15, 16: rows are hidden upstream and visible from history; after the switch it is the reverse."""
        executor = machine(topic(101), {0: reading(97)}, chunk_size=3)
        assert executor.splits[0].target == "100"
        assert take(executor, offsets(0, 101)) == []
        executor.topic.partitions[0] = topic(104).partitions[0]
        assert executor.poll()
        assert executor.splits == {0: reading(100, 101, rows=3)}
        assert take(executor, offsets(0, 102)) == []
        assert executor.splits[0].target == "102"
        assert executor.poll()
        assert visible(*executor.emitted)[-2:] == [(0, "101"), (0, "102")]
        assert executor.splits == {0: catching_up(102, 102, rows=6)}
        assert take(executor, offsets(0, 103)) == [offsets(0, 103)]
        assert executor.splits[0].kind == FINISHED


class TestK3BackfillAhead:
    """The shared source was slowed down and repeats rows that the backfill has emitted."""

    def test_repeated_rows_are_hidden_when_history_is_ahead(self) -> None:
        """R-SRC-10, 11, 12, 16: rows up to and including the backfill's offset are hidden, from any channel."""
        executor = machine(topic(81), {0: reading(50)}, chunk_size=1)
        assert take(executor, offsets(0, 30)) == []
        assert executor.splits == {0: catching_up(50, 80)}
        assert executor.poll()
        assert executor.emitted == [Barrier(0, 1)]
        assert take(executor, offsets(0, *range(31, 50))) == []
        assert executor.splits[0].kind == CATCHING_UP
        assert take(executor, offsets(0, 50)) == []
        assert executor.splits[0].kind == FINISHED
        assert take(executor, offsets(0, 51)) == [offsets(0, 51)]

    def test_both_sides_may_be_at_the_same_offset(self) -> None:
        """R-SRC-10: the shared source's copy is hidden; there is nothing to catch up."""
        executor = machine(topic(81), {0: reading(50)})
        assert take(executor, offsets(0, 50)) == []
        assert executor.splits[0].kind == FINISHED


class TestK4Compaction:
    """The offset that ends the catch-up was compacted away."""

    def test_a_row_above_the_compacted_offset_is_visible(self) -> None:
        """R-SRC-12: a row above it is new, and visible."""
        executor = machine(topic(8), {0: catching_up(5)})
        assert take(executor, offsets(0, 4)) == []
        assert take(executor, offsets(0, 7)) == [offsets(0, 7)]
        assert executor.splits[0].kind == FINISHED


class TestK5NoData:
    """Without data to read, the job is caught up at the next barrier."""

    @pytest.mark.parametrize(
        "partition",
        [
            pytest.param(Partition(), id="empty"),
            pytest.param(Partition(low=9, high=9), id="all of it expired"),
            pytest.param(Partition({6: True}, high=7, start=6), id="the source begins at its end"),
        ],
    )
    def test_a_partition_without_data_is_finished_at_startup(self, partition: Partition) -> None:
        """R-SRC-5, 7, 24: it has 0 rows and no target."""
        executor = machine(Topic({0: partition}))
        assert executor.splits == {0: DONE}
        assert take(executor, offsets(0, 9)) == [offsets(0, 9)]
        close(executor, 1)
        assert executor.reports == [Report("finish", 2, 0)]


class TestK6SplitEvents:
    """The actor owns one split that it reads and one that is finished."""

    @staticmethod
    def owner() -> ReferenceSource:
        return machine(topic(60, 5, 5, 60), {0: reading(9), 1: DONE, 3: reading(40)}, owned=(0, 1), rate_limit=0)

    def test_a_discovered_split_is_finished(self) -> None:
        """R-SRC-2, 36: the shared source reads it from its start; the reader continues behind 9."""
        executor = self.owner()
        assert close(executor, 1, splits=Splits(frozenset({0, 1, 2}))) == [executor.emitted[-1]]
        assert executor.splits == {0: reading(9, 59), 1: DONE, 2: DONE}
        assert executor.reader.positions == {0: 10}

    def test_a_migrated_split_continues_at_its_old_position(self) -> None:
        """R-SRC-34, 35: a split that this actor lost stays stored for its next owner."""
        executor = self.owner()
        close(executor, 1, splits=Splits(frozenset({0, 3}), rescaled=True))
        assert executor.splits == {0: reading(9, 59), 3: reading(40)}
        assert executor.reader.positions == {0: 10, 3: 41}
        close(executor, 2)
        assert executor.states.read(1) == DONE

    def test_a_dropped_split_is_deleted(self) -> None:
        """R-SRC-24, 35: its row is deleted, it is no longer read, and the rest is finished."""
        executor = self.owner()
        close(executor, 1, splits=Splits(frozenset({1})))
        assert (executor.splits, executor.reader.positions) == ({1: DONE}, {})
        close(executor, 2)
        assert executor.states.read(0) is None
        assert executor.reports == [Report("update", 2, 0), Report("finish", 3, 0)]

    def test_the_former_owner_writes_its_last_state_on_the_same_barrier(self) -> None:
        """R-SRC-34, 36: an actor that reads the table before that commit repeats rows (#20506)."""
        states, shared_topic = States(), topic(9, 9)
        giver = machine(shared_topic, owned=(0,), states=states, chunk_size=4)
        taker = machine(shared_topic, owned=(1,), states=states, rate_limit=0)
        giver.poll()
        for actor, owned in ((taker, {0, 1}), (giver, set[int]())):
            take(actor, Barrier(1, 2, mutation=Mutation(splits=Splits(frozenset(owned), rescaled=True))))
            assert not actor.poll()
        states.commit(1)
        assert taker.poll()
        assert taker.splits[0] == reading(3, 8, rows=4)

    def test_an_assignment_of_the_same_splits_changes_nothing(self) -> None:
        """R-SRC-37: no reader is built, and the executor waits for nothing."""
        executor = self.owner()
        take(executor, Barrier(1, 2, mutation=Mutation(splits=Splits(frozenset({0, 1})))))
        assert (executor.change, executor.readers_built) == (None, 1)


class TestK7PauseLayering:
    """A command or missing barriers pause a reader."""

    def test_only_resume_runs_a_reader_that_was_built_while_paused(self) -> None:
        """R-SRC-28, 29, 31, 32, 33: a throttle builds a new reader, and it stays paused."""
        executor = machine(topic(9), chunk_size=1)
        executor.pass_ms(5001)
        assert visible(*read(executor)) == [(0, "0")]
        assert executor.paused_self
        close(executor, 1, pause=True)
        assert (executor.paused_self, executor.paused) == (False, True)
        old = executor.reader
        close(executor, 2, throttle=(10,))
        assert executor.reader is not old
        assert read(executor) == []
        close(executor, 3, pause=False)
        assert visible(*read(executor)) == [(0, str(offset)) for offset in range(1, 9)]

    def test_the_next_barrier_ends_a_pause_for_missing_barriers(self) -> None:
        """R-SRC-28, 29: the reader is not paused at five intervals; it is paused after that, until a barrier comes."""
        executor = machine(topic(9), chunk_size=1)
        executor.pass_ms(5000)
        assert executor.poll()
        executor.pass_ms(1)
        assert executor.poll()
        assert not executor.poll()
        close(executor, 1)
        assert len(visible(*read(executor))) == 7

    def test_a_command_is_not_ended_by_a_barrier(self) -> None:
        """R-SRC-29, 30, 31: a repeated command does not end it either; the shared source's rows and barriers continue
        (#19148)."""
        executor = machine(topic(9, 9), {0: reading(3), 1: DONE}, owned=(0, 1), paused=True)
        assert close(executor, 1, pause=True) == [executor.emitted[-1]]
        assert executor.warnings == ["already paused"]
        assert read(executor) == []
        assert take(executor, offsets(1, 7)) == [offsets(1, 7)]
        close(executor, 2, pause=False)
        close(executor, 3, pause=False)
        assert executor.warnings == ["already paused", "not paused"]
        assert len(visible(*read(executor))) == 5
