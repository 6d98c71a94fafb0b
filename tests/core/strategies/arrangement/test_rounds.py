"""Rounds of reading and merging: what starts, what is committed, what is discarded, and how a new attempt resumes."""

from __future__ import annotations

import pytest
from support.arrangement.by_hand import ByHand, begun, ids
from support.reference.arrangement import Key, Values

from backfill_core.positions.vnode_positions import Completed, UpTo, VnodePositions
from backfill_core.protocol.work import ApplyChanges, ReadKeyRange

TEN, CUTS = ids(*range(10)), ids(*range(9))


class TestChunks:
    """Several chunks at one version are committed as a prefix."""

    def test_chunks_are_committed_from_the_front(self) -> None:
        """R-ARR-7, 28: the second chunk is staged and waits for the first; otherwise rows between them would be
        missing."""
        attempt = begun()
        first, second = attempt.start()
        attempt.finish(second)

        assert attempt.commit().files == ()
        attempt.finish(first)
        assert [file.rows for file in attempt.commit().files] == [1, 1]
        assert attempt.stored.positions == VnodePositions.of([UpTo((1,))])

    def test_a_lost_chunk_is_read_again_in_its_place(self) -> None:
        """R-ARR-38: the chunk behind it is kept."""
        attempt = begun()
        first, second = attempt.start()
        attempt.finish(second)
        attempt.lose(first)

        (again, *_) = attempt.start()
        assert isinstance(again, ReadKeyRange)
        assert (again.low, again.high) == (None, (0,))
        attempt.finish(again)
        assert len(attempt.commit().files) == 2

    def test_the_number_of_chunks_is_bounded(self) -> None:
        """At most `maxInFlight` chunks are read at a time, and a bounded number is staged behind a slow one."""
        attempt = ByHand([ids(*range(200))], cuts=ids(*range(199)), chunk_rows=1)
        slow, *_ = attempt.start()
        for _ in range(300):
            for work in [work for work in attempt.running.values() if work is not slow]:
                attempt.finish(work)
            attempt.start()
            assert len(attempt.running) <= 2

        assert len(attempt.begun) == 64

    def test_chunks_of_several_cells_have_the_requested_rows(self) -> None:
        """A chunk is cut at the end of a file in the source."""
        attempt = ByHand([TEN], cuts=CUTS, chunk_rows=4, in_flight_max=1)

        (chunk,) = attempt.start()

        assert (chunk.high, chunk.rows_max) == ((3,), None)

    @pytest.mark.parametrize(("bound", "high"), [({}, (1,)), ({"chunk_rows": 300_000}, (0,))])
    def test_chunks_have_the_cells_that_come_nearest_to_the_requested_rows(
        self, bound: dict[str, int], high: Values
    ) -> None:
        """Files a little larger than half a chunk are read in pairs; a chunk never exceeds the user's bound."""
        attempt = ByHand([TEN], cuts=CUTS, rows_per_cut=160_000, in_flight_max=1, **bound)

        (chunk,) = attempt.start()

        assert (chunk.high, chunk.rows_max) == (high, None)

    def test_chunks_have_a_row_limit_where_cells_are_too_large(self) -> None:
        """R-ARR-9: the rest is the next chunk, and nothing behind it starts meanwhile."""
        attempt = ByHand([TEN], cuts=ids(4), rows_per_cut=5, chunk_rows=2)

        (chunk,) = attempt.start()
        attempt.finish(chunk)
        attempt.commit()
        (rest,) = attempt.start()

        assert isinstance(chunk, ReadKeyRange)
        assert isinstance(rest, ReadKeyRange)
        assert (chunk.rows_max, chunk.high) == (2, (4,))
        assert (rest.low, rest.high, rest.rows_max) == ((1,), (4,), 2)


class TestARound:
    """A round reads, then merges, then reads."""

    def test_a_round_without_changes_only_reads(self) -> None:
        """A quiet source costs no MERGE."""
        attempt = begun()
        attempt.run()

        assert not any(isinstance(work, ApplyChanges) for work in attempt.begun)
        assert attempt.stored.positions == VnodePositions.of([Completed()])

    def test_a_round_ends_once_a_chunk_is_staged(self) -> None:
        """R-ARR-18: no further chunk of the old version starts, and the job waits for running ones."""
        attempt = begun()
        first, second = attempt.start()
        attempt.finish(first)
        attempt.change(*TEN, (10,))

        assert attempt.start() == []
        assert not attempt.strategy.status.wants_announcement
        attempt.finish(second)
        assert attempt.strategy.status.wants_announcement
        assert attempt.commit().announces
        assert attempt.stored.merging is not None
        assert (attempt.stored.consumed, attempt.stored.merging.upto) == (0, 1)

    def test_a_round_continues_to_read_while_it_merges(self) -> None:
        """Chunks of the batch's last version are committed with the end of the batch, not before."""
        attempt = begun()
        attempt.round()
        attempt.change(*TEN[1:], (10,))
        attempt.commit()
        merge, *ahead = attempt.start()
        attempt.finish(ahead[0])
        ahead += attempt.start()
        assert [chunk.version for chunk in ahead if isinstance(chunk, ReadKeyRange)] == [1, 1]
        attempt.finish(ahead[1])

        assert attempt.strategy.status.blocks_commit
        attempt.finish(merge)
        assert attempt.strategy.status.wants_commit
        attempt.commit()

        assert (attempt.stored.consumed, attempt.stored.positions) == (1, VnodePositions.of([UpTo((3,))]))
        assert sorted(attempt.target) == [1, 2, 3]

    @pytest.mark.parametrize(("readers", "concurrent"), [(1, 1), (2, 1), (3, 2), (5, 3)])
    def test_a_round_leaves_half_of_its_readers_to_a_merge(self, readers: int, concurrent: int) -> None:
        """A MERGE has many small Spark jobs, and they do not share a core with a range that is being read."""
        attempt = begun(in_flight_max=readers)
        attempt.round()
        attempt.change(*TEN[1:], (10,))
        attempt.commit()
        merge, *ahead = attempt.start()
        assert [chunk.readers for chunk in ahead if isinstance(chunk, ReadKeyRange)] == [readers] * concurrent
        attempt.finish(merge)
        attempt.commit()
        assert len(attempt.start()) == readers - concurrent

    def test_a_round_discards_a_chunk_that_it_cannot_commit(self) -> None:
        """A chunk of the old version is staged behind a lost one: its rows may have changed since."""
        attempt = begun()
        attempt.round()
        lost, kept = attempt.start()
        attempt.finish(kept)
        attempt.lose(lost)
        attempt.change(*TEN[:3], (10,))

        attempt.commit()
        for work in attempt.start():
            attempt.finish(work)
        attempt.commit()
        attempt.run()

        assert sorted(attempt.target) == [0, 1, 2, 10]
        assert [version for low, _, version in attempt.chunks if low == (2,)] == [0, 1]

    def test_a_round_that_lost_its_merge_announces_it_again(self) -> None:
        """It keeps the chunks that were read for the MERGE, if it goes up to the same version."""
        attempt = begun()
        attempt.round()
        attempt.change(*TEN[1:])
        attempt.commit()
        merge, *ahead = attempt.start()
        attempt.lose(merge)

        assert attempt.start() == []
        attempt.commit()
        (again,) = attempt.start()
        for work in (again, *ahead):
            attempt.finish(work)
        attempt.commit()

        assert isinstance(merge, ApplyChanges)
        assert isinstance(again, ApplyChanges)
        assert again.txn_version > merge.txn_version
        assert sorted(attempt.target) == [1, 2]

    def test_a_round_continues_without_reading_in_a_pause(self) -> None:
        """R-ARR-34: rows that were read stay current."""
        attempt = begun()
        attempt.round()
        attempt.change(*TEN[1:])
        attempt.commit(history=False)
        (merge,) = attempt.start(history=False)
        attempt.finish(merge)
        attempt.commit(history=False)

        assert sorted(attempt.target) == [1]

    def test_rounds_continue_for_the_whole_pause(self) -> None:
        """R-ARR-19, R-ARR-34: a round without a read is followed by another round."""
        attempt = begun()
        attempt.round()
        for rows in (TEN[1:], [*TEN[1:], (10,)], TEN[2:]):
            attempt.change(*rows)
            attempt.commit(history=False)
            (merge,) = attempt.start(history=False)
            attempt.finish(merge)
            attempt.commit(history=False)

        assert sorted(attempt.target) == []

    def test_a_round_of_an_unreadable_version_ends(self) -> None:
        """A VACUUM may remove files of a version that is not the newest: no old version is needed."""
        attempt = begun()
        attempt.round()
        first, second = attempt.start()
        attempt.change(*TEN)
        attempt.lose(first)
        attempt.lose(second)

        assert attempt.commit().announces

    def test_a_round_does_not_reread_a_lost_version_while_it_merges(self) -> None:
        """A MERGE takes longer than the retries: they would end the attempt for a version that is skipped anyway."""
        attempt = begun()
        attempt.round()
        attempt.change(*TEN)
        attempt.commit()
        merge, chunk = attempt.start()
        attempt.lose(chunk)
        assert attempt.start() == []

        attempt.change(*TEN)
        attempt.finish(merge)

        assert attempt.commit().announces
        attempt.run()
        assert sorted(attempt.target) == list(range(10))

    def test_rounds_of_an_unreadable_source_do_not_merge_forever(self) -> None:
        """Otherwise one MERGE after the other would hide that no chunk succeeds."""
        attempt = begun()
        announced = []
        attempt.round()
        for _ in range(12):
            attempt.change(*TEN)
            chunks = [work for work in attempt.start() if isinstance(work, ReadKeyRange)]
            for chunk in chunks:
                attempt.lose(chunk)
            announced.append(attempt.commit().announces)
            for work in [*attempt.running.values(), *attempt.start()]:
                if isinstance(work, ApplyChanges):
                    attempt.finish(work)
                else:
                    attempt.lose(work)
            attempt.commit()

        assert announced[0]
        assert not announced[-1]


class TestStagedChanges:
    """The modes Append and Changelog stage batches like chunks and need no separate MERGE."""

    def test_staged_changes_wait_for_the_chunks_of_their_round(self) -> None:
        """Only one order of both is correct."""
        attempt = begun(merges=False)
        chunks = attempt.start()
        attempt.change(*TEN, (10,))
        for chunk in chunks:
            attempt.finish(chunk)

        assert attempt.start() == []
        assert attempt.strategy.status.wants_commit
        attempt.commit()
        batch, *ahead = attempt.start()
        assert isinstance(batch, ApplyChanges)
        assert (batch.bound.positions, [chunk.version for chunk in ahead]) == (VnodePositions.of([UpTo((1,))]), [1])


class TestBeforeTheFirstRow:
    """Nothing is merged into an empty target."""

    def test_the_version_advances_before_the_first_row(self) -> None:
        """R-ARR-34: a job that starts paused needs no version that arrives while it waits."""
        attempt = begun()
        for _ in range(3):
            attempt.change(*TEN)
            attempt.second()
            assert attempt.start(history=False) == []
            attempt.commit(history=False)

        assert attempt.strategy.status.position == 3
        assert [version for _, _, version in (attempt.start(), attempt.chunks)[1]] == [3, 3]


class TestAnEmptySource:
    """An empty source has no row."""

    def test_an_empty_source_completes_without_a_position(self) -> None:
        """R-ARR-30: one read finds the end."""
        attempt = ByHand([[]])
        attempt.run()

        assert attempt.stored.positions == VnodePositions.of([Completed()])
        assert (attempt.stored.rows_read, len(attempt.begun)) == (0, 1)


class TestOrders:
    """R-ARR-7: the order may have ASC, DESC and several columns, and NULL is the largest value."""

    @pytest.mark.parametrize(
        ("directions", "expected"),
        [
            ((False, False), [(1, 1), (1, 2), (5, 3), (None, 4)]),
            ((True, False), [(None, 4), (5, 3), (1, 1), (1, 2)]),
            ((False, True), [(1, 2), (1, 1), (5, 3), (None, 4)]),
            ((True, True), [(None, 4), (5, 3), (1, 2), (1, 1)]),
        ],
    )
    def test_rows_are_read_in_the_order_of_the_key(self, directions: tuple[bool, bool], expected: list[Values]) -> None:
        """Each chunk has one row, and each commit is checked against the rows up to its position."""
        attempt = ByHand(
            [[(None, 4), (1, 2), (5, 3), (1, 1)]], key=Key((0, 1), directions), types=("long", "long"),
            cuts=expected[:-1], chunk_rows=1, in_flight_max=1,
        )  # fmt: skip
        attempt.run()

        assert list(attempt.target.values()) == expected


class TestALimit:
    """R-ARR-9, 35: a limit holds for rows of history, not for changes."""

    def test_a_limit_admits_its_rows_each_second(self) -> None:
        """Each second has one read that ends at the quota; the position is that of the last row."""
        attempt = ByHand([ids(*range(50))], cuts=ids(24), rows_per_cut=25)
        attempt.limit(7)
        read = []
        for _ in range(4):
            attempt.second()
            attempt.round()
            read.append(attempt.stored.rows_read)

        assert read == [7, 14, 21, 25]

    def test_a_limit_of_zero_reads_no_rows(self) -> None:
        """A raised limit continues at the position."""
        attempt = begun()
        attempt.round()
        attempt.limit(0)
        attempt.second()
        assert attempt.start() == []
        attempt.limit(None)

        assert isinstance(attempt.start()[0], ReadKeyRange)
        assert attempt.chunks[-2] == ((1,), (2,), 0)

    def test_a_limit_of_zero_lets_changes_pass(self) -> None:
        """R-ARR-37: rows that were read stay current, commit after commit."""
        attempt = begun()
        attempt.round()
        attempt.limit(0)
        for rows in (TEN[1:], [*TEN[2:], (0,)]):
            attempt.change(*rows)
            attempt.second()
            attempt.commit()
            (merge,) = attempt.start()
            attempt.finish(merge)
            attempt.commit()
            assert sorted(attempt.target) == sorted(key for (key,) in rows if key < 2)

    def test_a_limit_refunds_an_overcharge(self) -> None:
        """Estimates of the source may be wrong."""
        attempt = ByHand([ids(1, 2, *range(10, 30))], cuts=ids(5), rows_per_cut=10, in_flight_max=1)
        attempt.limit(10)
        attempt.second()
        attempt.finish(attempt.start()[0])
        attempt.pass_barrier()

        (rest,) = attempt.start()

        assert isinstance(rest, ReadKeyRange)
        assert (rest.low, rest.rows_max) == ((5,), 8)
