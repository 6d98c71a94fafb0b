"""Durable rows by partition of a pinned table: for the largest partitions, and for all others together."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from backfill_core.positions.intervals import IntervalSet

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Durable part of one partition of the pinned version, with deleted rows."""

    name: str | None
    """`None` for all partitions that are not listed."""

    rows_done: int
    rows_total: int
    files_done: int
    files_total: int


class PartitionTally:
    """Counts durable rows and files by partition. Each file is read once, when its rows become durable, so a commit costs little."""

    def __init__(self, partitions: Sequence[str], offsets: Sequence[int]) -> None:
        """Start without durable rows.

        Args:
            partitions: Partition of each file, in the order of reading; empty if the table has none.
            offsets: First row of each file in the order of reading, then the number of all rows.
        """
        self._offsets, self._done = offsets, IntervalSet()
        sizes, files = Counter[str](), Counter(partitions)
        for file, name in enumerate(partitions):
            sizes[name] += offsets[file + 1] - offsets[file]
        self._names = sorted(files, key=lambda name: (-sizes[name], name))[:SHOWN_MAX]
        shown = {name: place for place, name in enumerate(self._names)}
        self._place_of = [shown.get(name, len(shown)) for name in partitions]
        """Place of each file's partition in the result; partitions that are not shown have the last place."""

        places = len(shown) + (len(files) > len(shown))
        self._rows_total, self._files_total, self._rows_done, self._files_done = ([0] * places for _ in range(4))
        for file, place in enumerate(self._place_of):
            self._rows_total[place] += offsets[file + 1] - offsets[file]
            self._files_total[place] += 1
            self._files_done[place] += offsets[file + 1] == offsets[file]

    def advance(self, done: IntervalSet) -> None:
        """Count the rows that became durable since the last call; `done` only grows."""
        if not self._place_of or done is self._done:
            return
        before, self._done = self._done, done
        earlier = set(before.spans)
        # Both ends of a new interval may lie in a file that another interval began.
        edges = set[int]()
        for span in done.spans:
            if span not in earlier:
                for start, stop in before.gaps(*span).spans:
                    edges |= self._count(start, stop)
        for file in edges:
            self._files_done[self._place_of[file]] += not done.gaps(self._offsets[file], self._offsets[file + 1]).spans

    def _count(self, start: int, stop: int) -> set[int]:
        """Count the rows of an interval, and the files that it contains; return the files that it contains in part."""
        edges, file = set[int](), bisect_right(self._offsets, start) - 1
        while file < len(self._place_of) and self._offsets[file] < stop:
            first, end, place = self._offsets[file], self._offsets[file + 1], self._place_of[file]
            self._rows_done[place] += min(end, stop) - max(first, start)
            if start <= first and end <= stop:
                self._files_done[place] += end > first
            else:
                edges.add(file)
            file += 1
        return edges

    @property
    def counts(self) -> tuple[PartitionRows, ...]:
        """The partitions with most rows, the largest first, and all others as one entry without a name."""
        names = [*self._names, None][: len(self._rows_total)]
        columns = (names, self._rows_done, self._rows_total, self._files_done, self._files_total)
        return tuple(PartitionRows(*row) for row in zip(*columns, strict=True))
