"""Chunks of a copy in the order of a key, and the cells between two cuts, which are used to estimate rows."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from backfill_core.errors import BackfillError, KeyInvalidError, SourceDamagedError
from backfill_core.positions.key_order import KeyOrder, KeyPosition
from backfill_core.positions.key_scan import KeyScan
from backfill_core.positions.vnode_positions import Completed, Reached, Span, UpTo
from backfill_core.protocol.work import StagedFile


@dataclass(frozen=True, slots=True)
class Waiting:
    """The chunk is not being read."""


@dataclass(frozen=True, slots=True)
class RunningChunk:
    """The chunk is being read."""

    work_id: int
    since_s: float
    charged: int | None
    """Rows charged to the limit; `None` without a limit."""

    cut_off: bool
    """True if the read may end before the chunk does. Then no later chunk starts, because it would wait for the whole chunk."""

    limit: int
    """Number of the limit that was in force at its start."""

    early: bool
    """True if the read is small only because it is the first one of the attempt."""


@dataclass(frozen=True, slots=True)
class StagedChunk:
    """The rows of the chunk are in files that no commit contains yet."""

    files: tuple[StagedFile, ...]
    rows_read: int
    limit: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows `(low, high]` of some vnodes at one version."""

    version: int
    spans: tuple[Span, ...]
    low: KeyPosition | None
    high: KeyPosition | None
    rows: int
    """Estimated rows."""

    state: Waiting | RunningChunk | StagedChunk = Waiting()

    @property
    def reached(self) -> Reached:
        """Progress of its vnodes once it is committed; without a position if no row is left (R-ARR-20, R-ARR-30)."""
        return Completed() if self.high is None else UpTo(self.high)


class KeyCells:
    """Cells between cuts, numbered from 0; the last cell has no end."""

    def __init__(self, line: KeyScan) -> None:
        """Build the cells from the cuts."""
        self._order = line.space.order
        self._cuts = [cut.position for cut in line.cuts]
        self._sort_keys = [self._order.sort_key(position) for position in self._cuts]
        self._prefix = [*accumulate((*(cut.rows for cut in line.cuts), line.rows_after), initial=0)]

    @property
    def behind(self) -> int:
        """Number of cells."""
        return len(self._cuts) + 1

    def end(self, cell: int) -> KeyPosition | None:
        """Return the end of a cell; `None` for the last one."""
        return self._cuts[cell] if cell < len(self._cuts) else None

    def first(self, position: KeyPosition | None) -> int:
        """Return the first cell that ends after a position; the very first cell for `None`."""
        return 0 if position is None else bisect_right(self._sort_keys, self._order.sort_key(position))

    def begins_at(self, position: KeyPosition | None) -> bool:
        """Return whether a cell begins at the position."""
        cell = self.first(position)
        return position is None or (cell > 0 and self._sort_keys[cell - 1] == self._order.sort_key(position))

    def last(self, first: int, wanted: int, *, at_most: bool) -> int:
        """Return the last of the cells that together come nearest to `wanted` rows, from below if `at_most`; never before `first`."""
        stop = self._prefix[first] + wanted
        behind = bisect_right(self._prefix, stop) - 1
        above = self._prefix[min(behind + 1, self.behind)]
        # Rounding down only would give each chunk one cell instead of two, if cells are a little larger than half a chunk.
        if not at_most and 0 < above - stop < stop - self._prefix[behind]:
            behind += 1
        return min(max(behind - 1, first), self.behind - 1)

    def rows(self, first: int, behind: int) -> int:
        """Estimate the rows of the cells `[first, behind)`."""
        return self._prefix[behind] - self._prefix[first]


def refused_end(order: KeyOrder, chunk: Chunk, last: KeyPosition) -> BackfillError | None:
    """Return why a chunk cannot end at the key of its last row; `None` if it can."""
    if not order.fits(last):
        return KeyInvalidError(
            f"the key of a row is too large to be a position: {order.format_position(last)[:200]}.",
            hint="Read in the order of other columns, or with another strategy.",
        )
    if chunk.low is not None and order.sort_key(last) <= order.sort_key(chunk.low):
        return SourceDamagedError(
            f"a range of version {chunk.version} after {order.format_position(chunk.low)[:200]} ends at "
            f"{order.format_position(last)[:200]}: the statistics of a file exclude rows that the file contains.",
            hint="Have the files rewritten (OPTIMIZE, or REORG TABLE), or use a strategy without an order.",
        )
    return None
