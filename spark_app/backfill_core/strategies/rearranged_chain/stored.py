"""State of the rearranged chain that is stored in the target.

Only a state in the phase `Forwarding` can be resumed. An earlier state only reports progress while no driver runs: the next attempt
removes its rows from the target and starts from the beginning (R-CHAIN-15).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from backfill_core.phases.change_batch import AnnouncedMerge, encode_parts, read_parts
from backfill_core.phases.copied_state import recalled
from backfill_core.positions.change_parts import ChangeParts
from backfill_core.positions.intervals import IntervalSet
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import OpenRequest, Pinned, PinVersion, StartOver, StoredSummary

REARRANGING, DRAINING, FORWARDING = "Rearranging", "Draining", "Forwarding"
PHASES = (REARRANGING, DRAINING, FORWARDING)


@dataclass(frozen=True, slots=True)
class ChainStored:
    """State without the queue of phantoms; its size does not depend on the size of the table."""

    version: int
    table_id: str
    fingerprint: str
    rows: int
    """Rows of the row index, including deleted rows."""

    rows_read: int
    """Rows committed in files of the snapshot."""

    rows_live: int
    splits: int
    phase: str
    done: IntervalSet
    consumed: int
    merging: AnnouncedMerge | None
    key_proven: bool
    rows_filtered: int = 0
    """Rows of the snapshot that the filter dropped; 0 in a state of an earlier release."""

    parts: ChangeParts | None = None
    """Position inside the batch after `consumed`; `None` if no batch is merged in parts."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        return {
            "version": self.version,
            "tableId": self.table_id,
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "rowsRead": self.rows_read,
            "rowsLive": self.rows_live,
            **({"rowsFiltered": self.rows_filtered} if self.rows_filtered else {}),
            "splits": self.splits,
            "phase": self.phase,
            "done": self.done.to_json(),
            "consumed": self.consumed,
            "merging": None if self.merging is None else self.merging.encode(),
            "keyProven": self.key_proven,
            **encode_parts(self.parts),
        }

    @property
    def forwarding(self) -> bool:
        """Return true if the job had caught up, so that the next attempt resumes."""
        return self.phase == FORWARDING

    def recall(self, pinned: Pinned) -> Pinned:
        """Return the facts of the pinned version. The job does not read it again, so it may be deleted (R-CHAIN-2)."""
        return recalled(pinned, self.version, self.table_id, self.fingerprint, rows=self.rows, live=self.rows_live)


def decode(value: Mapping[str, Any]) -> ChainStored:
    """Decode the result of `ChainStored.encode`.

    Raises:
        StateMismatchError: A field is invalid; the message names the first one.
    """
    fields = StoredFields("rearrangedChain", value)
    merging = fields.part("merging")
    return ChainStored(
        version=fields.typed("version", int),
        table_id=fields.typed("tableId", str),
        fingerprint=fields.typed("fingerprint", str),
        rows=fields.typed("rows", int),
        rows_read=fields.typed("rowsRead", int),
        rows_live=fields.typed("rowsLive", int),
        splits=fields.typed("splits", int),
        phase=fields.one_of("phase", PHASES),
        done=fields.parsed("done", IntervalSet.from_json),
        consumed=fields.typed("consumed", int),
        merging=None if merging is None else AnnouncedMerge.of(merging),
        key_proven=fields.typed("keyProven", bool),
        rows_filtered=fields.typed("rowsFiltered", int) if "rowsFiltered" in value else 0,
        parts=read_parts(fields),
    )


def open_request(stored: ChainStored | None) -> OpenRequest:
    """Resume only a job that has caught up; otherwise drop the rows, and start over (R-CHAIN-15)."""
    if stored is None:
        return PinVersion()
    if not stored.forwarding:
        return StartOver(drop_rows=True)
    return PinVersion(stored.version, None if stored.consumed == stored.version else stored.consumed, stored.table_id)


def summarize(stored: ChainStored) -> StoredSummary:
    """Summarize the job's progress; states of earlier releases count filtered rows only after all rows were read."""
    counted = stored.rows_live - stored.rows_read if stored.done.size == stored.rows else 0
    filtered = max(stored.rows_filtered, counted)
    summary = StoredSummary(stored.phase, stored.rows_live, stored.rows_read + filtered, filtered, stored.splits)
    return summary if stored.parts is None else replace(summary, position=stored.parts.describe())
