"""Which offsets of which partitions are read next: as many as are wanted, the largest rest first."""

from __future__ import annotations

from collections.abc import Mapping

from backfill_core.positions.offsets import OffsetRange


def share(gaps: Mapping[str, tuple[int, int]], wanted: int, *, least: int) -> tuple[OffsetRange, ...]:
    """Return ranges from the start of some gaps, `wanted` offsets in all at most, and one of each partition at most.

    Partitions have equal shares, so that the largest one does not come last; where they are many, those with the largest
    rest have all of it now. A share is `least` offsets, unless fewer are left.
    """
    each = max(least, -(-wanted // max(1, len(gaps))))
    left, ranges = wanted, list[OffsetRange]()
    for name, (start, stop) in sorted(gaps.items(), key=lambda one: (one[1][0] - one[1][1], one[0])):
        taken = min(stop - start, each, left)
        if taken <= 0:
            break
        ranges.append(OffsetRange(name, start, start + taken))
        left -= taken
    return tuple(ranges)
