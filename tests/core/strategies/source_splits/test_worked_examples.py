"""Worked examples of source backfill, run with the strategy itself: reads of ranges, and commits."""

from __future__ import annotations

import pytest
from support.source_splits.by_hand import SOURCE, ByHand, Log

from backfill_core.errors import SourceReplacedError
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.events import Head, SourcePolled
from backfill_core.protocol.work import WorkKind
from backfill_core.strategies.source_splits.split import BACKFILLING, CATCHING_UP, FINISHED, Split


def spans(*given: tuple[int, int, int]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(str(name), start, stop) for name, start, stop in given)


class TestK1SilentUpstream:
    """No new record arrives until history is read."""

    def test_a_silent_upstream_follows_the_worked_example(self) -> None:
        """R-SRC-3, 6, 13, 14, 15, 23, 24: row by row as in the worked example; the stored JSON is that of the rules."""
        world = ByHand(3, read_max=1, in_flight_max=1, follow=True)
        assert world.splits["0"].to_json() == {
            "state": {"Backfilling": None},
            "num_consumed_rows": 0,
            "target_offset": "2",
        }
        for last in (0, 1):
            (work,) = world.start()
            world.finish(work)
            world.commit()
            assert world.splits["0"].to_json()["state"] == {"Backfilling": str(last)}
        assert not world.strategy.status.history_complete
        (work,) = world.start()
        world.finish(work)
        world.commit()
        assert world.splits["0"].to_json()["state"] == {"SourceCachingUp": "2"}
        assert world.strategy.status.history_complete
        world.produce("0")
        world.poll()
        (work,) = world.start()
        assert world.live([work]) == [spans((0, 3, 4))]
        world.finish(work)
        world.commit()
        assert world.splits["0"].to_json() == {"state": "Finished", "num_consumed_rows": 3, "target_offset": "2"}
        assert world.target == {("0", offset): 1 for offset in range(4)}


class TestK2UpstreamAhead:
    """New records arrive while history is read: they flow, and the target offset stays."""

    def test_new_records_wait_for_no_history(self) -> None:
        """R-SRC-6, 8, 9, 21, 41: new records are read first, have no limit, and do not count as history."""
        world = ByHand(101, read_max=50, follow=True)
        world.limit(0)
        world.produce("0", 2)
        world.poll()
        (work,) = world.start()
        world.finish(work)
        world.commit()
        assert world.target == {("0", 101): 1, ("0", 102): 1}
        assert world.splits["0"] == Split(0, 0, 101, 103)
        world.limit(None)
        world.run()
        assert world.splits["0"].to_json() == {"state": "Finished", "num_consumed_rows": 101, "target_offset": "100"}
        assert world.target == {("0", offset): 1 for offset in range(103)}


class TestK3BackfillAhead:
    """The live side was held, and history overtook it."""

    def test_no_record_is_repeated_when_history_is_ahead(self) -> None:
        """R-SRC-10, 11, 12, 16: history ends where the live side begins, whatever the source contains by then."""
        world = ByHand(80, read_max=51, in_flight_max=1, follow=True)
        world.finish(*world.start(changes=False))
        world.produce("0", 20)
        world.poll()
        world.commit()
        assert world.splits["0"].to_json()["state"] == {"Backfilling": "50"}
        (work,) = world.start(changes=False)
        assert world.history([work]) == [spans((0, 51, 80))]
        world.finish(work)
        world.commit()
        assert world.splits["0"].state == CATCHING_UP
        world.run()
        assert world.splits["0"] == Split(0, 80, 80, 100, 80)
        assert world.target == {("0", offset): 1 for offset in range(100)}


class TestK4Compaction:
    """The offset at which a side ends need not have a record."""

    def test_a_new_record_behind_a_hole_finishes_the_partition(self) -> None:
        """R-SRC-12: 5 and 6 were compacted away; 7 is visible, and finishes the partition."""
        world = ByHand(logs={"0": Log(5)}, follow=True)
        world.run()
        assert world.splits["0"].state == CATCHING_UP
        world.produce("0", 0, markers=2)
        world.produce("0")
        world.run()
        assert world.splits["0"] == Split(0, 5, 5, 8, 5)
        assert world.target[("0", 7)] == 1

    @pytest.mark.parametrize(
        "holes", [{9}, {6, 7, 8, 9}, set(range(10))], ids=["marker", "compacted tail", "markers only"]
    )
    def test_a_tail_without_records_ends_within_two_commits(self, holes: set[int]) -> None:
        """R-SRC-42, #24829: the position decides; only records are counted."""
        world = ByHand(logs={"0": Log(10, holes=holes)})
        world.poll()
        for _ in range(2):
            for work in world.start():
                world.finish(work)
            world.commit()
        assert world.strategy.status.complete
        assert world.splits["0"].records == 10 - len(holes)


class TestK5NoData:
    """Without data to read, the job is caught up at the next barrier."""

    @pytest.mark.parametrize("log", [Log(), Log(9, 9)], ids=["empty", "all of it expired"])
    def test_a_partition_without_history_is_finished_from_the_start(self, log: Log) -> None:
        """R-SRC-5, 7, 24: it has 0 rows and no target offset; later records are visible."""
        world = ByHand(logs={"0": log}, follow=True)
        assert world.splits["0"].to_json() == {"state": "Finished", "num_consumed_rows": 0, "target_offset": None}
        assert world.strategy.status.history_complete
        world.produce("0")
        world.run()
        assert world.target == {("0", log.high - 1): 1}

    def test_a_job_that_begins_at_the_end_reads_only_later_records(self) -> None:
        """R-SRC-7, #20285: it reads no earlier record and every later one."""
        world = ByHand(50, 0, latest=True, follow=True)
        assert world.start() == []
        world.produce("0")
        world.produce("1")
        world.run()
        assert world.target == {("0", 50): 1, ("1", 0): 1}

    def test_a_source_without_partitions_is_complete(self) -> None:
        """R-SRC-24: an empty assignment qualifies at once."""
        world = ByHand()
        world.run()
        assert world.strategy.status.complete


class TestK6SplitEvents:
    """Partitions may appear while others are being backfilled."""

    def test_a_discovered_partition_is_finished_in_the_next_commit(self) -> None:
        """R-SRC-2: all of its records are new, from its first offset on, and it is never lost."""
        world = ByHand(60, read_max=10, in_flight_max=1, follow=True)
        world.finish(*world.start())
        world.commit()
        world.produce("1", 5)
        world.poll()
        work = world.start()
        assert (world.history(work), world.live(work)) == ([spans((0, 10, 20))], [spans((1, 0, 5))])
        world.commit()
        assert world.splits["1"] == Split.found_later()
        assert world.splits["1"].state == FINISHED
        world.open()
        world.run()
        assert world.target == {(name, at): 1 for name, high in (("0", 60), ("1", 5)) for at in range(high)}

    def test_a_partition_that_a_poll_leaves_out_is_unchanged(self) -> None:
        """A broker that briefly has no leader for it has not removed it."""
        world = ByHand(5, 5)
        hidden = world.logs.pop("1")
        world.poll()
        world.logs["1"] = hidden
        world.run()
        assert world.splits.keys() == {"0", "1"}
        assert world.target.total() == 10

    def test_another_topic_of_the_same_name_ends_the_job(self) -> None:
        """Its records have the same offsets and different content; no further read starts."""
        world = ByHand(5)
        world.poll(f"{SOURCE} made again")
        assert isinstance(world.strategy.status.failure, SourceReplacedError)

    def test_a_partition_that_was_truncated_ends_the_job(self) -> None:
        """Its next records get the offsets of lost ones, which the job counts as read: it once left them out."""
        world = ByHand(10, follow=True)
        world.run()
        world.strategy.on(SourcePolled(Head({"0": 7}, 0, world.strategy.stored.source_id)), world.now)

        failure = world.strategy.status.failure

        assert isinstance(failure, SourceReplacedError)
        assert "partition 0 of the source ends at offset 7, but an earlier poll found 10" in failure.message
        assert world.start() == []


class TestK7PauseLayering:
    """A pause and a limit hold history, but not new records."""

    def test_a_pause_holds_only_history(self) -> None:
        """R-SRC-31: new records flow; after the pause reading continues at its offset."""
        world = ByHand(60, read_max=10, in_flight_max=1, follow=True)
        world.produce("0")
        world.poll()
        work = world.start(history=False)
        assert (world.history(work), world.live(work)) == ([], [spans((0, 60, 61))])
        assert world.history(world.start()) == [spans((0, 0, 10))]

    def test_a_throttle_continues_from_the_current_offsets(self) -> None:
        """R-SRC-32, 33: no record is lost or duplicated, 0 reads nothing, and a limit set while paused starts nothing."""
        world = ByHand(60, read_max=10, in_flight_max=1)
        world.limit(4)
        world.second()
        assert world.start(history=False) == []
        world.limit(0)
        world.second()
        assert world.start() == []
        world.limit(4)
        world.second()
        (work,) = world.start()
        assert world.history([work]) == [spans((0, 0, 4))]
        world.finish(work)
        world.limit(None)
        world.run()
        assert world.target == {("0", offset): 1 for offset in range(60)}

    def test_a_limit_of_history_holds_no_new_record(self) -> None:
        """R-SRC-41: new records have no limit, like changes of a table."""
        world = ByHand(60, in_flight_max=1, follow=True)
        world.limit(4)
        world.produce("0", 500_000)
        world.poll()
        world.second()

        work = world.start()

        assert (world.history(work), world.live(work)) == ([spans((0, 0, 4))], [spans((0, 60, 300_060))])

    def test_offsets_without_a_record_cost_no_permit(self) -> None:
        """A compacted topic is not slower than its limit."""
        world = ByHand(logs={"0": Log(60, holes={1, 2, 3})}, in_flight_max=1)
        world.limit(4)
        world.second()
        (work,) = world.start()
        world.finish(work)
        world.commit()
        (work,) = world.start()
        assert world.history([work]) == [spans((0, 4, 7))]

    def test_history_waits_for_commits(self) -> None:
        """R-SRC-28, 29: a crash would lose all uncommitted reads, so history waits until the next commit."""
        world = ByHand(100, read_max=1, in_flight_max=1)
        while work := world.start():
            world.finish(*work)
        assert (world.splits["0"].next, world.target.total()) == (0, 0)
        world.commit()
        assert 1 < world.splits["0"].next < 20
        assert world.start() != []


class TestManyPartitions:
    """One read has offsets of many partitions, and each partition has its own state."""

    def test_each_partition_is_judged_separately(self) -> None:
        """R-SRC-19, 25: one partition is finished while others are not. Users see offsets as rows; the state stores
        records."""
        world = ByHand(
            logs={"0": Log(4), "1": Log(20, holes={1, 2}), "2": Log()}, read_max=8, in_flight_max=1, follow=True
        )
        (work,) = world.start()
        assert world.history([work]) == [spans((1, 0, 4), (0, 0, 4))]
        world.finish(work)
        world.commit()
        assert [split.state for split in world.splits.values()] == [CATCHING_UP, BACKFILLING, FINISHED]
        assert world.splits["1"].records == 2
        view = world.strategy.view(world.now)
        assert (view.rows_done, view.rows_total, view.splits_done, view.splits_left) == (8, 24, 2, 1)
        assert (view.grid, view.lag_records) == ((100,) * 8 + (0,) * 16, 16)

    def test_filtered_records_count_as_read(self) -> None:
        """R-SRC-17: the partition counts all records, the job only those in its target."""
        world = ByHand(logs={"0": Log(6, filtered={0, 2, 3}), "1": Log(2)})
        for work in world.start():
            world.finish(work)

        request = world.commit()

        assert {name: split.records for name, split in world.splits.items()} == {"0": 6, "1": 2}
        assert (request.rows, world.target.total()) == (5, 5)

    def test_the_largest_rest_is_read_first(self) -> None:
        """A skewed topic therefore does not end with only its largest partition."""
        world = ByHand(100, 30, 30, read_max=40, in_flight_max=1, share_min=15)
        (work,) = world.start()
        assert world.history([work]) == [spans((0, 0, 15), (1, 0, 15), (2, 0, 10))]


class TestBothSidesAreReady:
    """History and new records are read in parallel."""

    def test_new_records_are_read_first(self) -> None:
        """R-SRC-21: the rule holds without a limit and for any number of readers of history."""
        world = ByHand(100, read_max=10, in_flight_max=2, follow=True)
        world.produce("0", 5)
        world.poll()

        begun = world.start()

        assert [work.kind for work in begun] == [WorkKind.CHANGES, WorkKind.HISTORY, WorkKind.HISTORY]

    def test_new_records_need_no_free_reader_of_history(self) -> None:
        """R-SRC-21: running reads of history do not delay them."""
        world = ByHand(100, read_max=10, in_flight_max=2, follow=True)
        assert len(world.history(world.start())) == 2
        world.produce("0", 5)
        world.poll()

        assert world.live(world.start()) == [spans((0, 100, 105))]


class TestWhatIsLost:
    """A failed read is repeated, and later reads wait for it."""

    def test_a_lost_read_of_new_records_is_repeated_in_its_place(self) -> None:
        """R-SRC-39: records that arrived meanwhile are read with it, so no offset is skipped."""
        world = ByHand(0, read_max=4, follow=True)
        world.produce("0", 3)
        world.poll()
        (lost,) = world.start()
        world.produce("0", 3)
        world.poll()
        world.lose(lost)

        (again,) = world.start()
        world.finish(again)
        world.commit()
        world.run()

        assert again.ranges == spans((0, 0, 4))
        assert world.target == {("0", offset): 1 for offset in range(6)}

    def test_a_lost_read_is_repeated_first(self) -> None:
        """R-SRC-39: the read starts at the current offsets before any other work; a commit never has a gap."""
        world = ByHand(30, read_max=10, in_flight_max=2)
        first, second = world.start()
        world.finish(second)
        world.lose(first)
        world.commit()
        assert world.splits["0"].next == 0
        again, *_ = world.start()
        assert again.ranges == first.ranges
        world.finish(again)
        world.commit()
        assert world.splits["0"].next == 20
