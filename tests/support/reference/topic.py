"""Input and state of the reference machine of source backfill: a topic, its reader, and the states of its splits.

A split is a partition. An offset is a string; it is compared as a number (R-SRC-20).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from support.reference.vocabulary import Fatal

BACKFILLING, CATCHING_UP, FINISHED = "Backfilling", "SourceCachingUp", "Finished"


# ------------------------------------------------------------------ messages
@dataclass(frozen=True, slots=True)
class Record:
    """One message of a partition; it may arrive invisible."""

    split: int
    offset: str
    visible: bool = True


@dataclass(frozen=True, slots=True)
class Records:
    """A chunk of either side, of any partitions."""

    rows: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Reached:
    """The reader is past this offset, and it has no row: a transaction marker, or a compacted record."""

    split: int
    offset: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The upstream fails at this place."""


class ReaderError(Exception):
    """The reader of history failed; a new one may not."""


def number(offset: str) -> int:
    """Return an offset as a number, for comparison."""
    try:
        return int(offset)
    except ValueError as error:
        raise Fatal(f"{offset!r} is no offset") from error


# ------------------------------------------------------------------ stored state
@dataclass(frozen=True, slots=True)
class Split:
    """The state of a split. `offset` is the last row that the backfill emitted; `None` if there is none, or the split is finished."""

    kind: str = BACKFILLING
    offset: str | None = None
    rows: int = 0
    target: str | None = None

    def to_json(self) -> str:
        """Return the stored form of section 2.4."""
        state = FINISHED if self.kind == FINISHED else {self.kind: self.offset}
        return json.dumps({"state": state, "num_consumed_rows": self.rows, "target_offset": self.target})

    @classmethod
    def from_json(cls, text: str) -> Split:
        """Decode the result of `to_json`."""
        stored = json.loads(text)
        state, rows, target = stored["state"], stored["num_consumed_rows"], stored["target_offset"]
        if state == FINISHED:
            return cls(FINISHED, None, rows, target)
        ((kind, offset),) = state.items()
        return cls(kind, offset, rows, target)


class States:
    """The state table that all actors share. An actor reads only the rows of other actors that a checkpoint has committed."""

    def __init__(self, committed: Mapping[int, Split] | None = None, epoch: int = 0) -> None:
        """Begin with the commits of a former run."""
        self.committed = {split: state.to_json() for split, state in (committed or {}).items()}
        self.epoch = epoch
        self._written: list[tuple[int, int, str | None]] = []

    def write(self, epoch: int, split: int, state: Split | None) -> None:
        """Write a row under an epoch; `None` deletes it."""
        self._written.append((epoch, split, state.to_json() if state else None))

    def commit(self, epoch: int) -> None:
        """Make all rows up to and including an epoch durable and readable for all."""
        for at, split, text in self._written:
            if at <= epoch and text is None:
                self.committed.pop(split, None)
            elif at <= epoch and text is not None:
                self.committed[split] = text
        self._written = [row for row in self._written if row[0] > epoch]
        self.epoch = epoch

    def crash(self) -> None:
        """Drop all rows that no checkpoint has committed."""
        self._written.clear()

    def read(self, split: int) -> Split | None:
        """Return the committed state of a split."""
        return Split.from_json(self.committed[split]) if split in self.committed else None

    def all_finished(self) -> bool:
        """Return whether every committed row is finished, with any owner."""
        return all(Split.from_json(text).kind == FINISHED for text in self.committed.values())


# ------------------------------------------------------------------ the external system
@dataclass
class Partition:
    """Records by offset, each visible or not; an offset below `high` may have none.

    `start`: the exclusive first offset of the source; `None` for the earliest.
    """

    records: dict[int, bool] = field(default_factory=dict)
    low: int = 0
    high: int = 0
    start: int | None = None

    def append(self, *, visible: bool = True, marker: bool = False) -> int:
        """Add a record, or a marker that only takes an offset; return the offset."""
        if not marker:
            self.records[self.high] = visible
        self.high += 1
        return self.high - 1

    def latest(self, after: int | None) -> str | None:
        """Return the last offset; `None` if there is nothing to read after `after` (R-SRC-7)."""
        if self.low == self.high or (after is not None and after + 1 >= self.high):
            return None
        return str(self.high - 1)


@dataclass
class Topic:
    """Partitions by number; `failures`: number of the next reads that fail."""

    partitions: dict[int, Partition] = field(default_factory=dict)
    failures: int = 0


class Reader:
    """Reads splits concurrently, each from its position."""

    def __init__(self, topic: Topic, positions: Mapping[int, int]) -> None:
        """Begin at the given offsets, inclusive."""
        self.positions = dict(positions)
        self._topic = topic
        self._turn: list[int] = sorted(positions)

    def fetch(self, rows_max: int) -> list[Record | Reached]:
        """Return the next items, with at most `rows_max` records; the splits take turns."""
        items: list[Record | Reached] = []
        idle = 0
        while self._turn and idle < len(self._turn) and sum(isinstance(item, Record) for item in items) < rows_max:
            split = self._turn.pop(0)
            self._turn.append(split)
            item = self._next(split)
            idle = idle + 1 if item is None else 0
            items += [] if item is None else [item]
        if items and self._topic.failures:
            self._topic.failures -= 1
            raise ReaderError  # the fetched items are lost with this reader
        return items

    def _next(self, split: int) -> Record | Reached | None:
        partition = self._topic.partitions[split]
        at = max(self.positions[split], partition.low)
        following = min((offset for offset in partition.records if offset >= at), default=None)
        if following is not None:
            self.positions[split] = following + 1
            return Record(split, str(following), partition.records[following])
        if at < partition.high:
            self.positions[split] = partition.high
            return Reached(split, str(partition.high - 1))
        return None
