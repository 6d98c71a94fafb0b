"""The copy of one pinned version as a stored state, bounded for any number of files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from backfill_core.errors import StateMismatchError
from backfill_core.phases.change_batch import AnnouncedMerge
from backfill_core.phases.copy import Copy
from backfill_core.positions.change_parts import ChangeParts
from backfill_core.positions.done_files import Done, from_json, in_row_index
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import OpenRequest, Pinned, PinVersion, StoredSummary

SNAPSHOT, CATCH_UP, LIVE = "Snapshot", "CatchUp", "Live"


@dataclass(frozen=True, slots=True)
class CopiedState:
    """The pinned version, and the part of it that was handed to a commit."""

    version: int
    table_id: str
    fingerprint: str
    rows: int
    """Rows of the row index, deleted ones included."""

    rows_read: int
    """Rows committed in files of the snapshot."""

    rows_live: int | None
    """Rows that readers see; `None` in a state of an early release, which did not store it."""

    rows_filtered: int
    """Rows of the snapshot that the filter excluded; 0 in a state of an earlier release."""

    splits: int
    files: int
    done: Done

    @classmethod
    def of(cls, copy: Copy, pinned: Pinned) -> Self:
        """Return the state that the next commit stores."""
        return cls(
            version=pinned.version,
            table_id=pinned.table_id,
            fingerprint=pinned.fingerprint,
            rows=copy.total,
            rows_read=copy.rows,
            rows_live=pinned.rows_live,
            rows_filtered=copy.rows_filtered_prepared,
            splits=copy.splits,
            files=len(pinned.rows),
            done=copy.done,
        )

    @classmethod
    def read(cls, fields: StoredFields) -> Self:
        """Read the output of `encode`; other fields may be present.

        Raises:
            StateMismatchError: the message contains the first invalid field.
        """
        return cls(
            version=fields.typed("version", int),
            table_id=fields.typed("tableId", str),
            fingerprint=fields.typed("fingerprint", str),
            rows=fields.typed("rows", int),
            rows_read=fields.typed("rowsRead", int),
            rows_live=fields.typed("rowsLive", int) if fields.value.get("rowsLive") is not None else None,
            rows_filtered=fields.typed("rowsFiltered", int) if "rowsFiltered" in fields.value else 0,
            splits=fields.typed("splits", int),
            files=fields.typed("files", int),
            done=fields.parsed("done", from_json),
        )

    def encode(self) -> dict[str, Any]:
        """Return the JSON value, to which a strategy adds its own fields."""
        return {
            "version": self.version,
            "tableId": self.table_id,
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "rowsRead": self.rows_read,
            "rowsLive": self.rows_live,
            **({"rowsFiltered": self.rows_filtered} if self.rows_filtered else {}),
            "splits": self.splits,
            "files": self.files,
            "done": self.done.to_json(),
        }

    def open_request(self, complete_up_to: int | None) -> PinVersion:
        """Request the version again. Once all of it was read, the version that the target is complete up to is sufficient."""
        return PinVersion(self.version, None if complete_up_to == self.version else complete_up_to, self.table_id)

    def summary(self, phase: str, *, copied: bool) -> StoredSummary:
        """Return the progress of the job. A state of an earlier release counts filtered rows only after all rows were read."""
        live = self.rows if self.rows_live is None else self.rows_live
        counted = live - self.rows_read if copied and self.rows_live is not None else 0
        filtered = max(self.rows_filtered, counted)
        return StoredSummary(phase, live, self.rows_read + filtered, filtered, self.splits)

    def recall(self, pinned: Pinned) -> Pinned:
        """Return the pinned version of the job. If the source no longer has it, all of it was read, and the state describes it."""
        if pinned.version == self.version:
            return pinned
        live = self.rows_read if self.rows_live is None else self.rows_live
        return recalled(pinned, self.version, self.table_id, self.fingerprint, rows=self.rows, live=live)

    def resume(self, copy: Copy, pinned: Pinned) -> None:
        """Resume a copy after the committed rows, so that no row is copied twice (R-SNAP-7, 37, 38).

        Raises:
            StateMismatchError: the pinned version now consists of other files.
        """
        if self.fingerprint != pinned.fingerprint:
            raise StateMismatchError(
                f"the files of version {self.version} of the source differ from those at the start of the job "
                f"({self.files} files, {self.rows} rows then; {len(pinned.rows)} and {copy.total} now).",
                hint="The source was replaced: give the job another jobId and another target.",
            )
        copy.resume(in_row_index(self.done, pinned.rows), self.rows_read, self.splits, self.rows_filtered)


@dataclass(frozen=True, slots=True)
class CopyReplayState:
    """State that a new attempt resumes from; its size does not depend on the size of the table.

    The JSON value belongs to the strategy.
    """

    copied: CopiedState
    phase: str
    consumed: int
    """The source version that the target is complete up to; the pinned version while its rows are incomplete."""

    merging: AnnouncedMerge | None = None
    key_proven: bool = True
    """True if the key was proven unique, in source or target. If the proof is required, no change is merged before it."""

    parts: ChangeParts | None = None
    """Position inside the batch after `consumed`; `None` if no batch is merged in parts."""

    reopened_at: int | None = None
    """The source version whose columns the target has; `None` for the pinned version."""

    def encode(self) -> dict[str, Any]:
        """Return the fields that all strategies store."""
        return {**self.copied.encode(), "phase": self.phase}


def open_request(stored: CopyReplayState | None) -> OpenRequest:
    """Pin the version of the state (R-SNAP-8); after the copy, the last consumed version suffices.

    After the target followed a schema change, only the last consumed version has the target's columns.
    """
    if stored is None:
        return PinVersion()
    if stored.reopened_at is not None:
        return PinVersion(stored.consumed, None, stored.copied.table_id)
    return stored.copied.open_request(None if stored.phase == SNAPSHOT else stored.consumed)


def summarize(stored: CopyReplayState) -> StoredSummary:
    """Summarize the job's progress."""
    position = "" if stored.parts is None else stored.parts.describe()
    return replace(stored.copied.summary(stored.phase, copied=stored.phase != SNAPSHOT), position=position)


def recalled(pinned: Pinned, version: int, table_id: str, fingerprint: str, *, rows: int, live: int) -> Pinned:
    """Return a version of which only a state is known: one file, and no fact about files of the pinned version."""
    return Pinned(version, pinned.timestamp_ms, table_id, fingerprint, (rows,), live, live=(live,))
