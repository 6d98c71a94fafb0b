"""Costs of rows under a limit: one for each row that a reader sees, or the bytes of their files, converted to rows of mean size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise


def mean_row_bytes(rows: Sequence[int], file_bytes: Sequence[int]) -> float | None:
    """Return the average bytes of a row in its file; `None` if the bytes are unknown or there is no row.

    Args:
        rows: Rows of each file; a file without rows is not read, and its bytes do not count.
        file_bytes: Bytes of each file; empty if unknown.
    """
    if not file_bytes or not any(rows):
        return None
    return sum(size for count, size in zip(rows, file_bytes, strict=True) if count) / sum(rows)


class RowCosts:
    """Costs of the rows of some files, in an order; each row of a file has the same cost."""

    def __init__(self, offsets: Sequence[int], file_bytes: Sequence[int] = (), live: Sequence[int] = ()) -> None:
        """Compute the costs.

        Args:
            offsets: First row of each file in the order of reading, then the number of all rows.
            file_bytes: Bytes of each file in that order; empty if bytes are not limited.
            live: Rows of each file without deleted rows, which cost nothing; empty if no row is deleted.
        """
        self._offsets = offsets
        rows = [stop - start for start, stop in pairwise(offsets)]
        mean = mean_row_bytes(rows, file_bytes)
        self.by_bytes = bool(mean)
        """True if a row of a large file costs more than a row of a small file with as many rows."""

        self._costs: list[float] | None = None
        if mean:
            costs = (size / mean if count else 0.0 for count, size in zip(rows, file_bytes, strict=True))
            self._costs = [0.0, *accumulate(costs)]
        elif live and sum(live) != offsets[-1]:
            self._costs = [0.0, *accumulate(map(float, live))]

    def of(self, start: int, stop: int) -> float:
        """Return the cost of an interval of the order."""
        return (
            stop - start if self._costs is None else self._before(stop, self._costs) - self._before(start, self._costs)
        )

    def surplus(self, read: int, rows: int, cost: float) -> float:
        """Return the cost of rows beyond their charge, once the number of read rows is known."""
        return (read - rows) * cost / rows if self.by_bytes else read - cost

    def at(self, position: int) -> float:
        """Return the cost of the row at a position; never 0."""
        return self.of(position, position + 1) or 1.0

    def rows(self, start: int, cost: float) -> int:
        """Return the number of rows after a position that cost about `cost`; at least one, within the first file with a cost."""
        costs = self._costs
        if costs is None:
            return int(cost)
        target = self._before(start, costs) + cost
        file = min(bisect_right(costs, target), len(costs) - 1) - 1
        low, high = self._offsets[file], self._offsets[file + 1]
        whole = costs[file + 1] - costs[file]
        within = (target - costs[file]) / whole if whole else 1.0
        # A rounding error must not cost a row.
        return max(1, int(low + min(1.0, within) * (high - low) + 1e-6) - start)

    def _before(self, position: int, costs: Sequence[float]) -> float:
        file = min(bisect_right(self._offsets, position), len(self._offsets) - 1) - 1
        low, high = self._offsets[file], self._offsets[file + 1]
        share = (position - low) / (high - low) if high > low else 0.0
        return costs[file] + share * (costs[file + 1] - costs[file])
