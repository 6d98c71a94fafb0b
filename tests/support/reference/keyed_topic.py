"""The reference machine of a topic into a table with one row a key: one record after the other, each partition in its order.

Derived only from ADR 0022 and R-SRC-2, 20, 42. The table is the result of the records before one offset of each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from support.reference.vocabulary import Fatal

Place = tuple[str, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """A record. A bad one has the key `None`. A value of `None` removes the row of its key, and so does a record that the filter drops."""

    key: str | None
    value: int | None = None
    passes: bool = True


@dataclass
class KeyedTopic:
    """Positions, the table, and the bad records that were set aside; `records` has an entry only for offsets with a record."""

    records: Mapping[Place, Keyed]
    sets_aside: bool = True
    """Set bad records aside if true; else a bad record ends the job."""

    positions: dict[str, int] = field(default_factory=dict)
    """Offset of each partition before which all records are in the table."""

    table: dict[str, tuple[int, Place]] = field(default_factory=dict)
    """Value and origin by key."""

    aside: set[Place] = field(default_factory=set)
    owners: dict[str, str] = field(default_factory=dict)
    """Partition of each key."""

    def advance(self, partition: str, stop: int) -> None:
        """Continue to an offset, also past markers and compacted records (R-SRC-42).

        Raises:
            Fatal: an offset comes twice, a record is bad, or a key is in two partitions.
        """
        at = self.positions.get(partition, 0)
        if stop < at:
            raise Fatal(f"{partition} goes back from {at} to {stop}")
        for offset in range(at, stop):
            record = self.records.get((partition, offset))
            if record is not None:
                self._take(record, (partition, offset))
        self.positions[partition] = stop

    def advance_all(self, positions: Mapping[str, int]) -> None:
        """Continue in all partitions."""
        for partition, stop in positions.items():
            self.advance(partition, stop)

    def _take(self, record: Keyed, place: Place) -> None:
        if record.key is None:
            if not self.sets_aside:
                raise Fatal(f"the record at {place} is bad")
            self.aside.add(place)
            return
        if self.owners.setdefault(record.key, place[0]) != place[0]:
            raise Fatal(f"{record.key} is in two partitions")
        if record.value is None or not record.passes:
            self.table.pop(record.key, None)
        else:
            self.table[record.key] = (record.value, place)

    def bad_before(self, stops: Iterable[tuple[str, int]]) -> set[Place]:
        """Return the bad records before some offsets."""
        return {
            place
            for place, record in self.records.items()
            if record.key is None
            for at, stop in stops
            if place[0] == at and place[1] < stop
        }
