"""Rows keep their place in the row index, whatever the order in which an attempt reads the files."""

from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.errors import StateMismatchError
from backfill_core.positions.done_files import FILES_MAX, DoneFiles, bounded, from_json, in_row_index
from backfill_core.positions.file_order import FileOrder, OrderWatermark
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
    """Draw files, an order or `None`, and completed intervals."""
    rows = draw(st.lists(st.integers(0, 9), min_size=1, max_size=12))
    order = draw(st.none() | st.permutations(range(len(rows))).map(order_of))
    spans = draw(st.lists(st.tuples(st.integers(0, sum(rows)), st.integers(0, sum(rows))), max_size=5))
    return rows, order, IntervalSet.of(spans)


def members(spans):
    return {row for start, stop in spans.spans for row in range(start, stop)}


class TestTheOrderOfReading:
    """No state depends on the reading order, so each attempt may use another one."""

    @given(readings())
    def test_the_reading_order_and_the_row_index_name_the_same_rows(self, reading):
        """A row that changes its place would be lost, and another row duplicated."""
        rows, order, done = reading
        reading_order = ReadingOrder(rows, order, done)

        assert reading_order.in_row_index(reading_order.in_order(done)) == done
        assert reading_order.in_order(done).size == done.size
        assert reading_order.offsets[-1] == sum(rows)

    @given(readings(), st.data())
    def test_an_interval_is_read_as_the_ranges_in_the_state(self, reading, data):
        """A work item reads ranges of files; the state afterwards records rows of the row index as done."""
        rows, order, done = reading
        reading_order = ReadingOrder(rows, order, done)
        start = data.draw(st.integers(0, sum(rows)))
        stop = data.draw(st.integers(start, sum(rows)))
        offsets = [0, *accumulate(rows)]
        read = [
            row
            for file_range in reading_order.ranges(start, stop)
            for row in range(offsets[file_range.file] + file_range.start, offsets[file_range.file] + file_range.stop)
        ]

        assert len(read) == len(set(read)) == stop - start
        assert set(read) == members(reading_order.in_row_index(IntervalSet.of([(start, stop)])))

    def test_without_an_order_the_row_index_is_used(self):
        """A job without an order must not pay for this feature."""
        reading_order, done = ReadingOrder([5, 5]), IntervalSet.of([(1, 3)])

        assert reading_order.same
        assert reading_order.in_row_index(done) is reading_order.in_order(done) is done
        assert reading_order.ranges(3, 7) == file_ranges([0, 5, 10], 3, 7)

    def test_the_reading_order_starts_with_completed_files(self):
        """A split has rows of one gap: a changed order must not leave a gap at every file."""
        rows, order = [10] * 200, order_of(Random(1).sample(range(200), 200))
        done = IntervalSet.of((10 * file, 10 * file + 10) for file in range(0, 200, 2))

        for requested in (order, None):
            reading_order = ReadingOrder(rows, requested, done)
            assert len(done) > GAPS_MAX
            assert reading_order.in_order(done).spans == ((0, 1000),)
        left = [file_range.file for file_range in ReadingOrder(rows, order, done).ranges(1000, 2000)]
        assert left == [file for file in order.files if file % 2]


class TestTheWatermark:
    """All rows before the watermark are in the target."""

    def test_the_watermark_is_the_mark_of_the_first_unfinished_file(self):
        """Files are sorted by their marks: no later file has earlier rows."""
        reading_order = ReadingOrder([10, 10, 10], order_of([2, 0, 1], ["30", "20", "10"]))

        assert reading_order.watermark(IntervalSet.of([(0, 15)])) == OrderWatermark("at", "Descending", "20")
        assert reading_order.watermark(IntervalSet.of([(0, 20), (25, 30)])) == OrderWatermark("at", "Descending", "10")

    def test_there_is_no_watermark_at_the_begin_and_at_the_end(self):
        """At the begin the target has no row, and at the end all rows."""
        reading_order = ReadingOrder([10, 10], order_of([1, 0], ["30", "20"]))

        assert reading_order.watermark(IntervalSet()) is None
        assert reading_order.watermark(IntervalSet.of([(0, 20)])) is None
        assert ReadingOrder([10]).watermark(IntervalSet()) is None

    def test_there_is_no_watermark_while_a_file_without_statistics_is_unread(self):
        """Such a file may have rows of any value."""
        order = order_of([2, 0, 1], ["30", "20", None])

        assert ReadingOrder([10, 10, 10], order).watermark(IntervalSet.of([(0, 10)])) is None
        assert ReadingOrder([10, 0, 10], order).watermark(IntervalSet.of([(0, 10)])) is not None

    def test_the_watermark_counts_files_of_another_order(self):
        """An attempt with another order read file 1."""
        order = order_of([2, 1, 0], ["30", "20", "10"])
        reading_order = ReadingOrder([10, 10, 10], order, IntervalSet.of([(10, 20)]))

        assert reading_order.watermark(reading_order.in_order(IntervalSet.of([(10, 30)]))) == OrderWatermark(
            "at", "Descending", "10"
        )


class TestTheSegmentsOfASplit:
    """A segment that was never committed is read again on its own."""

    @given(readings(), st.data())
    def test_segments_are_cut_from_the_ranges_of_a_split(self, reading, data):
        """Each row is in one segment, and each segment equals a separate read."""
        rows, order, _ = reading
        reading_order, total = ReadingOrder(rows, order), sum(rows)
        cuts = sorted(data.draw(st.sets(st.integers(1, max(1, total - 1)), max_size=4))) if total > 1 else []
        split = ReadSplit(1, reading_order.ranges(0, total), 0, total, 1, tuple(cuts))

        assert split.segment_ranges == tuple(reading_order.ranges(start, stop) for start, stop in split.segments)


class TestWhatIsStored:
    """A state has at most 64 KiB, for any number of files and any reading order."""

    @given(readings())
    def test_a_few_gaps_are_stored_as_intervals(self, reading):
        """States of earlier releases have this form."""
        rows, _, done = reading

        assert bounded(done, rows) is done
        assert from_json(done.to_json()) == done

    def test_many_gaps_are_stored_as_one_bit_per_file(self):
        """The case is half of the largest number of files, read at random, with one partial file."""
        rows, rng = [7] * FILES_MAX, Random(2)
        taken = rng.sample(range(1, FILES_MAX), FILES_MAX // 2)
        done = IntervalSet.of([(2, 5), *((7 * file, 7 * file + 7) for file in taken)])
        stored = bounded(done, rows)

        assert isinstance(stored, DoneFiles)
        assert len(str(stored.to_json())) < 48 * 1024
        assert in_row_index(from_json(stored.to_json()), rows) == done

    @pytest.mark.parametrize("value", [{}, {"files": 3}, {"files": "?"}, {"files": "AAAA", "parts": 1}, "x", None])
    def test_a_malformed_stored_form_is_refused(self, value):
        """A guess at a damaged state loses rows."""
        with pytest.raises(ValueError, match=r"."):
            from_json(value)

    def test_a_stored_form_of_other_files_is_refused(self):
        """Bits of another table would name the wrong files."""
        with pytest.raises(StateMismatchError, match="16 files"):
            in_row_index(DoneFiles(b"ab", IntervalSet()), [1] * 20)
