"""Sizes of the next split and batch, and the files of a split."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import linear_regression

GROWTH_MAX = 2.0
"""Most growth or shrinkage from one split to the next, so that one outlier does no harm."""

LAST_PART = 3
"""Divisor for the last splits: they have at least a third of the usual rows."""

MEMORY = 0.5
"""Weight of the newest measurement in the running mean."""

OVERHEAD_MAX = 3.0
"""A batch may take this multiple of its start-up time. Then start-up, which does not reduce the lag, takes at most a third of it."""

BATCHES_WATCHED = 16
"""Number of recent batches in the estimate: a first MERGE on a cold JVM does not predict the twentieth."""


@dataclass(frozen=True, slots=True)
class SplitSizer:
    """Grows or shrinks splits until one takes `target_s` seconds.

    The target is seconds, not fractions of one. With splits of 3-4 s the copy ran 1.3-1.4 times as fast as a plain Delta copy.
    With splits below a second it was no faster.
    """

    target_s: float
    rows: int
    """Rows of the next split."""

    rows_min: int
    rows_max: int
    rate_rows_per_s: float | None = None

    def observe(self, rows: int, seconds: float) -> SplitSizer:
        """Return the sizer after a measured split."""
        if rows <= 0 or seconds <= 0:
            return self
        newest = rows / seconds
        rate = newest if self.rate_rows_per_s is None else MEMORY * newest + (1 - MEMORY) * self.rate_rows_per_s
        target = min(max(rate * self.target_s, self.rows / GROWTH_MAX), self.rows * GROWTH_MAX)
        bounded = round(min(max(target, self.rows_min), self.rows_max))
        return replace(self, rows=bounded, rate_rows_per_s=rate)

    def toward(self, target_s: float) -> SplitSizer:
        """Return the sizer with another target; the rows follow in proportion, unless no split was measured yet."""
        if target_s == self.target_s or self.rate_rows_per_s is None:
            return replace(self, target_s=target_s)
        rows = round(min(max(self.rows * target_s / self.target_s, self.rows_min), self.rows_max))
        return replace(self, target_s=target_s, rows=rows)

    def doubles_after(self, seconds: float) -> bool:
        """Return whether a split of this duration is so short that the next one doubles its rows, independent of earlier measurements."""
        return seconds < MEMORY * self.target_s / GROWTH_MAX

    @property
    def rows_per_split(self) -> int:
        """Target rows of the next split."""
        return self.rows


@dataclass(frozen=True, slots=True)
class BatchSizer:
    """Grows or shrinks batches of changes until one takes `target_s` seconds, or is mostly work and not start-up.

    A MERGE has fixed costs, which may exceed the target on a busy cluster. A sizer that only shrinks such batches ends at one
    version per batch, and never catches up. So a line through the newest batches separates the fixed cost of a batch from
    the cost of a version. A batch may take three times its fixed cost.
    """

    target_s: float
    versions: int
    """Versions of the next batch."""

    versions_max: int
    lately: tuple[tuple[int, float], ...] = ()
    """Versions and seconds of the newest batches."""

    def observe(self, took: int, seconds: float) -> BatchSizer:
        """Return the sizer after a measured batch."""
        lately = (*self.lately, (took, seconds))[-BATCHES_WATCHED:]
        limit = max(self.target_s, OVERHEAD_MAX * _overhead(lately))
        factor = min(max(limit / max(seconds, 1e-3), 1 / GROWTH_MAX), GROWTH_MAX)
        # The last batch of a lag is small, which is no reason to shrink larger ones.
        versions = self.versions if factor > 1 and took < self.versions else ceil(took * factor)
        return replace(self, versions=min(max(versions, 1), self.versions_max), lately=lately)

    @property
    def version_s(self) -> float | None:
        """Measured seconds per version in the newest batches; `None` before the first, which counts only until there is another one."""
        warm = self.lately[1:] or self.lately
        versions = sum(took for took, _ in warm)
        return sum(seconds for _, seconds in warm) / versions if versions else None


def _overhead(lately: Sequence[tuple[int, float]]) -> float:
    """Return the fixed seconds of a batch: the intercept of a least-squares line, limited to measured durations.

    Batches of one size do not determine a line. Half of their duration is then assumed, so that the next batch is half again as large
    and determines it. Otherwise a job whose first batch takes exactly the target would never change its size.
    """
    shortest = min(seconds for _, seconds in lately)
    sizes = [size for size, _ in lately]
    if min(sizes) == max(sizes):
        return shortest if sizes[0] == 1 else shortest / 2
    line = linear_regression(sizes, [seconds for _, seconds in lately])
    return min(max(line.intercept, 0.0), shortest)


def tapered(usual: int, left: int, *, slots: int) -> int:
    """Return the rows of the next split; they shrink towards the end, so that all slots end together.

    Never less than a third of the usual rows: a split has fixed costs (a Spark job, 0.2 s), and many small splits at the end
    cost more than they save.

    Args:
        usual: Rows of a split in the middle of the copy.
        left: Rows that are in no split yet, at least 1.
        slots: Number of splits in flight.
    """
    return min(usual, max(-(-left // (2 * slots)), usual // LAST_PART))


def leaves_more(prefix: Sequence[int], gap: tuple[int, int], rows: int) -> bool:
    """Return whether a split of `rows` from the start of a gap leaves at least as many rows of its first file."""
    start, end = gap
    return min(end, prefix[min(bisect_right(prefix, start), len(prefix) - 1)]) - start >= 2 * rows


def split_span(prefix: Sequence[int], gap: tuple[int, int], rows_wanted: int, *, exact: bool) -> tuple[int, int] | None:
    """Take the next split from the start of a gap.

    Args:
        prefix: First row of each file, then the number of all rows.
        gap: Missing interval of the row index.
        rows_wanted: Target rows, at least 1.
        exact: True to end inside a file at exactly the target (for a rate limit). Otherwise the split has whole files, with
            the number of rows nearest to the target, and at least the rest of the first file.

    Returns:
        `[start, stop)` with `start == gap[0]` and `stop <= gap[1]`; `None` for an empty gap.
    """
    start, end = gap
    if start >= end:
        return None
    stop = min(end, start + max(1, rows_wanted))
    if exact:
        return start, stop
    behind = bisect_right(prefix, stop)
    below, above = prefix[behind - 1], min(end, prefix[min(behind, len(prefix) - 1)])
    # Rounding down only would give each split one file instead of two, if files are a little larger than half a split.
    return start, above if below <= start or above - stop < stop - below else below
