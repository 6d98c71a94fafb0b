"""Files of the pinned version that an interval of its row index covers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileRange:
    """Rows `[start, stop)` of a source file with `of` rows; the whole file if they are 0 and `of`.

    A part of a file is selected by hash residue (`pmod(xxhash64(all columns), of)` in `[start, stop)`),
    so it has `stop - start` rows on average. Whole files are exact.
    """

    file: int
    """Index of the file in the path order of the pinned version."""

    start: int
    stop: int
    of: int

    @property
    def whole(self) -> bool:
        """True if it covers its file."""
        return self.start == 0 and self.stop == self.of


def file_ranges(prefix: Sequence[int], start: int, stop: int) -> tuple[FileRange, ...]:
    """Return the file ranges of an interval of the row index; files without rows are left out."""
    ranges: list[FileRange] = []
    file = bisect_right(prefix, start) - 1
    last = bisect_left(prefix, stop)
    for index in range(file, last):
        low, high = prefix[index], prefix[index + 1]
        first, behind = max(start, low), min(stop, high)
        if first < behind:
            ranges.append(FileRange(index, first - low, behind - low, high - low))
    return tuple(ranges)
