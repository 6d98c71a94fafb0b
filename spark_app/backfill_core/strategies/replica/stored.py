"""State of Replica that is stored in the target: progress of the copy, and the last shipped version of the log.

The state contains no list of files: the name of a target file identifies its source file (`positions/source_names.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.phases.copied_state import CopiedState
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import OpenRequest, PinVersion, StoredSummary

SNAPSHOT, CATCH_UP, LIVE = "Snapshot", "CatchUp", "Live"
PHASES = (SNAPSHOT, CATCH_UP, LIVE)


@dataclass(frozen=True, slots=True)
class ReplicaStored:
    """State that a new attempt resumes from; its size does not depend on the size of the table."""

    copied: CopiedState
    phase: str
    shipped: int
    """The source version whose files the target has; the pinned version while its rows are incomplete."""

    laid_out: int | None = None
    """The source version whose columns the target has; `None` for the pinned version."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        later = {} if self.laid_out is None else {"laidOut": self.laid_out}
        return {**self.copied.encode(), "phase": self.phase, "shipped": self.shipped, **later}


def decode(value: Mapping[str, Any]) -> ReplicaStored:
    """Decode the result of `ReplicaStored.encode`.

    Raises:
        StateMismatchError: A field is invalid; the message names the first one.
    """
    fields = StoredFields("replica", value)
    copied, shipped = CopiedState.read(fields), fields.typed("shipped", int)
    if shipped < copied.version:
        raise fields.unfit("shipped")
    laid_out = fields.typed("laidOut", int) if fields.value.get("laidOut") is not None else None
    phase = fields.one_of("phase", PHASES)
    if laid_out is not None and (phase == SNAPSHOT or not copied.version < laid_out <= shipped):
        raise fields.unfit("laidOut")
    return ReplicaStored(copied, phase, shipped, laid_out)


def open_request(stored: ReplicaStored | None) -> OpenRequest:
    """Pin the version of the state; after the copy, the last shipped version suffices.

    After the target followed a schema change, only the last shipped version has the target's columns.
    """
    if stored is None:
        return PinVersion()
    if stored.laid_out is not None:
        return PinVersion(stored.shipped, None, stored.copied.table_id)
    return stored.copied.open_request(None if stored.phase == SNAPSHOT else stored.shipped)


def summarize(stored: ReplicaStored) -> StoredSummary:
    """Summarize the job's progress."""
    return stored.copied.summary(stored.phase, copied=stored.phase != SNAPSHOT)
