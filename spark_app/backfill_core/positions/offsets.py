"""Positions in a source of partitions with offsets: of each partition, the offset after the last row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nlargest

Offsets = Mapping[str, int]
"""By the name of the partition, as JSON has it."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The rows of a partition at the offsets `[start, stop)`."""

    partition: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The offsets of a source when it was opened."""

    first: Offsets
    """Where history begins, by partition: at the oldest row that the source keeps, or later, where a spec says so."""

    newest: Offsets
    """After the last row that may be read, by partition: what is before it is history, of a job that begins."""

    source_id: str = ""
    """Identity of the source; another one at the same place has other rows at the same offsets."""

    compacts: bool = False
    """Does it remove a row that a newer one of its key has replaced?"""

    watermarks: Offsets | None = None
    """Offset after the last row of each partition, including rows behind open transactions; `None`: the same as `newest`."""


def between(start: Offsets, stop: Offsets) -> tuple[OffsetRange, ...]:
    """Return what lies between two positions, by partition; a partition that `start` does not know begins at 0."""
    ranges = (OffsetRange(name, start.get(name, 0), end) for name, end in sorted(stop.items()))
    return tuple(one for one in ranges if one.start < one.stop)


def describe_ranges(ranges: tuple[OffsetRange, ...]) -> str:
    """Return ranges in a message; at least one."""
    first = ranges[0]
    if len(ranges) == 1:
        return f"the offsets {first.start} to {first.stop} of partition {first.partition}"
    return f"{count(ranges)} offsets of {len(ranges)} partitions, from offset {first.start} of partition {first.partition} on"


def count(ranges: tuple[OffsetRange, ...]) -> int:
    """Return how many offsets some ranges have; there may be fewer rows, where a source leaves offsets out."""
    return sum(one.stop - one.start for one in ranges)


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest of some numbers by partition, and the sum of the rest: a topic may have a thousand partitions."""

    shown: tuple[tuple[str, int], ...]
    """Partition and number, the largest first; equal ones by name."""

    others: int
    """How many partitions are not shown."""

    others_sum: int

    @classmethod
    def of(cls, numbers: Mapping[str, int], shown_max: int) -> Largest:
        """Show so many at most."""
        shown = tuple(nlargest(shown_max, sorted(numbers.items()), key=lambda one: one[1]))
        return cls(shown, len(numbers) - len(shown), sum(numbers.values()) - sum(number for _, number in shown))
