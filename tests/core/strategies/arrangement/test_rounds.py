"""Rounds of reading and merging: what may start, what is committed, what is thrown away, and what a new attempt goes on from."""

from __future__ import annotations

import pytest
from support.arrangement.by_hand import ByHand, begun, ids
from support.reference.arrangement import Key, Values

from backfill_core.positions.vnode_positions import Completed, UpTo, VnodePositions
from backfill_core.protocol.work import ApplyChanges, ReadKeyRange

TEN, CUTS = ids(*range(10)), ids(*range(9))


class TestChunks:
    """Several at one version, committed as a prefix."""

    def test_are_committed_from_the_front(self) -> None:
        """R-ARR-7, 28: the second one is staged and waits for the first; rows between them would be missing."""
        one = begun()
        first, second = one.start()
        one.finish(second)

        assert one.commit().files == ()
        one.finish(first)
        assert [file.rows for file in one.commit().files] == [1, 1]
        assert one.stored.positions == VnodePositions.of([UpTo((1,))])

    def test_that_are_lost_are_read_again_in_their_place(self) -> None:
        """R-ARR-38: the one behind it is kept."""
        one = begun()
        first, second = one.start()
        one.finish(second)
        one.lose(first)

        (again, *_) = one.start()
        assert isinstance(again, ReadKeyRange)
        assert (again.low, again.high) == (None, (0,))
        one.finish(again)
        assert len(one.commit().files) == 2

    def test_are_bounded(self) -> None:
        """No more than `maxInFlight` at a time, and no more staged behind a slow one than a queue holds."""
        one = ByHand([ids(*range(200))], cuts=ids(*range(199)), chunk_rows=1)
        slow, *_ = one.start()
        for _ in range(300):
            for work in [work for work in one.running.values() if work is not slow]:
                one.finish(work)
            one.start()
            assert len(one.running) <= 2

        assert len(one.begun) == 64

    def test_of_several_cells_have_the_rows_that_a_chunk_should_have(self) -> None:
        """A chunk is cut where the source says that files end."""
        one = ByHand([TEN], cuts=CUTS, chunk_rows=4, in_flight_max=1)

        (chunk,) = one.start()

        assert (chunk.high, chunk.rows_max) == ((3,), None)

    @pytest.mark.parametrize(("bound", "high"), [({}, (1,)), ({"chunk_rows": 300_000}, (0,))])
    def test_have_the_cells_that_come_nearest_to_what_is_wanted(self, bound: dict[str, int], high: Values) -> None:
        """Files a little larger than half a chunk are read by two; a bound of the user is never passed."""
        one = ByHand([TEN], cuts=CUTS, rows_per_cut=160_000, in_flight_max=1, **bound)

        (chunk,) = one.start()

        assert (chunk.high, chunk.rows_max) == (high, None)

    def test_have_a_row_limit_where_cells_are_too_large(self) -> None:
        """R-ARR-9: the rest is the next chunk, and nothing behind it starts meanwhile."""
        one = ByHand([TEN], cuts=ids(4), rows_per_cut=5, chunk_rows=2)

        (chunk,) = one.start()
        one.finish(chunk)
        one.commit()
        (rest,) = one.start()

        assert isinstance(chunk, ReadKeyRange)
        assert isinstance(rest, ReadKeyRange)
        assert (chunk.rows_max, chunk.high) == (2, (4,))
        assert (rest.low, rest.high, rest.rows_max) == ((1,), (4,), 2)


class TestARound:
    """Read, then merge, then read."""

    def test_without_changes_only_reads(self) -> None:
        """A quiet source costs no MERGE."""
        one = begun()
        one.run()

        assert not any(isinstance(work, ApplyChanges) for work in one.begun)
        assert one.stored.positions == VnodePositions.of([Completed()])

    def test_ends_once_a_chunk_is_there(self) -> None:
        """R-ARR-18: no further chunk of the old version starts, those under way are waited for."""
        one = begun()
        first, second = one.start()
        one.finish(first)
        one.change(*TEN, (10,))

        assert one.start() == []
        assert not one.strategy.status.wants_announcement
        one.finish(second)
        assert one.strategy.status.wants_announcement
        assert one.commit().announces
        assert one.stored.merging is not None
        assert (one.stored.consumed, one.stored.merging.upto) == (0, 1)

    def test_reads_on_while_it_merges(self) -> None:
        """Chunks of the version that the batch goes up to; they are committed with its end, not before."""
        one = begun()
        one.round()
        one.change(*TEN[1:], (10,))
        one.commit()
        merge, *ahead = one.start()
        one.finish(ahead[0])
        ahead += one.start()
        assert [chunk.version for chunk in ahead if isinstance(chunk, ReadKeyRange)] == [1, 1]
        one.finish(ahead[1])

        assert one.strategy.status.blocks_commit
        one.finish(merge)
        assert one.strategy.status.wants_commit
        one.commit()

        assert (one.stored.consumed, one.stored.positions) == (1, VnodePositions.of([UpTo((3,))]))
        assert sorted(one.target) == [1, 2, 3]

    @pytest.mark.parametrize(("readers", "beside"), [(1, 1), (2, 1), (3, 2), (5, 3)])
    def test_leaves_half_of_its_readers_to_a_merge(self, readers: int, beside: int) -> None:
        """A MERGE has many small Spark jobs, and none of them takes a core from a range that is being read."""
        one = begun(in_flight_max=readers)
        one.round()
        one.change(*TEN[1:], (10,))
        one.commit()
        merge, *ahead = one.start()
        assert [chunk.readers for chunk in ahead if isinstance(chunk, ReadKeyRange)] == [readers] * beside
        one.finish(merge)
        one.commit()
        assert len(one.start()) == readers - beside

    def test_throws_away_what_it_cannot_commit(self) -> None:
        """A chunk of the old version that is staged behind a lost one: its rows may have changed since."""
        one = begun()
        one.round()
        lost, kept = one.start()
        one.finish(kept)
        one.lose(lost)
        one.change(*TEN[:3], (10,))

        one.commit()
        for work in one.start():
            one.finish(work)
        one.commit()
        one.run()

        assert sorted(one.target) == [0, 1, 2, 10]
        assert [version for low, _, version in one.chunks if low == (2,)] == [0, 1]

    def test_that_lost_its_merge_announces_it_again(self) -> None:
        """And keeps the chunks that were read for it, if it goes up to the same version."""
        one = begun()
        one.round()
        one.change(*TEN[1:])
        one.commit()
        merge, *ahead = one.start()
        one.lose(merge)

        assert one.start() == []
        one.commit()
        (again,) = one.start()
        for work in (again, *ahead):
            one.finish(work)
        one.commit()

        assert isinstance(merge, ApplyChanges)
        assert isinstance(again, ApplyChanges)
        assert again.txn_version > merge.txn_version
        assert sorted(one.target) == [1, 2]

    def test_goes_on_without_reading_in_a_pause(self) -> None:
        """R-ARR-34: what is read stays fresh."""
        one = begun()
        one.round()
        one.change(*TEN[1:])
        one.commit(history=False)
        (merge,) = one.start(history=False)
        one.finish(merge)
        one.commit(history=False)

        assert sorted(one.target) == [1]

    def test_goes_on_as_long_as_a_pause_lasts(self) -> None:
        """R-ARR-19, R-ARR-34: a round of which nothing could be read is followed by another one."""
        one = begun()
        one.round()
        for rows in (TEN[1:], [*TEN[1:], (10,)], TEN[2:]):
            one.change(*rows)
            one.commit(history=False)
            (merge,) = one.start(history=False)
            one.finish(merge)
            one.commit(history=False)

        assert sorted(one.target) == []

    def test_of_an_unreadable_version_is_ended(self) -> None:
        """A VACUUM may take files of a version that is not the newest any more: no old version is needed."""
        one = begun()
        one.round()
        first, second = one.start()
        one.change(*TEN)
        one.lose(first)
        one.lose(second)

        assert one.commit().announces

    def test_reads_no_lost_version_again_while_it_merges(self) -> None:
        """A MERGE takes longer than the retries: they would end the attempt for a version that is passed over anyway."""
        one = begun()
        one.round()
        one.change(*TEN)
        one.commit()
        merge, chunk = one.start()
        one.lose(chunk)
        assert one.start() == []

        one.change(*TEN)
        one.finish(merge)

        assert one.commit().announces
        one.run()
        assert sorted(one.target) == list(range(10))

    def test_of_a_source_that_cannot_be_read_at_all_is_not(self) -> None:
        """Else one MERGE after the other would hide that no chunk succeeds."""
        one = begun()
        announced = []
        one.round()
        for _ in range(12):
            one.change(*TEN)
            chunks = [work for work in one.start() if isinstance(work, ReadKeyRange)]
            for chunk in chunks:
                one.lose(chunk)
            announced.append(one.commit().announces)
            for work in [*one.running.values(), *one.start()]:
                if isinstance(work, ApplyChanges):
                    one.finish(work)
                else:
                    one.lose(work)
            one.commit()

        assert announced[0]
        assert not announced[-1]


class TestStagedChanges:
    """Append and Changelog: batches are staged like chunks, and take no MERGE of their own."""

    def test_wait_for_the_chunks_of_their_round(self) -> None:
        """Both are right in one order only."""
        one = begun(merges=False)
        chunks = one.start()
        one.change(*TEN, (10,))
        for chunk in chunks:
            one.finish(chunk)

        assert one.start() == []
        assert one.strategy.status.wants_commit
        one.commit()
        batch, *ahead = one.start()
        assert isinstance(batch, ApplyChanges)
        assert (batch.bound.positions, [one.version for one in ahead]) == (VnodePositions.of([UpTo((1,))]), [1])


class TestBeforeTheFirstRow:
    """Nothing is merged into an empty target."""

    def test_the_version_moves_on(self) -> None:
        """R-ARR-34: a job that starts paused needs nothing of the versions that come while it waits."""
        one = begun()
        for _ in range(3):
            one.change(*TEN)
            one.second()
            assert one.start(history=False) == []
            one.commit(history=False)

        assert one.strategy.status.position == 3
        assert [version for _, _, version in (one.start(), one.chunks)[1]] == [3, 3]


class TestAnEmptySource:
    """No row at all."""

    def test_completes_without_a_position(self) -> None:
        """R-ARR-30: one read finds the end."""
        one = ByHand([[]])
        one.run()

        assert one.stored.positions == VnodePositions.of([Completed()])
        assert (one.stored.rows_read, len(one.begun)) == (0, 1)


class TestOrders:
    """R-ARR-7: ASC, DESC, NULL largest, composite keys."""

    @pytest.mark.parametrize(
        ("directions", "expected"),
        [
            ((False, False), [(1, 1), (1, 2), (5, 3), (None, 4)]),
            ((True, False), [(None, 4), (5, 3), (1, 1), (1, 2)]),
            ((False, True), [(1, 2), (1, 1), (5, 3), (None, 4)]),
            ((True, True), [(None, 4), (5, 3), (1, 2), (1, 1)]),
        ],
    )
    def test_are_read_as_they_are(self, directions: tuple[bool, bool], expected: list[Values]) -> None:
        """One row a chunk, each commit held to the rows up to its position."""
        one = ByHand(
            [[(None, 4), (1, 2), (5, 3), (1, 1)]], key=Key((0, 1), directions), types=("long", "long"),
            cuts=expected[:-1], chunk_rows=1, in_flight_max=1,
        )  # fmt: skip
        one.run()

        assert list(one.target.values()) == expected


class TestALimit:
    """R-ARR-9, 35: rows of history, not of changes."""

    def test_takes_so_many_rows_a_second(self) -> None:
        """One read a second, cut off at the quota; the position is that of the last row."""
        one = ByHand([ids(*range(50))], cuts=ids(24), rows_per_cut=25)
        one.limit(7)
        read = []
        for _ in range(4):
            one.second()
            one.round()
            read.append(one.stored.rows_read)

        assert read == [7, 14, 21, 25]

    def test_of_zero_reads_nothing(self) -> None:
        """And goes on at the position when it is raised."""
        one = begun()
        one.round()
        one.limit(0)
        one.second()
        assert one.start() == []
        one.limit(None)

        assert isinstance(one.start()[0], ReadKeyRange)
        assert one.chunks[-2] == ((1,), (2,), 0)

    def test_of_zero_lets_changes_pass(self) -> None:
        """R-ARR-37: what is read stays fresh, commit after commit."""
        one = begun()
        one.round()
        one.limit(0)
        for rows in (TEN[1:], [*TEN[2:], (0,)]):
            one.change(*rows)
            one.second()
            one.commit()
            (merge,) = one.start()
            one.finish(merge)
            one.commit()
            assert sorted(one.target) == sorted(key for (key,) in rows if key < 2)

    def test_that_was_charged_too_much_gives_back(self) -> None:
        """Estimates of the source are not what there is."""
        one = ByHand([ids(1, 2, *range(10, 30))], cuts=ids(5), rows_per_cut=10, in_flight_max=1)
        one.limit(10)
        one.second()
        one.finish(one.start()[0])
        one.pass_barrier()

        (rest,) = one.start()

        assert isinstance(rest, ReadKeyRange)
        assert (rest.low, rest.rows_max) == ((5,), 8)
