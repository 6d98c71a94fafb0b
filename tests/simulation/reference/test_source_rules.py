"""Numbered rules of source backfill that the worked examples do not cover."""

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
from support.reference.topic import FINISHED, Broken, Partition, Reached, Record, Records, Split, States, Topic
from support.reference.vocabulary import Barrier, Fatal, Report, Splits, Watermark


class TestTheRules:
    """Rules that the worked examples do not cover."""

    def test_the_first_message_is_a_barrier(self) -> None:
        """R-SRC-1: the barrier comes before any state is read."""
        executor = ReferenceSource(topic(3), (0,), States())
        executor.upstream.append(offsets(0, 1))
        with pytest.raises(Fatal):
            executor.poll()

    def test_the_reader_has_the_unfinished_splits(self) -> None:
        """R-SRC-2, 3, 4: unstarted splits are read from their own start, started ones after their offset, others not."""
        stored = {0: reading(4), 1: catching_up(4), 2: DONE}
        assert machine(topic(9, 9, 9, 9), stored, owned=range(4)).reader.positions == {0: 5, 3: 0}
        assert machine(topic(9, start=3)).reader.positions == {0: 4}

    def test_an_unstarted_split_hides_the_shared_source(self) -> None:
        """R-SRC-8, 9: the target is the position of the shared source, even if it is lower than before."""
        executor = machine(topic(9), rate_limit=0)
        assert take(executor, offsets(0, 4)) == []
        assert executor.splits == {0: reading(None, 4)}

    def test_without_a_target_reading_has_no_end(self) -> None:
        """R-SRC-18: the rule holds as long as the shared source is silent."""
        executor = machine(topic(1, 9), {1: reading(2)}, rate_limit=0)
        close(executor, 1, splits=Splits(frozenset({1})))
        close(executor, 2, throttle=(None,))
        assert len(visible(*read(executor))) == 6
        assert executor.splits == {1: reading(8, rows=6)}
        take(executor, offsets(1, 8))
        assert executor.splits[1].kind == FINISHED

    def test_every_row_of_history_is_counted(self) -> None:
        """R-SRC-16, 17: hidden rows count too; the metric counts the rows that pass."""
        executor = machine(topic(9), {0: reading(3)}, chunk_size=9)
        take(executor, offsets(0, 5))
        read(executor)
        assert (executor.splits[0], executor.rows_visible) == (catching_up(5, 5, rows=5), 2)

    def test_splits_of_a_chunk_are_judged_separately(self) -> None:
        """R-SRC-19, 43: each row keeps its place; a chunk of hidden rows is not emitted."""
        executor = machine(topic(9, 9), {0: catching_up(5), 1: DONE}, owned=(0, 1))
        chunk = Records((Record(0, "5"), Record(1, "7"), Record(1, "8", visible=False), Record(0, "6")))
        seen = Records((Record(0, "5", False), Record(1, "7"), Record(1, "8", False), Record(0, "6")))
        assert take(executor, chunk, Records((Record(1, "9", visible=False),))) == [seen]

    def test_offsets_are_numbers(self) -> None:
        """R-SRC-20: as a string, 9 comes after 10."""
        executor = machine(topic(20), {0: catching_up(9)})
        assert take(executor, offsets(0, 8, 10)) == [Records((Record(0, "8", visible=False), Record(0, "10")))]
        with pytest.raises(Fatal):
            take(machine(topic(20)), Records((Record(0, "x"),)))

    def test_the_shared_source_is_read_first(self) -> None:
        """R-SRC-21: the reader's rows are then judged by the newer target."""
        executor = machine(topic(9), chunk_size=9)
        executor.upstream.append(offsets(0, 2))
        assert visible(*read(executor)) == [(0, "0"), (0, "1"), (0, "2")]

    def test_watermarks_wait_for_the_end(self) -> None:
        """R-SRC-22: watermarks are dropped while backfilling, and forwarded afterwards."""
        executor = machine(Topic({0: Partition()}))
        assert take(executor, Watermark(1)) == []
        close(executor, 1)
        close(executor, 2)
        assert executor.phase == "forwarding"
        assert take(executor, Watermark(2), offsets(0, 0)) == [Watermark(2), offsets(0, 0)]

    def test_states_are_written_before_their_barrier(self) -> None:
        """R-SRC-23, 25: the state committed with a barrier covers the rows emitted before it."""
        executor = machine(topic(9), rate_limit=2)
        read(executor)
        executor.upstream.extend([Barrier(1, 2, checkpoint=False), offsets(0, 9), Barrier(2, 3)])
        executor.poll()
        executor.states.commit(1)
        assert executor.states.read(0) == reading(1, 8, rows=2)
        assert executor.reports == [Report("update", 2, 2)]

    def test_an_actor_without_splits_is_finished(self) -> None:
        """R-SRC-24: it qualifies at once, or the other actors would wait for it forever."""
        executor = machine(topic(), owned=())
        close(executor, 1)
        assert executor.reports == [Report("finish", 2, 0)]

    def test_an_actor_backfills_until_every_actor_is_finished(self) -> None:
        """R-SRC-26, 38: the states of other actors count once they are committed (#18300, #20606, #20688)."""
        states, shared_topic = States(), topic(0, 9)
        early, late = machine(shared_topic, owned=(0,), states=states), machine(shared_topic, owned=(1,), states=states)
        take(early, Barrier(1, 2))
        take(early, Barrier(2, 3))
        assert early.phase == "backfilling"
        read(late)
        for at in (1, 2):
            take(late, Barrier(at, at + 1))
        states.commit(2)
        take(late, offsets(1, 9))
        for actor in (late, early):
            take(actor, Barrier(3, 4))
        assert early.phase == "backfilling"
        states.commit(3)
        take(early, Barrier(4, 5))
        assert early.phase == "forwarding"

    def test_nothing_is_reported_after_the_end(self) -> None:
        """R-SRC-27: this includes an unfinished split that arrives later; its rows are still read."""
        executor = machine(topic(0, 9), {1: reading(5)}, chunk_size=1)
        close(executor, 1)
        close(executor, 2, splits=Splits(frozenset({0, 1}), rescaled=True))
        close(executor, 3)
        assert executor.reports == [Report("finish", 2, 0)]
        assert visible(*read(executor)) == [(1, "6"), (1, "7"), (1, "8")]

    def test_a_limit_bounds_rows_per_second(self) -> None:
        """R-SRC-33, 41: the limits include 1; 0 reads nothing; the shared source is not limited."""
        executor = machine(topic(9, 9), {1: DONE}, owned=(0, 1), rate_limit=1)
        for offset in range(3):
            assert visible(*read(executor)) == [(0, str(offset))]
            executor.second()
        close(executor, 1, throttle=(0,))
        executor.second()
        assert (read(executor), take(executor, offsets(1, 7, 8))) == ([], [offsets(1, 7, 8)])
        close(executor, 2, throttle=(2,))
        assert visible(*read(executor)) == [(0, "3"), (0, "4")]
        assert executor.readers_built == 3
        close(executor, 3, throttle=(2,))
        assert executor.readers_built == 3

    def test_an_unknown_split_is_finished_in_forwarding(self) -> None:
        """R-SRC-35, 38: it is also stored. A split that is stored as unfinished is an error, and a dropped one is
        deleted."""
        states = States()
        executor = machine(topic(0, 9, 9), states=states)
        close(executor, 1)
        close(executor, 2)
        close(executor, 3, splits=Splits(frozenset({1})))
        close(executor, 4)
        assert executor.phase == "forwarding"
        assert (states.read(0), states.read(1)) == (None, DONE)
        states.write(4, 2, reading(5))
        states.commit(4)
        with pytest.raises(Fatal, match="R-SRC-38"):
            close(executor, 5, splits=Splits(frozenset({1, 2}), rescaled=True))

    def test_a_failing_reader_is_rebuilt(self) -> None:
        """R-SRC-39: it is rebuilt from the state; a failing upstream fails the executor."""
        executor = machine(topic(3), chunk_size=1)
        executor.poll()
        executor.topic.failures = 2
        read(executor)
        assert visible(*executor.emitted) == [(0, "0"), (0, "1"), (0, "2")]
        with pytest.raises(Fatal, match="R-SRC-39"):
            take(executor, Broken())

    def test_an_end_without_a_row_counts_as_reached(self) -> None:
        """R-SRC-42: transaction markers are reached and not counted (#24717, #24829)."""
        shared_topic = topic(3)
        shared_topic.partitions[0].append(marker=True)
        executor = machine(shared_topic)
        assert executor.splits[0].target == "3"
        read(executor)
        assert executor.splits == {0: catching_up(3, 3, rows=3)}

    def test_an_end_without_a_row_hides_no_row(self) -> None:
        """R-SRC-42, 16: row 3 was hidden in history; a target at the marker behind it would hide the row permanently."""
        shared_topic = topic(4)
        shared_topic.partitions[0].append(marker=True)
        executor = machine(shared_topic, {0: reading(1)})
        take(executor, offsets(0, 2))
        assert visible(*read(executor)) == [(0, "2")]
        assert visible(*take(executor, offsets(0, 3))) == [(0, "3")]

    def test_an_end_without_a_row_raises_the_offset_to_catch_up_with(self) -> None:
        """R-SRC-42: with no row between, the shared source may skip both; a finished split ignores it."""
        executor = machine(topic(3, 3), {1: DONE}, owned=(0, 1))
        read(executor)
        for split in (0, 1):
            executor.judge_reached(Reached(split, "7"))
        assert executor.splits == {0: catching_up(7, 2, rows=3), 1: DONE}

    def test_emitted_rows_stay_hidden_after_a_restart_without_history(self) -> None:
        """R-SRC-5, 11: the backfill emitted 4 and 5, and the shared source is still at 3."""
        executor = machine(topic(6), {0: reading(5)})
        assert take(executor, offsets(0, 4, 5)) == []
        assert take(executor, offsets(0, 6)) == [offsets(0, 6)]

    @pytest.mark.parametrize(
        ("state", "stored"),
        [
            (Split(), {"state": {"Backfilling": None}, "num_consumed_rows": 0, "target_offset": None}),
            (reading(7, 9, rows=3), {"state": {"Backfilling": "7"}, "num_consumed_rows": 3, "target_offset": "9"}),
            (catching_up(9), {"state": {"SourceCachingUp": "9"}, "num_consumed_rows": 0, "target_offset": None}),
            (DONE, {"state": "Finished", "num_consumed_rows": 0, "target_offset": None}),
        ],
    )
    def test_states_are_stored_as_json(self, state: Split, stored: object) -> None:
        """R-SRC-44: the next release reads the state of this one."""
        assert json.loads(state.to_json()) == stored
        assert Split.from_json(state.to_json()) == state
