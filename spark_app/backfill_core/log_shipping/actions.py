"""File actions of a table's log."""

from __future__ import annotations

from dataclasses import dataclass, field

UNIQUE_DIGITS = 20
"""Length of a vector file's identifier, without the folder prefix."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Reference to the deletion vector of a file, with its number of deleted rows."""

    storage: str
    """`u` for a file of the table, named by an identifier; `i` for inline in the log; `p` for a file at an absolute path."""

    place: str
    """The identifier with its folder prefix, the inline vector, or the path."""

    offset: int | None
    """Offset of the vector in its file, in bytes."""

    bytes: int
    rows: int
    """Number of rows that the vector hides."""

    def hides_the_same(self, other: DeletionVector) -> bool:
        """Return true if both vectors certainly hide the same rows. Vector files may be in different folders."""
        same = (self.storage, self.offset, self.bytes, self.rows) == (
            other.storage,
            other.offset,
            other.bytes,
            other.rows,
        )
        digits = UNIQUE_DIGITS if self.storage == "u" else 0
        return same and self.place[-digits:] == other.place[-digits:]


@dataclass(frozen=True, slots=True)
class FileAdded:
    """A file that a version adds to the table, or a file of the table with a new deletion vector."""

    path: str
    """Path as stored in the log: relative to the table or absolute, percent-encoded."""

    bytes: int
    rows: int | None
    """Row count including deleted rows; `None` if the log has no count."""

    data_change: bool
    """True if its rows differ from the rows of the files that the same version removes."""

    vector: DeletionVector | None
    action: str
    """The whole `add` action, as a line of a commit."""

    @property
    def live_rows(self) -> int:
        """Return the number of rows that a reader sees; 0 if the log has no count."""
        return (self.rows or 0) - (0 if self.vector is None else self.vector.rows)


@dataclass(frozen=True, slots=True)
class FileRemoved:
    """A file that a version removes; it stays if the same version adds it with another deletion vector."""

    path: str
    data_change: bool
    live_rows: int | None = None
    """Number of rows that a reader saw; `None` if the log has no count."""


@dataclass(frozen=True, slots=True)
class VersionActions:
    """File actions of one version, in any order: a version is atomic."""

    version: int
    files: tuple[FileAdded | FileRemoved, ...]
    layout: object | None = field(default=None, compare=False, repr=False)
    """The table's layout from this version on; `None` if unchanged. Opaque to the core."""

    rows_copied: int = 0
    """Rows that the version moved unchanged from removed to added files, as counted by its writer."""

    @property
    def rows_changed(self) -> int:
        """Return the number of added, removed, newly hidden and restored rows.

        If the writer did not count copied rows, all rows of a rewritten file count.
        """
        removed = {
            file.path: file.live_rows for file in self.files if isinstance(file, FileRemoved) and file.data_change
        }
        added = {file.path: file.live_rows for file in self.files if isinstance(file, FileAdded) and file.data_change}
        both = added.keys() & removed.keys()
        hidden = sum(abs(added[path] - (removed[path] or 0)) for path in both)
        new, old = (sum(rows or 0 for path, rows in side.items() if path not in both) for side in (added, removed))
        return hidden + max(0, new - self.rows_copied) + max(0, old - self.rows_copied)
