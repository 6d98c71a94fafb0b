"""What a state stores of the copy of one pinned version; bounded, whatever the number of files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from backfill_core.errors import StateMismatchError
from backfill_core.phases.copy import Copy
from backfill_core.positions.done_files import Done, from_json, in_row_index
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import Pinned, PinVersion, StoredSummary


@dataclass(frozen=True, slots=True)
class CopiedState:
    """Which version it is, and how much of it was handed to a commit."""

    version: int
    table_id: str
    fingerprint: str
    rows: int
    """Of the row index, deleted ones included."""

    rows_read: int
    """Committed in files of the snapshot."""

    rows_live: int | None
    """None: an early release stored it, which did not say."""

    rows_filtered: int
    """Rows of the snapshot that the filter left out; 0 in a state of an earlier release."""

    splits: int
    files: int
    done: Done

    @classmethod
    def of(cls, copy: Copy, pinned: Pinned) -> Self:
        """Return what the next commit stores."""
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
        """Read what `encode` returned, beside whatever else is there.

        Raises:
            StateMismatchError: names the first field that does not fit.
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
        """Return the JSON value, which a strategy adds its own fields to."""
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
        """Pin the version again; once all of it was read, the one that the target is complete up to will do."""
        return PinVersion(self.version, None if complete_up_to == self.version else complete_up_to, self.table_id)

    def summary(self, phase: str, *, copied: bool) -> StoredSummary:
        """Return how far the job is; a state of an earlier release counts no filtered rows before all rows were read."""
        live = self.rows if self.rows_live is None else self.rows_live
        counted = live - self.rows_read if copied and self.rows_live is not None else 0
        filtered = max(self.rows_filtered, counted)
        return StoredSummary(phase, live, self.rows_read + filtered, filtered, self.splits)

    def recall(self, pinned: Pinned) -> Pinned:
        """Return the pinned version of the job; of one that is gone, all of which was read, what the state remembers."""
        if pinned.version == self.version:
            return pinned
        live = self.rows_read if self.rows_live is None else self.rows_live
        return replace(
            pinned,
            version=self.version,
            table_id=self.table_id,
            fingerprint=self.fingerprint,
            rows=(self.rows,),
            bytes=(),
            live=(live,),
            order=None,
            rows_live=live,
        )

    def resume(self, copy: Copy, pinned: Pinned) -> None:
        """Let a copy go on behind what is committed: no row twice (R-SNAP-7, 37, 38).

        Raises:
            StateMismatchError: the pinned version is not made of the same files any more.
        """
        if self.fingerprint != pinned.fingerprint:
            raise StateMismatchError(
                f"version {self.version} of the source is not made of the same files as when the job began "
                f"({self.files} files, {self.rows} rows then; {len(pinned.rows)} and {copy.total} now).",
                hint="The source was replaced: give the job another jobId and another target.",
            )
        copy.resume(in_row_index(self.done, pinned.rows), self.rows_read, self.splits, self.rows_filtered)
