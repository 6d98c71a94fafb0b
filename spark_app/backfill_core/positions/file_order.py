"""In which order the files of a pinned version are read, and how far that is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileOrder:
    """In which order the files of a pinned version are read: by what the log says of a column's values in them."""

    column: str
    direction: str
    """Ascending or Descending."""

    files: tuple[int, ...]
    """Indexes in path order, each of them once; files of which the log says nothing come last, in path order."""

    marks: tuple[str | None, ...]
    """Of each of `files`: no row of it, or of a file behind it, has a value that comes before this one; None: not known."""

    overlap_percent: int = 0
    """Of all pairs of files, those whose values overlap: 0 where the files separate the values perfectly."""

    files_unknown: int = 0
    """Files of which the log says nothing."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """Every row of the pinned version whose value comes before this one, in the order of reading, is in the target."""

    column: str
    direction: str
    value: str
    """In the column's own form."""
