"""A table that grows behind the backs of its cuts: every read of it is bounded by more than an estimate."""

from __future__ import annotations

from support.arrangement.by_hand import ByHand, ids

from backfill_core.protocol.work import ReadKeyRange

TEN = ids(*range(10))


class TestAGrownTable:
    """Estimates are of the version of the cuts: reads of a newer one are bounded by more than an estimate (fault M1)."""

    def test_is_read_by_the_quota_of_a_limit_at_its_end(self) -> None:
        """R-ARR-9: rows behind the last cut came after the attempt had begun, while all was paused."""
        one = ByHand([TEN], cuts=ids(4), rows_per_cut=5)
        one.limit(5)
        one.second()
        one.round()
        one.change(*ids(*range(500)))
        for _ in range(60):
            one.second()
            one.round()

        assert max(one.reads) == 5
        assert 5 * 50 < one.stored.rows_read <= 5 * 61

    def test_is_read_by_the_quota_of_a_limit_between_two_cuts(self) -> None:
        """R-ARR-9: rows that came into a range with an end are as many as those at the end."""
        one = ByHand([[(0,), (1,), (100,), (200,)]], cuts=ids(1, 100), rows_per_cut=2, in_flight_max=1)
        one.limit(2)
        one.second()
        one.round()
        one.change(*ids(*range(201)))
        for _ in range(10):
            one.second()
            one.round()

        assert max(one.reads) == 2
        assert one.stored.rows_read <= 2 + 2 * 11

    def test_is_read_in_chunks_of_the_user(self) -> None:
        """`chunkRows` is a promise about every read."""
        one = ByHand([TEN], cuts=ids(4), rows_per_cut=5, chunk_rows=5, in_flight_max=1)
        one.round()
        one.change(*ids(*range(500)))
        one.commit()
        _, chunk = one.start()

        assert isinstance(chunk, ReadKeyRange)
        assert (chunk.high, chunk.rows_max) == (None, 5)

    def test_is_read_in_chunks_without_a_limit(self) -> None:
        """Else a read of the grown end takes hours without a durable row."""
        one = ByHand([TEN], cuts=ids(4), rows_per_cut=300_000, in_flight_max=1)
        (first,) = one.start()
        one.finish(first)
        one.change(*ids(*range(500)))
        one.commit()
        (chunk,) = [work for work in one.start() if isinstance(work, ReadKeyRange)]

        assert isinstance(first, ReadKeyRange)
        assert (first.version, first.high, first.rows_max) == (0, (4,), None)
        assert (chunk.version, chunk.high, chunk.rows_max) == (1, None, 300_000)

    def test_that_did_not_grow_is_read_as_its_cuts_say(self) -> None:
        """A bound costs a Spark job of its own."""
        one = ByHand([TEN], cuts=ids(4), rows_per_cut=5, chunk_rows=5)
        (chunk, last) = one.start()

        assert [work.rows_max for work in (chunk, last) if isinstance(work, ReadKeyRange)] == [None, None]

    def test_is_cut_again(self) -> None:
        """So that its rows are read side by side, and what is left of it is known."""
        one = ByHand([TEN], cuts=ids(4), rows_per_cut=5, chunk_rows=5, in_flight_max=1)
        one.round()
        one.change(*ids(*range(500)))
        one.commit()
        before = one.strategy.view(one.now).rows_total
        for _ in range(4):
            one.round()
        chunks = [work for work in one.begun if isinstance(work, ReadKeyRange)]

        assert [(work.low, work.high, work.takes_cuts) for work in chunks[:4]] == [
            (None, (4,), False),
            ((4,), None, False),
            ((9,), None, False),
            ((14,), None, True),
        ]
        assert (before, one.strategy.view(one.now).rows_total) == (10, 500)
        assert [(work.low, work.high, work.takes_cuts) for work in chunks[4:]] == [((19,), (24,), False)]
