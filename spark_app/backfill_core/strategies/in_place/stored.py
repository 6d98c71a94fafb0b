"""JSON value of the state that InPlace stores in the table; the tags of files hold the progress, so the state lists no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.in_place.writer_conflicts import WriterConflicts
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import PinVersion, StoredSummary

FILLING, FILLED = "Fill", "Filled"


@dataclass(frozen=True, slots=True)
class InPlaceStored:
    """State of InPlace."""

    table_id: str
    undo_version: int
    """Version before the first commit of the job."""

    columns: tuple[str, ...]
    """Columns that the job fills; another job must not fill them meanwhile."""

    filled: int | None
    """Version without a file to do; `None` while files are left."""

    rows_total: int
    rows_done: int
    files: int
    """Files that the job replaced."""

    writer_rewrites: int = 0
    """Commits of other writers that rewrote files meanwhile."""

    writer_conflicts: int = 0
    """Transactions of other writers that may have failed because of the job."""

    def counted(self, percent_max: int) -> WriterConflicts:
        """Return the counts of earlier attempts under a limit."""
        return WriterConflicts(percent_max, self.writer_rewrites, self.writer_conflicts)

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        return {
            "tableId": self.table_id,
            "undo": self.undo_version,
            "fills": list(self.columns),
            "filled": self.filled,
            "rowsTotal": self.rows_total,
            "rowsDone": self.rows_done,
            "files": self.files,
            "rewrites": self.writer_rewrites,
            "conflicts": self.writer_conflicts,
        }


def decode(value: Mapping[str, Any]) -> InPlaceStored:
    """Decode the result of `InPlaceStored.encode`.

    Raises:
        StateMismatchError: A field is invalid; the message names the first one.
    """
    fields = StoredFields("inPlace", value)
    return InPlaceStored(
        table_id=fields.typed("tableId", str),
        undo_version=fields.count("undo"),
        columns=tuple(map(str, fields.typed("fills", list))),
        filled=fields.optional_count("filled"),
        rows_total=fields.count("rowsTotal"),
        rows_done=fields.count("rowsDone"),
        files=fields.count("files"),
        writer_rewrites=fields.optional_count("rewrites") or 0,  # earlier drivers store none
        writer_conflicts=fields.optional_count("conflicts") or 0,
    )


def open_request(stored: InPlaceStored | None) -> PinVersion:
    """Open the newest version; no older one is needed."""
    del stored
    return PinVersion()


def summarize(stored: InPlaceStored) -> StoredSummary:
    """Summarize the progress of the job."""
    phase = FILLING if stored.filled is None else FILLED
    return StoredSummary(
        phase, stored.rows_total, stored.rows_done, 0, stored.files, writer_conflicts=stored.writer_conflicts
    )
