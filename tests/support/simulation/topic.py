"""A source with offsets: a topic whose partitions only grow, in which compaction leaves holes and partitions appear.

Rows are `(partition, offset, value)`. An offset may hold no record from the beginning (a marker of a transaction), or lose it
later. Compaction removes a record that a newer one of its key has replaced. Some records can be read and not parsed. A topic
with losses may also expire records, which a reader must not skip, or be deleted and created again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from support.simulation.tables import Row

KEYS = 4
"""Few, so that compaction finds records to remove."""

PARTITIONS_MAX = 6
Span = tuple[int, int, int]
"""Partition, first offset, offset after the last one."""

BAD_EVERY = 5
"""One record in this many cannot be parsed."""

TOMBSTONE_EVERY = 7
"""One record in this many removes its key, if the target has one row a key."""

Key = tuple[int, int]
Image = tuple[int, int] | None
Change = tuple[Key, Image]
"""A key, which is in one partition, and its row; `None` if it is removed."""


@dataclass
class Partition:
    """One partition; `high` is the offset after the last one."""

    low: int = 0
    high: int = 0
    values: dict[int, int] = field(default_factory=dict)
    removed: dict[int, int] = field(default_factory=dict)
    """Values that compaction removed, by offset: only an earlier reader has them."""

    expired: dict[int, int] = field(default_factory=dict)
    """Values below `low`: a target that holds their offsets must have them."""

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

    def expire(self, low: int) -> None:
        """Remove all records below an offset, at most the end."""
        self.low = max(self.low, min(low, self.high))
        for offset in [offset_ for offset_ in self.values if offset_ < self.low]:
            self.expired[offset] = self.values.pop(offset)


class Topic:
    """A topic of the simulated world; `commit` changes it."""

    def __init__(self, seed: int, *, rows: int, sparse: bool, filtered: bool) -> None:
        """Make a topic of one to three partitions with `rows` records in all; `sparse` leaves holes between them."""
        self._rng = Random(seed)
        self._filtered, self._sparse = filtered, sparse
        self._value = 0
        self.made = 0
        """Number of times that it was deleted and created again."""

        self.former: dict[int, Partition] = {}
        """The partitions of the first topic of this name, once there is another."""

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

    def lose(self, what: str) -> None:
        """Expire some records, or recreate the topic, which then has other records at the same offsets."""
        if what == "expire":
            partition = self.partitions[self._rng.choice(sorted(self.partitions))]
            partition.expire(self._rng.randint(partition.low, partition.high))
            return
        self.made += 1
        self.former = self.former or self.partitions
        self.partitions = {number: Partition() for number in self.partitions}
        for _ in range(20):
            self._append(self._rng.choice(sorted(self.partitions)))

    @property
    def first(self) -> dict[int, Partition]:
        """Return the partitions of the first topic of this name, the only one that a job may read."""
        return self.former or self.partitions

    def _of_first(self, number: int) -> Partition:
        """Return a partition of the first topic; an empty one if it had none, because a seal may name one of the next topic."""
        return self.first.get(number, Partition())

    # ------------------------------------------------------------------ reading
    @property
    def highs(self) -> dict[int, int]:
        """Return the offset after the last one of each partition."""
        return {number: partition.high for number, partition in self.partitions.items()}

    @property
    def compacted(self) -> int:
        """Return the number of records that compaction removed."""
        return sum(len(partition.removed) for partition in self.first.values())

    def read(self, partition: int, start: int, stop: int) -> list[Row]:
        """Return the current transformed records at the offsets `[start, stop)`."""
        return self._rows(partition, self.partitions[partition].values, start, stop)

    def _rows(self, partition: int, values: dict[int, int], start: int, stop: int, *, bad: bool = False) -> list[Row]:
        values = {offset: value for offset, value in values.items() if (value % BAD_EVERY == 0) is bad}
        chosen = ((offset, value) for offset, value in sorted(values.items()) if start <= offset < stop)
        return [(partition, offset, value) for offset, value in chosen if not self._filtered or value % 3 != 0]

    def changes(self, partition: int, start: int, stop: int) -> list[Change]:
        """Return the changes of the current records at the offsets `[start, stop)` to a target with one row a key."""
        return [
            self._change(partition, offset, value)
            for offset, value in self._good(self.partitions[partition].values, start, stop)
        ]

    def _good(self, values: dict[int, int], start: int, stop: int) -> list[tuple[int, int]]:
        """Return offsets and values of the parsable records; a record that the filter drops is not parsed."""
        chosen = ((offset, value) for offset, value in sorted(values.items()) if start <= offset < stop)
        return [(offset, value) for offset, value in chosen if value % BAD_EVERY or not self._passes(value)]

    def _passes(self, value: int) -> bool:
        return not self._filtered or value % 3 != 0

    def _change(self, partition: int, offset: int, value: int) -> Change:
        key = (partition, value % KEYS)
        return key, None if value % TOMBSTONE_EVERY == 0 or not self._passes(value) else (offset, value)

    def folds(self, spans: Iterable[Span]) -> dict[Key, set[Image]]:
        """Return the possible rows of each key in a target with one row a key, whose reader read each offset once, in order.

        The reader may have come before or after a compaction: a removed record may decide, or the one before it. `None` means
        no row.
        """
        images: dict[Key, set[Image]] = {}
        for number, start, stop in spans:
            partition = self._of_first(number)
            kept = partition.values | partition.expired
            for offset, value in self._good(kept | partition.removed, start, stop):
                key, image = self._change(number, offset, value)
                before = images.get(key, {None}) if offset in partition.removed else set()
                images[key] = before | {image}
        return images

    def bad(self, partition: int, start: int, stop: int) -> list[Row]:
        """Return the current unparsable records at the offsets `[start, stop)`."""
        return self._rows(partition, self.partitions[partition].values, start, stop, bad=True)

    def view(self, spans: Iterable[Span], *, bad: bool = False) -> tuple[Counter[Row], Counter[Row]]:
        """Return the rows at some offsets: those that a target must have, expired ones too, and those that it may have."""
        must, may = Counter[Row](), Counter[Row]()
        for number, start, stop in spans:
            partition = self._of_first(number)
            must.update(self._rows(number, partition.values | partition.expired, start, stop, bad=bad))
            may.update(self._rows(number, partition.removed, start, stop, bad=bad))
        return must, may
