"""Positions in a source of partitions with offsets: for each partition, the offset after the last row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import nlargest

Offsets = Mapping[str, int]
"""Offsets by the name of the partition, as in JSON."""


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
    """Start of history, by partition: the oldest row that the source keeps, or a later one configured in the spec."""

    newest: Offsets
    """Offset after the last readable row, by partition; for a new job, rows before it are history."""

    source_id: str = ""
    """Identity of the source; another source at the same address has other rows at the same offsets."""

    compacts: bool = False
    """True if the source removes a row once a newer row with its key exists."""

    watermarks: Offsets | None = None
    """Offset after the last row of each partition, including rows behind open transactions; `None` if equal to `newest`."""


def between(start: Offsets, stop: Offsets) -> tuple[OffsetRange, ...]:
    """Return the offsets between two positions, by partition; a partition that `start` lacks begins at 0."""
    ranges = (OffsetRange(name, start.get(name, 0), end) for name, end in sorted(stop.items()))
    return tuple(span for span in ranges if span.start < span.stop)


def after(ranges: Iterable[OffsetRange], first: Offsets) -> tuple[OffsetRange, ...]:
    """Return the parts of ranges that begin at the first offsets of their partitions or later, without empty parts."""
    parts = (replace(span, start=max(span.start, first.get(span.partition, 0))) for span in ranges)
    return tuple(span for span in parts if span.start < span.stop)


def count(ranges: tuple[OffsetRange, ...]) -> int:
    """Return the number of offsets in some ranges. A source may skip offsets, so the number of rows may be smaller."""
    return sum(span.stop - span.start for span in ranges)


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest of some numbers by partition, and the sum of the rest: a topic may have a thousand partitions."""

    shown: tuple[tuple[str, int], ...]
    """Partition and number, the largest first; equal numbers by name."""

    others: int
    """Number of partitions that are not shown."""

    others_sum: int

    @classmethod
    def of(cls, numbers: Mapping[str, int], shown_max: int) -> Largest:
        """Return the largest numbers, at most `shown_max`."""
        shown = tuple(nlargest(shown_max, sorted(numbers.items()), key=lambda item: item[1]))
        return cls(shown, len(numbers) - len(shown), sum(numbers.values()) - sum(number for _, number in shown))
