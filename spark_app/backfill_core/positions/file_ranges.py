"""Files of the pinned version that an interval of its row index covers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from backfill_core.protocol.work import FileRange


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
