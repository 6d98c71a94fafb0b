"""Distributes the offsets of the next read among partitions, the largest backlog first."""

from __future__ import annotations

from collections.abc import Mapping

from backfill_core.positions.offsets import OffsetRange


def share(gaps: Mapping[str, tuple[int, int]], total: int, *, least: int) -> tuple[OffsetRange, ...]:
    """Return ranges at the start of gaps: at most `total` offsets, and at most one range for each partition.

    Partitions get equal shares, so that the largest one does not finish last. If there are too many partitions for one read, only
    those with the largest gaps get a share. A share has at least `least` offsets, unless fewer are left.
    """
    each = max(least, -(-total // max(1, len(gaps))))
    left, ranges = total, list[OffsetRange]()
    for name, (start, stop) in sorted(gaps.items(), key=lambda gap: (gap[1][0] - gap[1][1], gap[0])):
        taken = min(stop - start, each, left)
        if taken <= 0:
            break
        ranges.append(OffsetRange(name, start, start + taken))
        left -= taken
    return tuple(ranges)
