"""A source with offsets: a topic whose partitions only grow, in which compaction leaves holes and partitions appear.

Rows are `(partition, offset, value)`. An offset may hold no record from the beginning (a marker of a transaction), or
lose it later: compaction removes a record that a newer one of its key has replaced. Some records can be read and not parsed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from support.simulation.tables import Row

KEYS = 4
"""Few, so that compaction finds records to remove."""

PARTITIONS_MAX = 6
BAD_EVERY = 5
"""One record of so many cannot be parsed."""


@dataclass
class Partition:
    """One partition; `high` is the offset after the last one."""

    low: int = 0
    high: int = 0
    values: dict[int, int] = field(default_factory=dict)
    removed: dict[int, int] = field(default_factory=dict)
    """Values that compaction took away, by offset: a reader has them only if it came before."""

    def append(self, value: int) -> None:
        """Add a record."""
        self.values[self.high] = value
        self.high += 1

    def skip(self, offsets: int) -> None:
        """Add offsets without a record."""
        self.high += offsets

    def compact(self) -> None:
        """Remove each record that a newer one of its key has replaced; the newest record of all stays."""
        kept: set[int] = set()
        for offset in sorted(self.values, reverse=True):
            key = self.values[offset] % KEYS
            if key in kept:
                self.removed[offset] = self.values.pop(offset)
            kept.add(key)


class Topic:
    """A topic of the simulated world; `commit` changes it."""

    def __init__(self, seed: int, *, rows: int, sparse: bool, filtered: bool) -> None:
        """Make a topic of one to three partitions with so many records in all; `sparse`: with holes between them."""
        self._rng = Random(seed)
        self._filtered, self._sparse = filtered, sparse
        self._value = 0
        self.partitions = {number: Partition() for number in range(self._rng.choice([1, 2, 3]))}
        for _ in range(rows):
            self._append(self._rng.choice(sorted(self.partitions)))

    def _append(self, partition: int) -> None:
        if self._sparse and self._rng.random() < 0.4:
            self.partitions[partition].skip(self._rng.choice([1, 2, 7]))
        self._value += 1
        self.partitions[partition].append(self._value)

    def commit(self) -> None:
        """Append a few records, compact a partition, or add one; offsets never change their record."""
        rng = self._rng
        what = rng.choice(["append", "append", "append", "compact", "partition", "marker"])
        partition = rng.choice(sorted(self.partitions))
        match what:
            case "compact":
                self.partitions[partition].compact()
            case "partition" if len(self.partitions) < PARTITIONS_MAX:
                self.partitions[len(self.partitions)] = Partition()
            case "marker":
                self.partitions[partition].skip(1)
            case _:
                for _ in range(rng.choice([1, 2, 5])):
                    self._append(rng.choice(sorted(self.partitions)))

    # ------------------------------------------------------------------ reading
    @property
    def highs(self) -> dict[int, int]:
        """Return the offset after the last one of each partition."""
        return {number: partition.high for number, partition in self.partitions.items()}

    @property
    def compacted(self) -> int:
        """Return how many records compaction removed so far."""
        return sum(len(partition.removed) for partition in self.partitions.values())

    def read(self, partition: int, start: int, stop: int) -> list[Row]:
        """Return the transformed records at the offsets `[start, stop)`, as they are now."""
        return self._rows(partition, self.partitions[partition].values, start, stop)

    def _rows(self, partition: int, values: dict[int, int], start: int, stop: int, *, bad: bool = False) -> list[Row]:
        values = {offset: value for offset, value in values.items() if (value % BAD_EVERY == 0) is bad}
        found = ((offset, value) for offset, value in sorted(values.items()) if start <= offset < stop)
        return [(partition, offset, value) for offset, value in found if not self._filtered or value % 3 != 0]

    def bad(self, partition: int, start: int, stop: int) -> list[Row]:
        """Return the records at the offsets `[start, stop)` that cannot be parsed, as they are now."""
        return self._rows(partition, self.partitions[partition].values, start, stop, bad=True)

    def view(self, positions: dict[int, int], *, bad: bool = False) -> tuple[Counter[Row], Counter[Row]]:
        """Return the rows before some offset of each partition: those that are there, and those that were once."""
        there, once = Counter[Row](), Counter[Row]()
        for number, stop in positions.items():
            partition = self.partitions[number]
            there.update(self._rows(number, partition.values, 0, stop, bad=bad))
            once.update(self._rows(number, partition.removed, 0, stop, bad=bad))
        return there, once
