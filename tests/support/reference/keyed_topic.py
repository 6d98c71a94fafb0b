"""The reference machine of a topic into a table with one row a key: one record after the other, each partition in its order.

Told from ADR 0022 and R-SRC-2, 20, 42 alone. The table is what the records before one offset of each partition leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from support.reference.vocabulary import Fatal

Place = tuple[str, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """A record: `key` None is a bad one, `value` None removes the row of its key, and so does one that does not pass the filter."""

    key: str | None
    value: int | None = None
    passes: bool = True


@dataclass
class KeyedTopic:
    """Positions, the table, and the bad records that were set aside; `records` has no entry where no record is."""

    records: Mapping[Place, Keyed]
    sets_aside: bool = True
    """Else a bad record ends the job."""

    positions: dict[str, int] = field(default_factory=dict)
    """Of each partition, the offset before which all is in the table."""

    table: dict[str, tuple[int, Place]] = field(default_factory=dict)
    """Value and origin by key."""

    aside: set[Place] = field(default_factory=set)
    owners: dict[str, str] = field(default_factory=dict)
    """The partition that a key was seen in."""

    def advance(self, partition: str, stop: int) -> None:
        """Go on to an offset, past markers and what compaction left out too (R-SRC-42).

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
        """Go on in all partitions."""
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
        """Return the bad records in front of some offsets."""
        return {
            place
            for place, one in self.records.items()
            if one.key is None
            for at, stop in stops
            if place[0] == at and place[1] < stop
        }
