"""Which files of the pinned version an interval of its row index is made of."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from backfill_core.protocol.work import FileRange


def file_ranges(prefix: Sequence[int], start: int, stop: int) -> tuple[FileRange, ...]:
    """Return the file ranges that an interval of the row index is made of; files without rows are left out."""
    found: list[FileRange] = []
    file = bisect_right(prefix, start) - 1
    last = bisect_left(prefix, stop)
    for index in range(file, last):
        low, high = prefix[index], prefix[index + 1]
        first, behind = max(start, low), min(stop, high)
        if first < behind:
            found.append(FileRange(index, first - low, behind - low, high - low))
    return tuple(found)
