"""A table that grows after it was cut: every read has a bound other than the estimate."""

from __future__ import annotations

from support.arrangement.by_hand import ByHand, ids

from backfill_core.protocol.work import ReadKeyRange

TEN = ids(*range(10))


class TestAGrownTable:
    """Estimates belong to the version of the cuts, so reads of a newer version have an additional bound (fault M1)."""

    def test_a_grown_end_is_read_by_the_quota_of_a_limit(self) -> None:
        """R-ARR-9: rows behind the last cut arrived after the attempt had begun, during a pause of everything."""
        attempt = ByHand([TEN], cuts=ids(4), rows_per_cut=5)
        attempt.limit(5)
        attempt.second()
        attempt.round()
        attempt.change(*ids(*range(500)))
        for _ in range(60):
            attempt.second()
            attempt.round()

        assert max(attempt.reads) == 5
        assert 5 * 50 < attempt.stored.rows_read <= 5 * 61

    def test_a_grown_range_is_read_by_the_quota_of_a_limit(self) -> None:
        """R-ARR-9: the same bound holds for rows that arrived in a range with an end."""
        attempt = ByHand([[(0,), (1,), (100,), (200,)]], cuts=ids(1, 100), rows_per_cut=2, in_flight_max=1)
        attempt.limit(2)
        attempt.second()
        attempt.round()
        attempt.change(*ids(*range(201)))
        for _ in range(10):
            attempt.second()
            attempt.round()

        assert max(attempt.reads) == 2
        assert attempt.stored.rows_read <= 2 + 2 * 11

    def test_a_grown_table_is_read_in_the_users_chunks(self) -> None:
        """`chunkRows` bounds every read."""
        attempt = ByHand([TEN], cuts=ids(4), rows_per_cut=5, chunk_rows=5, in_flight_max=1)
        attempt.round()
        attempt.change(*ids(*range(500)))
        attempt.commit()
        _, chunk = attempt.start()

        assert isinstance(chunk, ReadKeyRange)
        assert (chunk.high, chunk.rows_max) == (None, 5)

    def test_a_grown_table_is_read_in_chunks_without_a_limit(self) -> None:
        """Otherwise a read of the grown end takes hours without a durable row."""
        attempt = ByHand([TEN], cuts=ids(4), rows_per_cut=300_000, in_flight_max=1)
        (first,) = attempt.start()
        attempt.finish(first)
        attempt.change(*ids(*range(500)))
        attempt.commit()
        (chunk,) = [work for work in attempt.start() if isinstance(work, ReadKeyRange)]

        assert isinstance(first, ReadKeyRange)
        assert (first.version, first.high, first.rows_max) == (0, (4,), None)
        assert (chunk.version, chunk.high, chunk.rows_max) == (1, None, 300_000)

    def test_an_unchanged_table_is_read_by_its_cuts(self) -> None:
        """A bound costs a separate Spark job."""
        attempt = ByHand([TEN], cuts=ids(4), rows_per_cut=5, chunk_rows=5)
        (chunk, last) = attempt.start()

        assert [work.rows_max for work in (chunk, last) if isinstance(work, ReadKeyRange)] == [None, None]

    def test_a_grown_table_is_cut_again(self) -> None:
        """Its rows are then read in parallel, and the number of remaining rows is known."""
        attempt = ByHand([TEN], cuts=ids(4), rows_per_cut=5, chunk_rows=5, in_flight_max=1)
        attempt.round()
        attempt.change(*ids(*range(500)))
        attempt.commit()
        before = attempt.strategy.view(attempt.now).rows_total
        for _ in range(4):
            attempt.round()
        chunks = [work for work in attempt.begun if isinstance(work, ReadKeyRange)]

        assert [(work.low, work.high, work.takes_cuts) for work in chunks[:4]] == [
            (None, (4,), False),
            ((4,), None, False),
            ((9,), None, False),
            ((14,), None, True),
        ]
        assert (before, attempt.strategy.view(attempt.now).rows_total) == (10, 500)
        assert [(work.low, work.high, work.takes_cuts) for work in chunks[4:]] == [((19,), (24,), False)]
