"""How large the next split is, and which files it is made of."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import linear_regression

GROWTH_MAX = 2.0
"""A split is at most twice, at least half as large as the one before: one odd measurement does no harm."""

LAST_PART = 3
"""The last splits have at least a third of the usual rows."""

MEMORY = 0.5
"""Weight of the newest measurement in the running mean."""

OVERHEAD_MAX = 3.0
"""So many times its start-up may a batch take: a third of the time at most does nothing for the lag."""

BATCHES_WATCHED = 16
"""A first MERGE on a cold JVM says little about the twentieth."""


@dataclass(frozen=True, slots=True)
class SplitSizer:
    """Grows or shrinks splits until one takes `target_s` seconds.

    Seconds, not fractions: with splits of 3-4 s the copy ran 1.3-1.4 times as fast as a plain Delta copy,
    with splits of under a second no faster than it.
    """

    target_s: float
    rows: int
    """Rows of the next split."""

    rows_min: int
    rows_max: int
    rate_rows_per_s: float | None = None

    def observe(self, rows: int, seconds: float) -> SplitSizer:
        """Learn how long a split took."""
        if rows <= 0 or seconds <= 0:
            return self
        newest = rows / seconds
        rate = newest if self.rate_rows_per_s is None else MEMORY * newest + (1 - MEMORY) * self.rate_rows_per_s
        wanted = min(max(rate * self.target_s, self.rows / GROWTH_MAX), self.rows * GROWTH_MAX)
        bounded = round(min(max(wanted, self.rows_min), self.rows_max))
        return replace(self, rows=bounded, rate_rows_per_s=rate)

    def doubles_after(self, seconds: float) -> bool:
        """Return whether a split that took so long is short enough that the next one has twice its rows, whatever was measured before."""
        return seconds < MEMORY * self.target_s / GROWTH_MAX

    @property
    def rows_per_split(self) -> int:
        """Rows the next split should have."""
        return self.rows


@dataclass(frozen=True, slots=True)
class BatchSizer:
    """Grows or shrinks batches of changes until one takes `target_s` seconds, or is mostly work and not start-up.

    A MERGE has a cost of its own, on a busy cluster more seconds than the target. Who shrinks batches of which half
    takes as long as the whole is left with one version a batch, and never catches up. So the cost of a batch is told
    from that of a version by a line through the newest batches, and a batch may take three times the former.
    """

    target_s: float
    versions: int
    """Versions of the next batch."""

    versions_max: int
    lately: tuple[tuple[int, float], ...] = ()
    """Versions and seconds of the newest batches."""

    def observe(self, took: int, seconds: float) -> BatchSizer:
        """Learn how long a batch of so many versions took."""
        lately = (*self.lately, (took, seconds))[-BATCHES_WATCHED:]
        limit = max(self.target_s, OVERHEAD_MAX * _overhead(lately))
        factor = min(max(limit / max(seconds, 1e-3), 1 / GROWTH_MAX), GROWTH_MAX)
        # The last batch of a lag is a small one, and says nothing against larger ones.
        versions = self.versions if factor > 1 and took < self.versions else ceil(took * factor)
        return replace(self, versions=min(max(versions, 1), self.versions_max), lately=lately)

    @property
    def version_s(self) -> float | None:
        """Return the seconds that a version took in the newest batches; None before the first, which counts until there is another."""
        warm = self.lately[1:] or self.lately
        versions = sum(took for took, _ in warm)
        return sum(seconds for _, seconds in warm) / versions if versions else None


def _overhead(lately: Sequence[tuple[int, float]]) -> float:
    """Return the seconds that a batch takes whatever its size: where the line of least squares has none, within what was seen.

    Batches of one size do not tell. Half is assumed of them, so that the next is half again as large and tells; else a job
    whose first batch happens to take the target would keep that size for ever.
    """
    shortest = min(seconds for _, seconds in lately)
    sizes = [size for size, _ in lately]
    if min(sizes) == max(sizes):
        return shortest if sizes[0] == 1 else shortest / 2
    line = linear_regression(sizes, [seconds for _, seconds in lately])
    return min(max(line.intercept, 0.0), shortest)


def tapered(usual: int, left: int, *, slots: int) -> int:
    """Return the rows of the next split: fewer towards the end, so that all slots end together.

    Never less than a part of the usual ones: a split has a cost of its own (a Spark job, 0.2 s), and a long tail of
    small ones costs more than it saves.

    Args:
        usual: Rows of a split in the middle of the copy.
        left: Rows that no split has taken, at least 1.
        slots: Splits in flight.
    """
    return min(usual, max(-(-left // (2 * slots)), usual // LAST_PART))


def leaves_more(prefix: Sequence[int], gap: tuple[int, int], rows: int) -> bool:
    """Return whether a split of so many rows from the start of a gap leaves at least as many rows of its first file."""
    start, end = gap
    return min(end, prefix[min(bisect_right(prefix, start), len(prefix) - 1)]) - start >= 2 * rows


def split_span(prefix: Sequence[int], gap: tuple[int, int], rows_wanted: int, *, exact: bool) -> tuple[int, int] | None:
    """Take the next split from the start of a gap.

    Args:
        prefix: First row of each file, then the number of all rows.
        gap: Missing interval of the row index.
        rows_wanted: How many rows it should have, at least 1.
        exact: End inside files to have just so many rows (a rate limit); else only whole files, as many as
            come nearest to it, but at least the rest of the first one.

    Returns:
        `[start, stop)` with `start == gap[0]` and `stop <= gap[1]`; None for an empty gap.
    """
    start, end = gap
    if start >= end:
        return None
    stop = min(end, start + max(1, rows_wanted))
    if exact:
        return start, stop
    behind = bisect_right(prefix, stop)
    below, above = prefix[behind - 1], min(end, prefix[min(behind, len(prefix) - 1)])
    # Not always the one below: of files a little larger than half a split, each split would have one instead of two.
    return start, above if below <= start or above - stop < stop - below else below
