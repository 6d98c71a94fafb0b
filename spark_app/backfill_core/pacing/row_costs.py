"""What rows cost under a limit: one for each row that a reader sees, or what the bytes of their files are in rows of the mean size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise


def mean_row_bytes(rows: Sequence[int], file_bytes: Sequence[int]) -> float | None:
    """Return the bytes of files that a row takes in the mean; None: they are not known, or there is no row.

    Args:
        rows: Of each file; one without any is not read, and its bytes do not count.
        file_bytes: Of each file; empty: not known.
    """
    if not file_bytes or not any(rows):
        return None
    return sum(size for count, size in zip(rows, file_bytes, strict=True) if count) / sum(rows)


class RowCosts:
    """Costs of the rows of some files, in an order; the bytes of a file belong to its rows evenly."""

    def __init__(self, offsets: Sequence[int], file_bytes: Sequence[int] = (), live: Sequence[int] = ()) -> None:
        """Take the first row of each file, then the number of all rows.

        Args:
            offsets: In the order of reading.
            file_bytes: Of each file in that order; empty: bytes cost nothing.
            live: Rows of each file without deleted ones, which cost nothing; empty: none are deleted.
        """
        self._offsets = offsets
        rows = [stop - start for start, stop in pairwise(offsets)]
        mean = mean_row_bytes(rows, file_bytes)
        self.by_bytes = bool(mean)
        """Do rows of a large file cost more than those of a small one with as many?"""

        self._costs: list[float] | None = None
        if mean:
            costs = (size / mean if count else 0.0 for count, size in zip(rows, file_bytes, strict=True))
            self._costs = [0.0, *accumulate(costs)]
        elif live and sum(live) != offsets[-1]:
            self._costs = [0.0, *accumulate(map(float, live))]

    def of(self, start: int, stop: int) -> float:
        """Return what an interval of the order costs."""
        return (
            stop - start if self._costs is None else self._before(stop, self._costs) - self._before(start, self._costs)
        )

    def surplus(self, read: int, rows: int, cost: float) -> float:
        """Return what some rows cost more than they were charged for, once it is known how many were read."""
        return (read - rows) * cost / rows if self.by_bytes else read - cost

    def at(self, position: int) -> float:
        """Return what a row costs at a position; never nothing."""
        return self.of(position, position + 1) or 1.0

    def rows(self, start: int, cost: float) -> int:
        """Return how many rows from a position on cost about so much: of the first file that has any, at least one."""
        costs = self._costs
        if costs is None:
            return int(cost)
        target = self._before(start, costs) + cost
        file = min(bisect_right(costs, target), len(costs) - 1) - 1
        low, high = self._offsets[file], self._offsets[file + 1]
        whole = costs[file + 1] - costs[file]
        within = (target - costs[file]) / whole if whole else 1.0
        # A hair of rounding must not cost a row.
        return max(1, int(low + min(1.0, within) * (high - low) + 1e-6) - start)

    def _before(self, position: int, costs: Sequence[float]) -> float:
        file = min(bisect_right(self._offsets, position), len(self._offsets) - 1) - 1
        low, high = self._offsets[file], self._offsets[file + 1]
        share = (position - low) / (high - low) if high > low else 0.0
        return costs[file] + share * (costs[file + 1] - costs[file])
