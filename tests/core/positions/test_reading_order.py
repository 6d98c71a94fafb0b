"""Rows keep their place in the row index, whatever the order in which an attempt reads the files."""

from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.errors import StateMismatchError
from backfill_core.positions.done_files import FILES_MAX, DoneFiles, bounded, from_json, in_row_index
from backfill_core.positions.file_order import FileOrder, Watermark
from backfill_core.positions.file_ranges import file_ranges
from backfill_core.positions.intervals import IntervalSet
from backfill_core.positions.reading_order import GAPS_MAX, ReadingOrder
from backfill_core.protocol.work import ReadSplit


def order_of(files, marks=None):
    return FileOrder(
        "at", "Descending", tuple(files), tuple(marks or (str(1000 - place) for place in range(len(files))))
    )


@st.composite
def readings(draw):
    """Files, an order of them or none, and what is done."""
    rows = draw(st.lists(st.integers(0, 9), min_size=1, max_size=12))
    order = draw(st.none() | st.permutations(range(len(rows))).map(order_of))
    spans = draw(st.lists(st.tuples(st.integers(0, sum(rows)), st.integers(0, sum(rows))), max_size=5))
    return rows, order, IntervalSet.of(spans)


def members(spans):
    return {row for start, stop in spans.spans for row in range(start, stop)}


class TestTheOrderOfReading:
    """Nothing of a state depends on it, so it may be another one in each attempt."""

    @given(readings())
    def test_and_the_row_index_tell_the_same_rows(self, reading):
        """A row that changes its place on the way would be lost, and another one doubled."""
        rows, order, done = reading
        found = ReadingOrder(rows, order, done)

        assert found.in_row_index(found.in_order(done)) == done
        assert found.in_order(done).size == done.size
        assert found.offsets[-1] == sum(rows)

    @given(readings(), st.data())
    def test_an_interval_of_it_is_read_as_the_ranges_that_a_state_names(self, reading, data):
        """A work reads ranges of files; the state says afterwards that rows of the row index are done."""
        rows, order, done = reading
        found = ReadingOrder(rows, order, done)
        start = data.draw(st.integers(0, sum(rows)))
        stop = data.draw(st.integers(start, sum(rows)))
        offsets = [0, *accumulate(rows)]
        read = [
            row
            for one in found.ranges(start, stop)
            for row in range(offsets[one.file] + one.start, offsets[one.file] + one.stop)
        ]

        assert len(read) == len(set(read)) == stop - start
        assert set(read) == members(found.in_row_index(IntervalSet.of([(start, stop)])))

    def test_without_one_is_the_row_index(self):
        """What costs nothing today must cost nothing tomorrow."""
        found, done = ReadingOrder([5, 5]), IntervalSet.of([(1, 3)])

        assert found.same
        assert found.in_row_index(done) is found.in_order(done) is done
        assert found.ranges(3, 7) == file_ranges([0, 5, 10], 3, 7)

    def test_puts_files_first_that_are_done(self):
        """A split has rows of one gap: an order that is changed in the middle must not leave a gap at every file."""
        rows, order = [10] * 200, order_of(Random(1).sample(range(200), 200))
        done = IntervalSet.of((10 * file, 10 * file + 10) for file in range(0, 200, 2))

        for wanted in (order, None):
            found = ReadingOrder(rows, wanted, done)
            assert len(done) > GAPS_MAX
            assert found.in_order(done).spans == ((0, 1000),)
        left = [one.file for one in ReadingOrder(rows, order, done).ranges(1000, 2000)]
        assert left == [file for file in order.files if file % 2]


class TestTheWatermark:
    """Everything that comes before it is there."""

    def test_is_the_mark_of_the_first_file_that_is_not_done(self):
        """Files are sorted by it: no later one has rows that come before."""
        found = ReadingOrder([10, 10, 10], order_of([2, 0, 1], ["30", "20", "10"]))

        assert found.watermark(IntervalSet.of([(0, 15)])) == Watermark("at", "Descending", "20")
        assert found.watermark(IntervalSet.of([(0, 20), (25, 30)])) == Watermark("at", "Descending", "10")

    def test_is_not_told_where_it_says_nothing(self):
        """At the begin nothing is there, at the end everything."""
        found = ReadingOrder([10, 10], order_of([1, 0], ["30", "20"]))

        assert found.watermark(IntervalSet()) is None
        assert found.watermark(IntervalSet.of([(0, 20)])) is None
        assert ReadingOrder([10]).watermark(IntervalSet()) is None

    def test_is_not_told_while_a_file_without_statistics_is_to_be_read(self):
        """It may have rows of any value."""
        order = order_of([2, 0, 1], ["30", "20", None])

        assert ReadingOrder([10, 10, 10], order).watermark(IntervalSet.of([(0, 10)])) is None
        assert ReadingOrder([10, 0, 10], order).watermark(IntervalSet.of([(0, 10)])) is not None

    def test_counts_what_another_order_did(self):
        """File 1 was read by an attempt with another order."""
        order = order_of([2, 1, 0], ["30", "20", "10"])
        found = ReadingOrder([10, 10, 10], order, IntervalSet.of([(10, 20)]))

        assert found.watermark(found.in_order(IntervalSet.of([(10, 30)]))) == Watermark("at", "Descending", "10")


class TestTheSegmentsOfASplit:
    """A segment that was never committed is read again alone."""

    @given(readings(), st.data())
    def test_are_cut_from_its_ranges(self, reading, data):
        """Each row in one segment, and each segment as it would be read alone."""
        rows, order, _ = reading
        found, total = ReadingOrder(rows, order), sum(rows)
        cuts = sorted(data.draw(st.sets(st.integers(1, max(1, total - 1)), max_size=4))) if total > 1 else []
        split = ReadSplit(1, found.ranges(0, total), 0, total, 1, tuple(cuts))

        assert split.segment_ranges == tuple(found.ranges(start, stop) for start, stop in split.segments)


class TestWhatIsStored:
    """A state has 64 KiB, however many files there are and in whatever order they are read."""

    @given(readings())
    def test_few_gaps_are_intervals_as_before(self, reading):
        """States of earlier releases are such."""
        rows, _, done = reading

        assert bounded(done, rows) is done
        assert from_json(done.to_json()) == done

    def test_many_gaps_are_a_bit_a_file(self):
        """The half of the largest number of files, read at random, and one file in part."""
        rows, rng = [7] * FILES_MAX, Random(2)
        taken = rng.sample(range(1, FILES_MAX), FILES_MAX // 2)
        done = IntervalSet.of([(2, 5), *((7 * file, 7 * file + 7) for file in taken)])
        found = bounded(done, rows)

        assert isinstance(found, DoneFiles)
        assert len(str(found.to_json())) < 48 * 1024
        assert in_row_index(from_json(found.to_json()), rows) == done

    @pytest.mark.parametrize("value", [{}, {"files": 3}, {"files": "?"}, {"files": "AAAA", "parts": 1}, "x", None])
    def test_anything_else_is_refused(self, value):
        """A state that is guessed at loses rows."""
        with pytest.raises(ValueError, match=r"."):
            from_json(value)

    def test_of_other_files_is_refused(self):
        """Bits of another table would name the wrong files."""
        with pytest.raises(StateMismatchError, match="16 files"):
            in_row_index(DoneFiles(b"ab", IntervalSet()), [1] * 20)
