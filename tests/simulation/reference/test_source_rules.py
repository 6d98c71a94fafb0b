"""The numbered rules of source backfill that its worked examples leave open."""

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
    """What the examples leave open."""

    def test_the_first_message_is_a_barrier(self) -> None:
        """R-SRC-1: before any state is read."""
        one = ReferenceSource(topic(3), (0,), States())
        one.upstream.append(offsets(0, 1))
        with pytest.raises(Fatal):
            one.poll()

    def test_what_is_in_the_reader(self) -> None:
        """R-SRC-2, 3, 4: unstarted ones from their own start, started ones after their offset, others not."""
        stored = {0: reading(4), 1: catching_up(4), 2: DONE}
        assert machine(topic(9, 9, 9, 9), stored, owned=range(4)).reader.positions == {0: 5, 3: 0}
        assert machine(topic(9, start=3)).reader.positions == {0: 4}

    def test_an_unstarted_split_hides_the_shared_source(self) -> None:
        """R-SRC-8, 9: the target is where it is, also if that is lower than it was."""
        one = machine(topic(9), rate_limit=0)
        assert take(one, offsets(0, 4)) == []
        assert one.splits == {0: reading(None, 4)}

    def test_without_a_target_reading_has_no_end(self) -> None:
        """R-SRC-18: as long as the shared source is silent."""
        one = machine(topic(1, 9), {1: reading(2)}, rate_limit=0)
        close(one, 1, splits=Splits(frozenset({1})))
        close(one, 2, throttle=(None,))
        assert len(visible(*read(one))) == 6
        assert one.splits == {1: reading(8, rows=6)}
        take(one, offsets(1, 8))
        assert one.splits[1].kind == FINISHED

    def test_every_row_of_history_is_counted(self) -> None:
        """R-SRC-16, 17: hidden or not; the metric counts those that go on."""
        one = machine(topic(9), {0: reading(3)}, chunk_size=9)
        take(one, offsets(0, 5))
        read(one)
        assert (one.splits[0], one.rows_visible) == (catching_up(5, 5, rows=5), 2)

    def test_splits_of_a_chunk_are_judged_one_by_one(self) -> None:
        """R-SRC-19, 43: each row stays at its place; a chunk of hidden rows is none."""
        one = machine(topic(9, 9), {0: catching_up(5), 1: DONE}, owned=(0, 1))
        chunk = Records((Record(0, "5"), Record(1, "7"), Record(1, "8", visible=False), Record(0, "6")))
        seen = Records((Record(0, "5", False), Record(1, "7"), Record(1, "8", False), Record(0, "6")))
        assert take(one, chunk, Records((Record(1, "9", visible=False),))) == [seen]

    def test_offsets_are_numbers(self) -> None:
        """R-SRC-20: as text, 9 comes after 10."""
        one = machine(topic(20), {0: catching_up(9)})
        assert take(one, offsets(0, 8, 10)) == [Records((Record(0, "8", visible=False), Record(0, "10")))]
        with pytest.raises(Fatal):
            take(machine(topic(20)), Records((Record(0, "x"),)))

    def test_the_shared_source_comes_first(self) -> None:
        """R-SRC-21: then the reader's rows are judged by the newer target."""
        one = machine(topic(9), chunk_size=9)
        one.upstream.append(offsets(0, 2))
        assert visible(*read(one)) == [(0, "0"), (0, "1"), (0, "2")]

    def test_watermarks_wait_for_the_end(self) -> None:
        """R-SRC-22: dropped while backfilling, forwarded afterwards."""
        one = machine(Topic({0: Partition()}))
        assert take(one, Watermark(1)) == []
        close(one, 1)
        close(one, 2)
        assert one.phase == "forwarding"
        assert take(one, Watermark(2), offsets(0, 0)) == [Watermark(2), offsets(0, 0)]

    def test_states_are_written_before_their_barrier(self) -> None:
        """R-SRC-23, 25: what is committed with a barrier is what was emitted before it."""
        one = machine(topic(9), rate_limit=2)
        read(one)
        one.upstream.extend([Barrier(1, 2, checkpoint=False), offsets(0, 9), Barrier(2, 3)])
        one.poll()
        one.states.commit(1)
        assert one.states.read(0) == reading(1, 8, rows=2)
        assert one.reports == [Report("update", 2, 2)]

    def test_an_actor_without_splits_is_done(self) -> None:
        """R-SRC-24: it qualifies at once, or the others would wait for it forever."""
        one = machine(topic(), owned=())
        close(one, 1)
        assert one.reports == [Report("finish", 2, 0)]

    def test_it_stays_until_every_actor_is_finished(self) -> None:
        """R-SRC-26, 38: what others wrote counts once it is committed (#18300, #20606, #20688)."""
        states, there = States(), topic(0, 9)
        early, late = machine(there, owned=(0,), states=states), machine(there, owned=(1,), states=states)
        take(early, Barrier(1, 2))
        take(early, Barrier(2, 3))
        assert early.phase == "backfilling"
        read(late)
        for at in (1, 2):
            take(late, Barrier(at, at + 1))
        states.commit(2)
        take(late, offsets(1, 9))
        for one in (late, early):
            take(one, Barrier(3, 4))
        assert early.phase == "backfilling"
        states.commit(3)
        take(early, Barrier(4, 5))
        assert early.phase == "forwarding"

    def test_nothing_is_reported_after_the_end(self) -> None:
        """R-SRC-27: also if a split arrives that is unfinished; its rows are read all the same."""
        one = machine(topic(0, 9), {1: reading(5)}, chunk_size=1)
        close(one, 1)
        close(one, 2, splits=Splits(frozenset({0, 1}), rescaled=True))
        close(one, 3)
        assert one.reports == [Report("finish", 2, 0)]
        assert visible(*read(one)) == [(1, "6"), (1, "7"), (1, "8")]

    def test_a_limit_bounds_rows_per_second(self) -> None:
        """R-SRC-33, 41: also 1; 0 reads nothing; the shared source is not limited."""
        one = machine(topic(9, 9), {1: DONE}, owned=(0, 1), rate_limit=1)
        for offset in range(3):
            assert visible(*read(one)) == [(0, str(offset))]
            one.second()
        close(one, 1, throttle=(0,))
        one.second()
        assert (read(one), take(one, offsets(1, 7, 8))) == ([], [offsets(1, 7, 8)])
        close(one, 2, throttle=(2,))
        assert visible(*read(one)) == [(0, "3"), (0, "4")]
        assert one.readers_built == 3
        close(one, 3, throttle=(2,))
        assert one.readers_built == 3

    def test_in_forwarding_an_unknown_split_is_finished(self) -> None:
        """R-SRC-35, 38: and stored; one that is stored as unfinished is an error; a dropped one is deleted."""
        states = States()
        one = machine(topic(0, 9, 9), states=states)
        close(one, 1)
        close(one, 2)
        close(one, 3, splits=Splits(frozenset({1})))
        close(one, 4)
        assert one.phase == "forwarding"
        assert (states.read(0), states.read(1)) == (None, DONE)
        states.write(4, 2, reading(5))
        states.commit(4)
        with pytest.raises(Fatal, match="R-SRC-38"):
            close(one, 5, splits=Splits(frozenset({1, 2}), rescaled=True))

    def test_a_failing_reader_is_built_anew(self) -> None:
        """R-SRC-39: from the state; a failing upstream fails the executor."""
        one = machine(topic(3), chunk_size=1)
        one.poll()
        one.topic.failures = 2
        read(one)
        assert visible(*one.emitted) == [(0, "0"), (0, "1"), (0, "2")]
        with pytest.raises(Fatal, match="R-SRC-39"):
            take(one, Broken())

    def test_an_end_without_a_row_is_an_end(self) -> None:
        """R-SRC-42: transaction markers are reached and not counted (#24717, #24829)."""
        there = topic(3)
        there.partitions[0].append(marker=True)
        one = machine(there)
        assert one.splits[0].target == "3"
        read(one)
        assert one.splits == {0: catching_up(3, 3, rows=3)}

    def test_an_end_without_a_row_hides_no_row(self) -> None:
        """R-SRC-42, 16: row 3 was hidden in history; raised to the marker behind it, it would be hidden for good."""
        there = topic(4)
        there.partitions[0].append(marker=True)
        one = machine(there, {0: reading(1)})
        take(one, offsets(0, 2))
        assert visible(*read(one)) == [(0, "2")]
        assert visible(*take(one, offsets(0, 3))) == [(0, "3")]

    def test_an_end_without_a_row_raises_what_is_caught_up_to(self) -> None:
        """R-SRC-42: with no row between, the shared source may skip both; a finished split ignores it."""
        one = machine(topic(3, 3), {1: DONE}, owned=(0, 1))
        read(one)
        for split in (0, 1):
            one.judge_reached(Reached(split, "7"))
        assert one.splits == {0: catching_up(7, 2, rows=3), 1: DONE}

    def test_nothing_to_read_after_a_restart_hides_what_was_emitted(self) -> None:
        """R-SRC-5, 11: 4 and 5 were emitted by the backfill, and the shared source is still at 3."""
        one = machine(topic(6), {0: reading(5)})
        assert take(one, offsets(0, 4, 5)) == []
        assert take(one, offsets(0, 6)) == [offsets(0, 6)]

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
        """R-SRC-44: a state of one release is read by the next."""
        assert json.loads(state.to_json()) == stored
        assert Split.from_json(state.to_json()) == state
