"""What Replica stores in the target: how much of the pinned version is there, and up to which version the log was shipped.

There is no list of files in it: which file of the target belongs to which of the source is told by its name
(`positions/source_names.py`).
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
    """Everything that a new attempt needs; bounded, whatever the size of the table."""

    copied: CopiedState
    phase: str
    shipped: int
    """The version of the source whose files the target has; the pinned one while rows of that are missing."""

    laid_out: int | None = None
    """The version of the source whose columns the target has; None: they are those of the pinned one."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        later = {} if self.laid_out is None else {"laidOut": self.laid_out}
        return {**self.copied.encode(), "phase": self.phase, "shipped": self.shipped, **later}


def decode(value: Mapping[str, Any]) -> ReplicaStored:
    """Read what `ReplicaStored.encode` returned.

    Raises:
        StateMismatchError: names the first field that does not fit.
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
    """Pin the version of the state; once all of it was copied, the one that was shipped last will do.

    Once the target followed a change of columns, only that one has them.
    """
    if stored is None:
        return PinVersion()
    if stored.laid_out is not None:
        return PinVersion(stored.shipped, None, stored.copied.table_id)
    return stored.copied.open_request(None if stored.phase == SNAPSHOT else stored.shipped)


def summarize(stored: ReplicaStored) -> StoredSummary:
    """Say how far the job is."""
    return stored.copied.summary(stored.phase, copied=stored.phase != SNAPSHOT)
