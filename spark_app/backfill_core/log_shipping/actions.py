"""File actions of a table's log, as its commits have them."""

from __future__ import annotations

from dataclasses import dataclass, field

UNIQUE_DIGITS = 20
"""Of the identifier of a file of vectors, after the name of its folder."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Which rows of a file are deleted: where that is written, and how many they are."""

    storage: str
    """`u`: a file of the table, named by an identifier; `i`: in the log itself; `p`: a file at an absolute path."""

    place: str
    """The identifier with the folder before it, the vector itself, or the path."""

    offset: int | None
    """Of the vector in its file, bytes."""

    bytes: int
    rows: int
    """How many rows it hides."""

    def hides_the_same(self, other: DeletionVector) -> bool:
        """Does it hide what another one does? A file of vectors may lie in another folder; False: it may all the same."""
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
    """A file that belongs to the table from a version on, or a file of it under another deletion vector."""

    path: str
    """As the log spells it: relative to the table or absolute, percent-encoded."""

    bytes: int
    rows: int | None
    """Deleted ones included; None: the log does not say."""

    data_change: bool
    """Do its rows differ from those that left with the files of the same version?"""

    vector: DeletionVector | None
    action: str
    """The whole `add` action, as a line of a commit."""

    @property
    def live_rows(self) -> int:
        """Rows that a reader sees; 0 where the log has no count."""
        return (self.rows or 0) - (0 if self.vector is None else self.vector.rows)


@dataclass(frozen=True, slots=True)
class FileRemoved:
    """A file that left the table, or that stays under the deletion vector of a `FileAdded` in the same version."""

    path: str
    data_change: bool
    live_rows: int | None = None
    """Rows that a reader saw; None: the log does not say."""


@dataclass(frozen=True, slots=True)
class VersionActions:
    """The file actions of one version, in any order: a version is one step."""

    version: int
    files: tuple[FileAdded | FileRemoved, ...]
    layout: object | None = field(default=None, compare=False, repr=False)
    """How the table is laid out from this version on, where that is otherwise than before; opaque to the core."""

    rows_copied: int = 0
    """Rows that the version moved unchanged from files that it removed to files that it added, as its writer counted them."""

    @property
    def rows_changed(self) -> int:
        """Rows that came, went or are hidden otherwise; without a count of its writer, all rows of a file that it rewrote."""
        removed = {one.path: one.live_rows for one in self.files if isinstance(one, FileRemoved) and one.data_change}
        added = {one.path: one.live_rows for one in self.files if isinstance(one, FileAdded) and one.data_change}
        both = added.keys() & removed.keys()
        hidden = sum(abs(added[path] - (removed[path] or 0)) for path in both)
        came, gone = (sum(rows or 0 for path, rows in some.items() if path not in both) for some in (added, removed))
        return hidden + max(0, came - self.rows_copied) + max(0, gone - self.rows_copied)
