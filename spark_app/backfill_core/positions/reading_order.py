"""The order in which an attempt reads the files of a pinned version, and the position of each row of the row index in it.

Positions in a state refer to the row index, which is the same for every attempt. Positions in an attempt refer to its own order.
So each attempt may use a different order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from backfill_core.positions.file_order import FileOrder, OrderWatermark
from backfill_core.positions.file_ranges import FileRange, file_ranges
from backfill_core.positions.intervals import IntervalSet

T = TypeVar("T")

GAPS_MAX = 64
"""Most gaps in the done rows before done files count as read first: a split has rows of one gap only."""


class ReadingOrder:
    """Done files first, then those of the requested order. Without an order, and with few gaps, it is the row index itself."""

    def __init__(self, rows: Sequence[int], order: FileOrder | None = None, done: IntervalSet | None = None) -> None:
        """Take the rows of each file in path order, the requested order, and the done part of the row index."""
        done = done or IntervalSet()
        self._order = order
        self._row_offsets = [0, *accumulate(rows)]
        self._files = tuple(range(len(rows)))
        self._blind = False
        """True if the values of a file that must be read are unknown."""

        self.same = order is None and len(done) <= GAPS_MAX
        """True if the order is the row index."""

        if not self.same:
            whole = _whole_files(self._row_offsets, done)
            requested = self._files if order is None else order.files
            self._files = (*sorted(whole), *(file for file in requested if file not in whole))
        if order is not None:
            marks = dict(zip(order.files, order.marks, strict=True))
            self._blind = any(marks[file] is None and rows[file] and file not in whole for file in self._files)
            self._marks = [marks[file] for file in self._files]
        self.offsets = self._row_offsets if self.same else [0, *accumulate(rows[file] for file in self._files)]
        """First row of each file in the order of reading, then the number of all rows."""

        self._recent: dict[IntervalSet, IntervalSet] = {}

    def ranges(self, start: int, stop: int) -> tuple[FileRange, ...]:
        """Return the file ranges of an interval of the order; files without rows are left out."""
        ranges = file_ranges(self.offsets, start, stop)
        return ranges if self.same else tuple(replace(span, file=self._files[span.file]) for span in ranges)

    def by_place(self, values: Sequence[T]) -> Sequence[T]:
        """Return per-file values, given in path order, in the order of reading."""
        return values if self.same or not values else [values[file] for file in self._files]

    def in_row_index(self, spans: IntervalSet) -> IntervalSet:
        """Return intervals of the order as intervals of the row index; repeated calls for recent intervals are cached."""
        if self.same:
            return spans
        if spans not in self._recent:
            moved = _moved(spans, self.offsets, [self._row_offsets[file] for file in self._files])
            # Two entries suffice: the durable rows, and the rows prepared after them.
            self._recent = {**dict(list(self._recent.items())[-1:]), spans: moved}
        return self._recent[spans]

    def in_order(self, spans: IntervalSet) -> IntervalSet:
        """Return intervals of the row index as intervals of the order."""
        if self.same:
            return spans
        places = dict(zip(self._files, self.offsets, strict=False))
        return _moved(spans, self._row_offsets, [places[file] for file in range(len(self._files))])

    def watermark(self, done: IntervalSet) -> OrderWatermark | None:
        """Return the progress in the order for its done intervals; `None` at its start, or if it is unknown."""
        order, gap = self._order, done.first_gap(0, self.offsets[-1])
        if order is None or gap is None or self._blind:
            return None
        mark = self._marks[bisect_right(self.offsets, gap[0]) - 1]
        return None if mark is None or mark == order.marks[0] else OrderWatermark(order.column, order.direction, mark)


def _whole_files(offsets: Sequence[int], done: IntervalSet) -> frozenset[int]:
    """Return the files whose rows are all in a set of the row index."""
    return frozenset(
        file
        for start, stop in done.spans
        for file in range(bisect_left(offsets, start), bisect_right(offsets, stop) - 1)
    )


def _moved(spans: IntervalSet, offsets: Sequence[int], places: Sequence[int]) -> IntervalSet:
    """Move each row of a set with its file: file `n`, which begins at `offsets[n]`, to `places[n]`."""
    return IntervalSet.of(
        (places[span.file] + span.start, places[span.file] + span.stop)
        for start, stop in spans.spans
        for span in file_ranges(offsets, start, stop)
    )
