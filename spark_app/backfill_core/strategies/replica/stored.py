"""JSON value of the state that Replica stores in the target: progress of the copy, and the last shipped version of the log.

The state contains no list of files: the name of a target file identifies its source file (`positions/source_names.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.phases.copied_state import CATCH_UP, LIVE, SNAPSHOT, CopiedState, CopyReplayState
from backfill_core.protocol.stored_fields import StoredFields


@dataclass(frozen=True, slots=True)
class ReplicaStored(CopyReplayState):
    """State of Replica."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        later = {} if self.reopened_at is None else {"laidOut": self.reopened_at}
        return {**CopyReplayState.encode(self), "shipped": self.consumed, **later}


def decode(value: Mapping[str, Any]) -> ReplicaStored:
    """Decode the result of `ReplicaStored.encode`.

    Raises:
        StateMismatchError: A field is invalid; the message names the first one.
    """
    fields = StoredFields("replica", value)
    copied, shipped = CopiedState.read(fields), fields.typed("shipped", int)
    if shipped < copied.version:
        raise fields.unfit("shipped")
    reopened_at = fields.typed("laidOut", int) if fields.value.get("laidOut") is not None else None
    phase = fields.one_of("phase", (SNAPSHOT, CATCH_UP, LIVE))
    if reopened_at is not None and (phase == SNAPSHOT or not copied.version < reopened_at <= shipped):
        raise fields.unfit("laidOut")
    return ReplicaStored(copied, phase, shipped, reopened_at=reopened_at)
