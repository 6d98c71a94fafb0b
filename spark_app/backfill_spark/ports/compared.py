"""The part of a source that a receipt compares: rows, and the files that contain them if there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from backfill_core.positions.file_ranges import FileRange
from backfill_core.positions.offsets import OffsetRange, Offsets
from backfill_core.protocol.work import Position
from backfill_spark.ports.source import SupportsFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.delta.listing.logged_files import LoggedFiles


class ComparedFiles(Protocol):
    """The whole files among the rows that a receipt compares."""

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield the `add` action of each of these files, with its statistics."""

    def are_all(self, paths: frozenset[str]) -> bool:
        """Return True if all compared rows are in files of these paths."""

    def without(self, paths: frozenset[str]) -> DataFrame:
        """Return the compared rows except those in files of these paths; lazy."""


@dataclass(frozen=True)
class FilesOfVersion:
    """All files of a version."""

    source: SupportsFiles
    version: int

    @cached_property
    def _files(self) -> LoggedFiles:
        return self.source.files_of(self.version)

    def entries(self) -> Iterator[dict[str, Any]]:
        """See `ComparedFiles`."""
        return self._files.entries()

    def are_all(self, paths: frozenset[str]) -> bool:
        """See `ComparedFiles`."""
        return all(path in paths for path in self._files.paths)

    def without(self, paths: frozenset[str]) -> DataFrame:
        """See `ComparedFiles`."""
        left = [index for index, path in enumerate(self._files.paths) if path not in paths]
        return self.source.rows_of([self._files.action(index) for index in left], self.version)


@dataclass(frozen=True)
class FilesOfRanges:
    """The whole files among ranges of the pinned version."""

    source: SupportsFiles
    version: int
    ranges: Sequence[FileRange]
    read: Callable[[Sequence[FileRange]], DataFrame]

    @cached_property
    def _files(self) -> LoggedFiles:
        return self.source.files_of(self.version)

    def entries(self) -> Iterator[dict[str, Any]]:
        """See `ComparedFiles`."""
        return (self._files.entry(index) for index in dict.fromkeys(part.file for part in self.ranges if part.whole))

    def _left(self, paths: frozenset[str]) -> list[FileRange]:
        return [part for part in self.ranges if not (part.whole and self._files.paths[part.file] in paths)]

    def are_all(self, paths: frozenset[str]) -> bool:
        """See `ComparedFiles`."""
        return not self._left(paths)

    def without(self, paths: frozenset[str]) -> DataFrame:
        """See `ComparedFiles`."""
        return self.read(self._left(paths))


@dataclass(frozen=True)
class ComparedRows:
    """Rows of the source that a receipt compares."""

    rows: DataFrame
    """Before the transform; lazy."""

    count: Callable[[], int]
    """Counts these rows, including those that the filter excludes."""

    total: int | None
    """Number of all rows of the source; `None` if all of them are compared."""

    ranges: tuple[OffsetRange, ...] | None = None
    """Offsets of the rows; `None` if the source has none."""

    oldest: Offsets = field(default_factory=dict)
    """Partitions whose first rows the source has deleted, with the offset of the oldest row that it still has."""

    later: Callable[[Position], DataFrame | None] = lambda _: None
    """Returns the newer rows up to a position; only for a compacted source, which removes a row after a newer one replaced it."""

    files: ComparedFiles | None = None
    """Files that contain the rows; `None` if the rows are not in files that can be compared."""
