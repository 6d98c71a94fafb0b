"""Order in which the files of a pinned version are read, and the progress in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileOrder:
    """Order in which the files of a pinned version are read, by a column's statistics in the log."""

    column: str
    direction: str
    """Ascending or Descending."""

    files: tuple[int, ...]
    """Indexes in path order, each of them once; files without statistics come last, in path order."""

    marks: tuple[str | None, ...]
    """For each of `files`, a value that no row of it or of a later file precedes; `None` if unknown."""

    overlap_percent: int = 0
    """Percent of pairs of files whose values overlap; 0 if the files separate the values perfectly."""

    files_unknown: int = 0
    """Number of files without statistics."""


@dataclass(frozen=True, slots=True)
class OrderWatermark:
    """A value in the order of reading before which all rows of the pinned version are in the target."""

    column: str
    direction: str
    value: str
    """The value in the column's own format."""
