"""Files that are copied: before, with their copy modes, and afterwards, as staged files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backfill_core.file_copies.copy_modes import Copying, PartlyComputed
from backfill_core.file_copies.facts import TableFacts
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.delta.vectors.bitmaps import Bitmap


@dataclass(frozen=True, slots=True)
class FilteredFile:
    """A file of the source with its failing rows."""

    source: SourceFile
    failing: Bitmap | None = None
    """Visible rows that fail the filter; `None` if there are none."""


@dataclass(frozen=True, slots=True)
class PlannedCopy:
    """A file and its copy mode."""

    file: SourceFile
    mode: Copying
    partition: Mapping[str, str | None]
    """Its partition values in the target, by physical name."""

    rows: int
    """Number of rows in the source's log, deleted ones included."""

    table: TableFacts | None = None
    """Columns of the source, against which the file's footer is checked; `None` if no check remains."""

    is_unfiltered: bool = False
    """True until its failing rows are known."""

    failing: Bitmap | None = None
    """Rows that the copy hides in addition to those that the source hides; `None` if there are none."""

    @property
    def filtered(self) -> FilteredFile:
        """The file with its failing rows."""
        return FilteredFile(self.file, self.failing)

    @property
    def has_vector(self) -> bool:
        """True if the copy has a deletion vector."""
        return self.failing is not None or self.file.vector is not None

    @property
    def is_doubtful(self) -> bool:
        """True if the footer must be read before anything is copied."""
        return isinstance(self.mode, PartlyComputed) or (self.table is not None and self.table.drops)


@dataclass(frozen=True, slots=True)
class MadeCopy:
    """An existing copy."""

    file: SourceFile
    """Its source file."""

    below: str
    """Its path below the target's folder."""

    whole: bool
    """True if it was copied byte by byte."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A file that was copied."""

    planned: PlannedCopy
    staged: StagedFile
    """The staged file; its row count excludes deleted rows."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """Files whose failing rows are known; files without a row that passes are left out."""

    copies: tuple[PlannedCopy, ...]
    decoded: tuple[PlannedCopy, ...]
    """Files of which most rows fail."""


@dataclass(frozen=True, slots=True)
class Transferred:
    """Result of copying some files."""

    copied: tuple[Copied, ...]
    vector_files: tuple[StagedFile, ...]
    """Files of their deletion vectors; without rows."""

    left: tuple[PlannedCopy, ...]
    """Files that must be decoded, because of their footers.

    The reasons: most of its rows fail the filter. The file, or a file of its computed columns, is encrypted. It has none of the kept columns. It is projected and
    has INT96. Computed columns cannot be joined to its row groups. It has a field that was dropped inside a column.
    """

    @property
    def staged(self) -> tuple[StagedFile, ...]:
        """All files that a commit contains or needs."""
        return (*(copy.staged for copy in self.copied), *self.vector_files)
