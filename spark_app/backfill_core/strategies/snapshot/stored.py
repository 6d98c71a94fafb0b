"""What Snapshot stores in the target: a typed value, and its JSON form.

Earlier releases stored the phase `CatchUp` as `LogStore`, and no number of live rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from backfill_core.phases.replay import AnnouncedMerge
from backfill_core.positions.done_files import Done, from_json
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import OpenRequest, Pinned, PinVersion, StoredSummary

SNAPSHOT, CATCH_UP, LIVE = "Snapshot", "CatchUp", "Live"
PHASES = {name: name for name in (SNAPSHOT, CATCH_UP, LIVE)} | {"LogStore": CATCH_UP}


@dataclass(frozen=True, slots=True)
class SnapshotStored:
    """Everything that a new attempt needs; bounded, whatever the size of the table."""

    version: int
    table_id: str
    fingerprint: str
    rows: int
    """Of the row index, deleted ones included."""

    rows_read: int
    """Committed in files of the snapshot."""

    rows_live: int | None
    splits: int
    files: int
    phase: str
    done: Done
    consumed: int
    merging: AnnouncedMerge | None
    key_proven: bool
    """Was the key proven unique, in the source or in the target? Nothing is merged before, where it must be."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        merging = self.merging
        return {
            "version": self.version,
            "tableId": self.table_id,
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "rowsRead": self.rows_read,
            "rowsLive": self.rows_live,
            "splits": self.splits,
            "files": self.files,
            "phase": self.phase,
            "done": self.done.to_json(),
            "consumed": self.consumed,
            "merging": None if merging is None else {**merging.encode(), "whole": merging.whole},
            "keyProven": self.key_proven,
        }

    @property
    def consumed_version(self) -> int | None:
        """The version that the target is complete up to; None while rows of the snapshot are missing."""
        return None if self.phase == SNAPSHOT else self.consumed

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
            order=None,
            rows_live=live,
        )


def decode(value: Mapping[str, Any]) -> SnapshotStored:
    """Read what `SnapshotStored.encode` returned.

    Raises:
        StateMismatchError: names the first field that does not fit.
    """
    fields = StoredFields("snapshot", value)
    merging = fields.part("merging")
    return SnapshotStored(
        version=fields.typed("version", int),
        table_id=fields.typed("tableId", str),
        fingerprint=fields.typed("fingerprint", str),
        rows=fields.typed("rows", int),
        rows_read=fields.typed("rowsRead", int),
        rows_live=fields.typed("rowsLive", int) if value.get("rowsLive") is not None else None,
        splits=fields.typed("splits", int),
        files=fields.typed("files", int),
        phase=PHASES[fields.one_of("phase", PHASES)],
        done=fields.parsed("done", from_json),
        consumed=fields.typed("consumed", int),
        merging=None if merging is None else AnnouncedMerge.of(merging),
        key_proven=value.get("keyProven") is True,
    )


def open_request(stored: SnapshotStored | None) -> OpenRequest:
    """Pin the version of the state (R-SNAP-8); once all of it was read, the one consumed last will do."""
    if stored is None:
        return PinVersion()
    consumed = stored.consumed_version
    return PinVersion(stored.version, None if consumed == stored.version else consumed, stored.table_id)


def summarize(stored: SnapshotStored) -> StoredSummary:
    """Say how far the job is; how many rows the filter left out is known once every row had its turn."""
    live = stored.rows_live
    known = stored.phase != SNAPSHOT and live is not None
    left_out = (live or 0) - stored.rows_read if known else None
    return StoredSummary(stored.phase, stored.rows if live is None else live, left_out)
