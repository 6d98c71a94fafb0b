"""The worked examples of source backfill, played with the strategy itself: reads of ranges, and commits."""

from __future__ import annotations

import pytest
from support.source_splits.by_hand import SOURCE, ByHand, Log

from backfill_core.errors import SourceReplacedError
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.work import WorkKind
from backfill_core.strategies.source_splits.split import BACKFILLING, CATCHING_UP, FINISHED, Split


def spans(*given: tuple[int, int, int]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(str(name), start, stop) for name, start, stop in given)


class TestK1SilentUpstream:
    """Nothing new comes until history is read."""

    def test_table(self) -> None:
        """R-SRC-3, 6, 13, 14, 15, 23, 24: row by row as in the worked example; the stored JSON is that of the rules."""
        one = ByHand(3, read_max=1, in_flight_max=1, follow=True)
        assert one.splits["0"].to_json() == {
            "state": {"Backfilling": None},
            "num_consumed_rows": 0,
            "target_offset": "2",
        }
        for last in (0, 1):
            (work,) = one.start()
            one.finish(work)
            one.commit()
            assert one.splits["0"].to_json()["state"] == {"Backfilling": str(last)}
        assert not one.strategy.status.history_complete
        (work,) = one.start()
        one.finish(work)
        one.commit()
        assert one.splits["0"].to_json()["state"] == {"SourceCachingUp": "2"}
        assert one.strategy.status.history_complete
        one.produce("0")
        one.poll()
        (work,) = one.start()
        assert one.live([work]) == [spans((0, 3, 4))]
        one.finish(work)
        one.commit()
        assert one.splits["0"].to_json() == {"state": "Finished", "num_consumed_rows": 3, "target_offset": "2"}
        assert one.target == {("0", offset): 1 for offset in range(4)}


class TestK2UpstreamAhead:
    """New records come while history is read: they flow, and the target stays."""

    def test_new_records_wait_for_no_history(self) -> None:
        """R-SRC-6, 8, 9, 21, 41: what is new is read first, has no limit, and is not history as well."""
        one = ByHand(101, read_max=50, follow=True)
        one.limit(0)
        one.produce("0", 2)
        one.poll()
        (work,) = one.start()
        one.finish(work)
        one.commit()
        assert one.target == {("0", 101): 1, ("0", 102): 1}
        assert one.splits["0"] == Split(0, 0, 101, 103)
        one.limit(None)
        one.run()
        assert one.splits["0"].to_json() == {"state": "Finished", "num_consumed_rows": 101, "target_offset": "100"}
        assert one.target == {("0", offset): 1 for offset in range(103)}


class TestK3BackfillAhead:
    """The live side was held, and history passed it by."""

    def test_nothing_is_repeated(self) -> None:
        """R-SRC-10, 11, 12, 16: history ends where the live side begins, whatever the source holds by then."""
        one = ByHand(80, read_max=51, in_flight_max=1, follow=True)
        one.finish(*one.start(changes=False))
        one.produce("0", 20)
        one.poll()
        one.commit()
        assert one.splits["0"].to_json()["state"] == {"Backfilling": "50"}
        (work,) = one.start(changes=False)
        assert one.history([work]) == [spans((0, 51, 80))]
        one.finish(work)
        one.commit()
        assert one.splits["0"].state == CATCHING_UP
        one.run()
        assert one.splits["0"] == Split(0, 80, 80, 100, 80)
        assert one.target == {("0", offset): 1 for offset in range(100)}


class TestK4Compaction:
    """The offsets at which a side ends need no record."""

    def test_the_first_new_record_is_behind_a_hole(self) -> None:
        """R-SRC-12: 5 and 6 were compacted away; 7 is visible, and finishes the partition."""
        one = ByHand(logs={"0": Log(5)}, follow=True)
        one.run()
        assert one.splits["0"].state == CATCHING_UP
        one.produce("0", 0, markers=2)
        one.produce("0")
        one.run()
        assert one.splits["0"] == Split(0, 5, 5, 8, 5)
        assert one.target[("0", 7)] == 1

    @pytest.mark.parametrize(
        "holes", [{9}, {6, 7, 8, 9}, set(range(10))], ids=["marker", "compacted tail", "markers only"]
    )
    def test_a_tail_without_records_ends_within_two_commits(self, holes: set[int]) -> None:
        """R-SRC-42, #24829: by position; only records are counted."""
        one = ByHand(logs={"0": Log(10, holes=holes)})
        one.poll()
        for _ in range(2):
            for work in one.start():
                one.finish(work)
            one.commit()
        assert one.strategy.status.complete
        assert one.splits["0"].records == 10 - len(holes)


class TestK5NoData:
    """Nothing to read: the job is there at the next barrier."""

    @pytest.mark.parametrize("log", [Log(), Log(9, 9)], ids=["empty", "all of it expired"])
    def test_no_history(self, log: Log) -> None:
        """R-SRC-5, 7, 24: finished from the start, with 0 rows and no target; what comes then is visible."""
        one = ByHand(logs={"0": log}, follow=True)
        assert one.splits["0"].to_json() == {"state": "Finished", "num_consumed_rows": 0, "target_offset": None}
        assert one.strategy.status.history_complete
        one.produce("0")
        one.run()
        assert one.target == {("0", log.high - 1): 1}

    def test_a_job_that_begins_at_the_end(self) -> None:
        """R-SRC-7, #20285: no record of before is read, and every one that comes later."""
        one = ByHand(50, 0, latest=True, follow=True)
        assert one.start() == []
        one.produce("0")
        one.produce("1")
        one.run()
        assert one.target == {("0", 50): 1, ("1", 0): 1}

    def test_a_source_without_partitions(self) -> None:
        """R-SRC-24: an empty assignment qualifies at once."""
        one = ByHand()
        one.run()
        assert one.strategy.status.complete


class TestK6SplitEvents:
    """Partitions that appear while others are being backfilled."""

    def test_a_discovered_partition(self) -> None:
        """R-SRC-2: finished in the next commit; all of it is new, from its first offset on, and it is never forgotten."""
        one = ByHand(60, read_max=10, in_flight_max=1, follow=True)
        one.finish(*one.start())
        one.commit()
        one.produce("1", 5)
        one.poll()
        work = one.start()
        assert (one.history(work), one.live(work)) == ([spans((0, 10, 20))], [spans((1, 0, 5))])
        one.commit()
        assert one.splits["1"] == Split.found_later()
        assert one.splits["1"].state == FINISHED
        one.open()
        one.run()
        assert one.target == {(name, at): 1 for name, high in (("0", 60), ("1", 5)) for at in range(high)}

    def test_a_partition_that_a_look_leaves_out(self) -> None:
        """It is as it was: a broker that forgot its leader for a moment has not removed it."""
        one = ByHand(5, 5)
        hidden = one.logs.pop("1")
        one.poll()
        one.logs["1"] = hidden
        one.run()
        assert one.splits.keys() == {"0", "1"}
        assert one.target.total() == 10

    def test_another_topic_of_the_same_name(self) -> None:
        """Its records have the same offsets, and are others; no read starts any more."""
        one = ByHand(5)
        one.poll(f"{SOURCE} made again")
        assert isinstance(one.strategy.status.failure, SourceReplacedError)
        assert one.start() == []


class TestK7PauseLayering:
    """What holds history, and what does not."""

    def test_a_pause_holds_history_alone(self) -> None:
        """R-SRC-31: new records flow; after the pause reading goes on where it was."""
        one = ByHand(60, read_max=10, in_flight_max=1, follow=True)
        one.produce("0")
        one.poll()
        work = one.start(history=False)
        assert (one.history(work), one.live(work)) == ([], [spans((0, 60, 61))])
        assert one.history(one.start()) == [spans((0, 0, 10))]

    def test_a_throttle_goes_on_from_the_current_offsets(self) -> None:
        """R-SRC-32, 33: nothing is lost or doubled, 0 reads nothing, and a limit set while paused starts nothing."""
        one = ByHand(60, read_max=10, in_flight_max=1)
        one.limit(4)
        one.second()
        assert one.start(history=False) == []
        one.limit(0)
        one.second()
        assert one.start() == []
        one.limit(4)
        one.second()
        (work,) = one.start()
        assert one.history([work]) == [spans((0, 0, 4))]
        one.finish(work)
        one.limit(None)
        one.run()
        assert one.target == {("0", offset): 1 for offset in range(60)}

    def test_a_limit_of_history_holds_no_new_record(self) -> None:
        """R-SRC-41: new records have no limit of their own, as changes of a table have none."""
        one = ByHand(60, in_flight_max=1, follow=True)
        one.limit(4)
        one.produce("0", 500_000)
        one.poll()
        one.second()

        work = one.start()

        assert (one.history(work), one.live(work)) == ([spans((0, 0, 4))], [spans((0, 60, 300_060))])

    def test_offsets_without_a_record_cost_no_permit(self) -> None:
        """A compacted topic is not slower than its limit."""
        one = ByHand(logs={"0": Log(60, holes={1, 2, 3})}, in_flight_max=1)
        one.limit(4)
        one.second()
        (work,) = one.start()
        one.finish(work)
        one.commit()
        (work,) = one.start()
        assert one.history([work]) == [spans((0, 4, 7))]

    def test_history_waits_for_commits(self) -> None:
        """R-SRC-28, 29: what no barrier commits would all be lost by a crash; the next commit lets it go on."""
        one = ByHand(100, read_max=1, in_flight_max=1)
        while work := one.start():
            one.finish(*work)
        assert (one.splits["0"].next, one.target.total()) == (0, 0)
        one.commit()
        assert 1 < one.splits["0"].next < 20
        assert one.start() != []


class TestManyPartitions:
    """One read has offsets of many of them, and each has its own state."""

    def test_each_is_judged_alone(self) -> None:
        """R-SRC-19, 25: one is finished while others are not; rows that people see are offsets, what is stored are records."""
        one = ByHand(
            logs={"0": Log(4), "1": Log(20, holes={1, 2}), "2": Log()}, read_max=8, in_flight_max=1, follow=True
        )
        (work,) = one.start()
        assert one.history([work]) == [spans((1, 0, 4), (0, 0, 4))]
        one.finish(work)
        one.commit()
        assert [split.state for split in one.splits.values()] == [CATCHING_UP, BACKFILLING, FINISHED]
        assert one.splits["1"].records == 2
        view = one.strategy.view(one.now)
        assert (view.rows_done, view.rows_total, view.splits_done, view.splits_left) == (8, 24, 2, 1)
        assert (view.grid, view.lag_records) == ((100,) * 8 + (0,) * 16, 16)

    def test_records_that_a_filter_leaves_out_were_read(self) -> None:
        """R-SRC-17: the partition counts all of them, the job counts those that its target has."""
        one = ByHand(logs={"0": Log(6, filtered={0, 2, 3}), "1": Log(2)})
        for work in one.start():
            one.finish(work)

        request = one.commit()

        assert {name: split.records for name, split in one.splits.items()} == {"0": 6, "1": 2}
        assert (request.rows, one.target.total()) == (5, 5)

    def test_the_largest_rest_comes_first(self) -> None:
        """So a skewed topic does not end with its largest partition alone."""
        one = ByHand(100, 30, 30, read_max=40, in_flight_max=1, share_min=15)
        (work,) = one.start()
        assert one.history([work]) == [spans((0, 0, 15), (1, 0, 15), (2, 0, 10))]


class TestBothSidesAreReady:
    """History and new records are read side by side."""

    def test_new_records_go_first(self) -> None:
        """R-SRC-21: without a limit, and however many readers history has."""
        one = ByHand(100, read_max=10, in_flight_max=2, follow=True)
        one.produce("0", 5)
        one.poll()

        begun = one.start()

        assert [work.kind for work in begun] == [WorkKind.CHANGES, WorkKind.HISTORY, WorkKind.HISTORY]

    def test_new_records_need_no_free_reader_of_history(self) -> None:
        """R-SRC-21: reads of history that run already hold nothing up."""
        one = ByHand(100, read_max=10, in_flight_max=2, follow=True)
        assert len(one.history(one.start())) == 2
        one.produce("0", 5)
        one.poll()

        assert one.live(one.start()) == [spans((0, 100, 105))]


class TestWhatIsLost:
    """A read that fails is repeated, and what was read behind it waits."""

    def test_of_new_records_is_read_again_in_its_place(self) -> None:
        """R-SRC-39: with what came meanwhile behind it, so no offset is passed over."""
        one = ByHand(0, read_max=4, follow=True)
        one.produce("0", 3)
        one.poll()
        (lost,) = one.start()
        one.produce("0", 3)
        one.poll()
        one.lose(lost)

        (again,) = one.start()
        one.finish(again)
        one.commit()
        one.run()

        assert again.ranges == spans((0, 0, 4))
        assert one.target == {("0", offset): 1 for offset in range(6)}

    def test_comes_first(self) -> None:
        """R-SRC-39: of the current offsets, before anything else; a commit never has a gap."""
        one = ByHand(30, read_max=10, in_flight_max=2)
        first, second = one.start()
        one.finish(second)
        one.lose(first)
        one.commit()
        assert one.splits["0"].next == 0
        again, *_ = one.start()
        assert again.ranges == first.ranges
        one.finish(again)
        one.commit()
        assert one.splits["0"].next == 20
