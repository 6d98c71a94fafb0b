"""Files of a live table that a job still has to fill, and their order.

The table's log holds the whole progress: a filled file has the job's tag, and every other file is a file to do unless its statistics
exclude it. A file that OPTIMIZE or MERGE made of filled files has no tag, so a later round finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from backfill_core.log_shipping.actions import DeletionVector

TAG: Final = "backfill.inPlace."
"""Start of the tags of a filled file, one a column; the value identifies the expressions of the job."""


APPENDS: Final = frozenset({"WRITE", "STREAMING UPDATE", "COPY INTO", "MERGE"})
"""Operations that add new rows; RESTORE, for example, adds old ones."""


def is_append(operation: str, *, removes: bool) -> bool:
    """Return True if a version holds only new rows: OPTIMIZE and an updating MERGE also remove files, and move old rows."""
    return operation in APPENDS and not removes


class FillState(Enum):
    """Reason why a file is, or is not, a file to do."""

    TO_DO = "it may have rows to fill"
    FILLED = "it has the job's tag"
    EMPTY = "readers see none of its rows"
    NO_NULLS = "its statistics count no null in any column to fill"
    OF_WRITERS = "a writer that fills the columns itself appended it"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file of one version of a live table."""

    path: str
    """Path as stored in the log."""

    bytes: int
    rows: int | None
    """Row count including deleted rows; `None` if the log has no count."""

    vector: DeletionVector | None = None
    tag: str = ""
    """Value of the tags of all columns to fill; empty if it lacks one, or if they differ."""

    nulls: Mapping[str, int | None] = field(default_factory=dict)
    """Null counts of the columns to fill, deleted rows included; `None`, or no entry, if the log has no count."""

    changed_ms: int = 0
    """Time at which the file was written, or at which a writer last changed its deletion vector."""

    appended_at: int | None = None
    """Version that added the file, if it holds only new rows (`is_append`); `None` if it may hold old ones, or is unknown."""

    handle: object = field(default=None, compare=False, repr=False)
    """The entry of the log; opaque to the core."""

    rows_estimated: int = 0
    """Estimate for limits and progress if the log has no count."""

    @property
    def visible(self) -> int:
        """Rows that readers see; an estimate if the log has no count."""
        rows = self.rows_estimated if self.rows is None else self.rows
        return max(0, rows - (0 if self.vector is None else self.vector.rows))


@dataclass(frozen=True, slots=True)
class FillScope:
    """Rows that a job fills."""

    tag: str
    """Value of the job's tag."""

    columns: tuple[str, ...]
    """Columns to fill."""

    fills_nulls: bool = True
    """True if only rows are filled in which the column is null, so that null counts can exclude a file."""

    writers_since: int | None = None
    """Version from which on writers fill the columns of their new rows; `None` if they may not."""

    def state(self, file: LiveFile) -> FillState:
        """Return the state of a file."""
        if file.tag == self.tag:
            return FillState.FILLED
        if file.rows is not None and file.rows <= (0 if file.vector is None else file.vector.rows):
            return FillState.EMPTY
        if self.fills_nulls and all(file.nulls.get(name) == 0 for name in self.columns):
            return FillState.NO_NULLS
        since = self.writers_since
        if since is not None and file.appended_at is not None and file.appended_at >= since:
            return FillState.OF_WRITERS
        return FillState.TO_DO

    def to_do(self, files: Iterable[LiveFile]) -> tuple[LiveFile, ...]:
        """Return the files to do, those that no writer changed for the longest time first."""
        waiting = (file for file in files if self.state(file) is FillState.TO_DO)
        return tuple(sorted(waiting, key=lambda file: (file.changed_ms, file.path)))
