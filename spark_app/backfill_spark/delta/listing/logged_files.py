"""The files of one version by their index; a table may have a million. Python keeps only numbers of each file."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from backfill_spark.delta.listing.entries import NO_PARTITION, deleted_of, logged_file, statistics_of
from backfill_spark.delta.listing.shared_values import Partition, Shared
from backfill_spark.delta.listing.stored_lines import StoredLines
from backfill_spark.delta.source_file import LoggedFile, without_statistics

Nulls = tuple[int | None, ...]


class LoggedFiles(Sequence[LoggedFile]):
    """The data files of one version in the order of their paths; each use of a file reads its entry of the log again."""

    def __init__(self, lines: Iterable[str], nulls_of: Sequence[str]) -> None:
        """Store the entries of files.

        Args:
            lines: The `add` action of each file as a line of a commit, in any order.
            nulls_of: Physical names of the columns whose nulls are requested.
        """
        self._nulls_of, self._lines = nulls_of, StoredLines()
        paths, rows, deleted, sizes = list[str](), list[int | None](), list[int](), list[int]()
        nulls, partitions, vectors = list[Nulls](), list[Partition](), set[int]()
        equal_nulls: dict[Nulls, Nulls] = {}
        shared = Shared()
        for at, line in enumerate(lines):
            self._lines.append(line)
            add = json.loads(line)["add"]
            stats, partition = statistics_of(add, nulls_of), add.get("partitionValues") or NO_PARTITION
            paths.append(add["path"])
            rows.append(stats.rows)
            deleted.append(deleted_of(add))
            sizes.append(add["size"])
            counts = tuple(stats.null_count(name) for name in nulls_of)
            nulls.append(equal_nulls.setdefault(counts, counts))
            partitions.append(shared.partition(partition))
            if add.get("deletionVector"):
                vectors.add(at)
        order = sorted(range(len(paths)), key=paths.__getitem__)
        self._order = array("q", order)
        self._vectors = frozenset(vectors)
        self.paths = StoredLines()
        """Path of each file, in this order."""

        for at in order:
            self.paths.append(paths[at])
        self.rows = [rows[at] for at in order]
        """Row count of each file, with deleted rows; `None` if the log has no count."""

        self.deleted = [deleted[at] for at in order]
        """Number of rows of each file that its deletion vector hides."""

        self.bytes = [sizes[at] for at in order]
        """Size of each file."""

        self.nulls = [nulls[at] for at in order]
        """Null counts of the requested columns in each file; `None` if the log has no count."""

        self.partitions = [partitions[at] for at in order]
        """Partition values of each file; equal ones are one object."""

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> LoggedFile: ...
    @overload
    def __getitem__(self, index: slice) -> list[LoggedFile]: ...
    def __getitem__(self, index: int | slice) -> LoggedFile | list[LoggedFile]:
        """Return one file, or some."""
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        return logged_file(self._lines[self._order[index]], self._nulls_of)

    def entry(self, index: int) -> dict[str, Any]:
        """Return the `add` action of a file, with its statistics."""
        entry: dict[str, Any] = json.loads(self._lines[self._order[index]])["add"]
        return entry

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield the `add` action of each file, with its statistics."""
        return map(self.entry, range(len(self)))

    def action(self, index: int) -> str:
        """Return the `add` action of a file as a line of a commit, without statistics."""
        return without_statistics(self.entry(index))

    def places(self) -> Iterator[Mapping[str, Any]]:
        """Yield the path of each file, as the entry of an `add` action, and the deletion vector of a file that has one."""
        for index, (at, path) in enumerate(zip(self._order, self.paths, strict=True)):
            yield self.entry(index) if at in self._vectors else {"path": path}
