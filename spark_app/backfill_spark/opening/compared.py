"""What of a source a receipt compares: rows, and the files that they are in, where there are some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.work import FileRange, Position
from backfill_spark.ports.source import SupportsFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.delta.log import LoggedFile


class ComparedFiles(Protocol):
    """The whole files among the rows that a receipt compares."""

    @property
    def listed(self) -> Sequence[LoggedFile]:
        """Return them."""

    def are_all(self, paths: frozenset[str]) -> bool:
        """Are all compared rows in files of these paths?"""

    def without(self, paths: frozenset[str]) -> DataFrame:
        """Return the compared rows, but those in files of these paths; lazy."""


@dataclass(frozen=True)
class FilesOfVersion:
    """All files of a version."""

    source: SupportsFiles
    version: int

    @cached_property
    def listed(self) -> Sequence[LoggedFile]:
        """See `ComparedFiles`."""
        return self.source.files_of(self.version)

    def are_all(self, paths: frozenset[str]) -> bool:
        """See `ComparedFiles`."""
        return all(one.path in paths for one in self.listed)

    def without(self, paths: frozenset[str]) -> DataFrame:
        """See `ComparedFiles`."""
        return self.source.rows_of([one.action for one in self.listed if one.path not in paths], self.version)


@dataclass(frozen=True)
class FilesOfRanges:
    """The whole files among ranges of the pinned version."""

    source: SupportsFiles
    version: int
    ranges: Sequence[FileRange]
    read: Callable[[Sequence[FileRange]], DataFrame]

    @cached_property
    def _by_index(self) -> Mapping[int, LoggedFile]:
        files = self.source.files_of(self.version)
        return {one.file: files[one.file] for one in self.ranges if one.whole}

    @property
    def listed(self) -> Sequence[LoggedFile]:
        """See `ComparedFiles`."""
        return list(self._by_index.values())

    def _left(self, paths: frozenset[str]) -> list[FileRange]:
        return [one for one in self.ranges if not (one.whole and self._by_index[one.file].path in paths)]

    def are_all(self, paths: frozenset[str]) -> bool:
        """See `ComparedFiles`."""
        return not self._left(paths)

    def without(self, paths: frozenset[str]) -> DataFrame:
        """See `ComparedFiles`."""
        return self.read(self._left(paths))


@dataclass(frozen=True)
class ComparedRows:
    """What of the source a receipt compares."""

    rows: DataFrame
    """Before the transform; lazy."""

    count: Callable[[], int]
    """How many that are, with those that the filter leaves out."""

    total: int | None
    """Rows of the source in all; None: those that are compared."""

    ranges: tuple[OffsetRange, ...] | None = None
    """Their offsets; None: the source has none."""

    later: Callable[[Position], DataFrame | None] = lambda _: None
    """The newer rows up to a position, of a source that removes a row which a newer one has replaced."""

    files: ComparedFiles | None = None
    """None: the rows are in no files that could be compared."""
