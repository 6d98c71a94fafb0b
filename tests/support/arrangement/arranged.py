"""The order of the rows in a simulated world: by the key, or by a band that is computed from the value.

With bands, an update moves a row. A band may be NULL, and may be read in descending order. A position is given as a coordinate:
a number that grows in the order of reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from support.simulation.tables import Row

from backfill_core.positions.key_order import KeyColumn, KeyOrder, KeyPosition
from backfill_core.positions.vnode_positions import Completed, KeySpace, NotStarted, UpTo, VnodePositions

BANDS = 6
BAND = 1_000_000
NOTHING, EVERYTHING = -1, (BANDS + 1) * BAND
"""Coordinates: no row is at or before the first, each row is before the second."""

Reach = tuple[int, ...]
"""For each vnode, the coordinate up to which rows are present."""


@dataclass(frozen=True, slots=True)
class Arranged:
    """Order and distribution of the rows of a world."""

    banded: bool
    descending: bool
    vnodes: int
    by_band: bool
    """Derive the vnode from the band if true, else from the key."""

    @classmethod
    def drawn(cls, rng: Random) -> Arranged:
        """Return a random arrangement."""
        banded = rng.random() < 0.67
        return cls(banded, rng.random() < 0.5, rng.choice([1, 3]), banded and rng.random() < 0.3)

    @property
    def space(self) -> KeySpace:
        """Return it as the key space of the core."""
        band = (KeyColumn("band", "long", self.descending),) if self.banded else ()
        key = KeyColumn("id", "long", self.descending and not self.banded)
        return KeySpace(KeyOrder((*band, key)), ("band" if self.by_band else "id",), self.vnodes)

    @staticmethod
    def band(value: int) -> int | None:
        """Return the column that follows from the value."""
        return None if value % 7 == 6 else value % 7

    def position(self, row: Row) -> KeyPosition:
        """Return the position of a row, as the state stores it."""
        key, value = row
        return (self.band(value), key) if self.banded else (key,)

    def coordinate(self, position: Any) -> int:
        """Return a number that grows as the rows are read: NULL is the largest band."""
        *bands, key = position
        return self._place(BANDS if bands and bands[0] is None else next(iter(bands), 0), int(key))

    def at(self, row: Row) -> int:
        """Return the coordinate of a row."""
        key, value = row
        return self._place(value % (BANDS + 1), key)

    def _place(self, band: int, key: int) -> int:
        if not self.banded:
            return EVERYTHING - 1 - key if self.descending else key
        return ((BANDS - band) if self.descending else band) * BAND + key

    def vnode(self, row: Row) -> int:
        """Return the vnode of a row."""
        key, value = row
        chosen = (self.band(value) or 0) if self.by_band else key
        return int(chosen) * 7 % self.vnodes

    def reach_of(self, positions: VnodePositions) -> Reach:
        """Return the positions of work as coordinates."""
        reach: list[int] = []
        for count, reached in positions.runs:
            match reached:
                case NotStarted():
                    at = NOTHING
                case UpTo(position=position):
                    at = self.coordinate(position)
                case Completed():
                    at = EVERYTHING
            reach += [at] * count
        return tuple(reach)

    def within(self, row: Row, reach: Reach) -> bool:
        """Return whether a row is at or before the position of its vnode (R-ARR-13)."""
        return self.at(row) <= reach[self.vnode(row)]
