"""Data files as a table's log describes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import unquote

from backfill_core.file_copies.logged_statistics import LoggedStatistics
from backfill_core.log_shipping.file_locations import is_below
from backfill_core.positions.source_names import RowOrder, name_of
from backfill_spark.delta.deletion_vectors import VectorDescriptor


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A data file of one version."""

    path: str
    """Path in the spelling of the log: relative to the table or absolute, percent-encoded."""

    bytes: int
    rows: int | None
    """Number of rows, deleted ones included; `None` if the log has no count."""

    deleted: int
    """Number of rows that the file's deletion vector hides."""

    nulls: tuple[int | None, ...]
    """Number of nulls of each requested column, deleted rows included; `None` if the log has no count."""

    action: str
    """The `add` action as a line of a commit, without its statistics."""

    statistics: str | None
    """Statistics as JSON, unchanged from the log."""

    partition: Mapping[str, str | None]
    """Values of the partition columns by their physical names."""


def fingerprint_of(paths: Iterable[str], rows: Sequence[int], deleted: Sequence[int]) -> str:
    """Return the hash of the paths and row counts of some files, which identifies the row index."""
    digest = hashlib.sha256()
    for path, count, hidden in zip(paths, rows, deleted, strict=True):
        digest.update(f"{path}\0{count}\0{hidden}\n".encode())
    return digest.hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class LoggedValues:
    """Facts from the log about the values of some columns in one data file; numbers are exact."""

    path: str
    rows: int | None
    action: str
    """The `add` action as a line of a commit, without its statistics."""

    deleted: int
    """Number of rows that the file's deletion vector hides."""

    smallest: tuple[Any, ...]
    """Minimum of each requested column, as in JSON; strings may be truncated. `None` if the log has none, or all values are null."""

    largest: tuple[Any, ...]
    """Maximum of each requested column; a truncated string ends with a character that makes it larger than the value."""

    nulls: tuple[int | None, ...]
    partition: Mapping[str, str | None]
    """Values of the partition columns as strings, by physical name."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A data file that may be copied."""

    path: str
    """Path in the spelling of the log: relative to the table or absolute, percent-encoded."""

    size_bytes: int
    partition: Mapping[str, str | None]
    """Values of the partition columns as strings, by physical name."""

    statistics: str | None
    """Statistics as JSON, unchanged from the log."""

    vector: VectorDescriptor | None

    @classmethod
    def of(cls, add: Mapping[str, Any]) -> Self:
        """Read an `add` action."""
        vector = add.get("deletionVector")
        return cls(
            path=add["path"],
            size_bytes=add["size"],
            partition=add.get("partitionValues") or {},
            statistics=add.get("stats"),
            vector=None if vector is None else VectorDescriptor(vector),
        )

    @classmethod
    def of_logged(cls, file: LoggedFile) -> Self:
        """Convert a file of a version's listing."""
        return cls.of({**json.loads(file.action)["add"], "stats": file.statistics})

    @property
    def with_all_rows(self) -> SourceFile:
        """The file without its deletion vector."""
        return replace(self, vector=None)

    @property
    def name(self) -> str:
        """Name of the file's copy; it depends only on the path."""
        return name_of(self.path, RowOrder.KEPT, "0")

    @property
    def below(self) -> str:
        """Decoded path below the table's folder; valid only if the file is not elsewhere."""
        return unquote(self.path)

    @property
    def is_elsewhere(self) -> bool:
        """True unless the log names the file and its vector by plain paths below the table's folder."""
        return not is_below(self.path) or (self.vector is not None and self.vector.is_elsewhere)

    @property
    def deleted(self) -> int:
        """Number of rows that the file's deletion vector hides."""
        return 0 if self.vector is None else self.vector.cardinality

    def logged_values(self, columns: Sequence[str]) -> LoggedValues:
        """Return the log's facts about the values of some columns, given by their physical names."""
        add = {"path": self.path, "stats": self.statistics, "partitionValues": self.partition}
        return values_of(add, columns)

    def counts(self, columns: Sequence[str]) -> tuple[int | None, dict[str, int]]:
        """Return the number of rows, deleted ones included, and the nulls of some columns by physical name, as far as the log has them."""
        stats = LoggedStatistics.of(self.statistics) if columns else LoggedStatistics.of_rows(self.statistics)
        nulls = {name: stats.null_count(name) for name in columns}
        return stats.rows, {name: count for name, count in nulls.items() if count is not None}


def values_of(add: Mapping[str, Any], columns: Sequence[str]) -> LoggedValues:
    """Return the facts of an `add` action about the values of some columns, given by their physical names."""
    stats = LoggedStatistics.of(add.get("stats"))
    return LoggedValues(
        path=add["path"],
        rows=stats.rows,
        action=without_statistics(add),
        deleted=(add.get("deletionVector") or {}).get("cardinality", 0),
        smallest=tuple(stats.smallest.get(name) for name in columns),
        largest=tuple(stats.largest.get(name) for name in columns),
        nulls=tuple(stats.null_count(name) for name in columns),
        partition=add.get("partitionValues") or {},
    )


def without_statistics(add: Mapping[str, Any]) -> str:
    """Return an `add` action as a line of a commit, without its statistics: a kilobyte per file that reads do not need."""
    return json.dumps({"add": {name: value for name, value in add.items() if name != "stats"}})
