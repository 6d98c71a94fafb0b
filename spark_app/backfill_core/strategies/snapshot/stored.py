"""JSON value of the state that Snapshot stores in the target.

Earlier releases stored the phase `CatchUp` as `LogStore`, and did not store the number of live rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.phases.change_batch import AnnouncedMerge, encode_parts, read_parts
from backfill_core.phases.copied_state import CATCH_UP, LIVE, SNAPSHOT, CopiedState, CopyReplayState
from backfill_core.protocol.stored_fields import StoredFields

PHASES = {name: name for name in (SNAPSHOT, CATCH_UP, LIVE)} | {"LogStore": CATCH_UP}


@dataclass(frozen=True, slots=True)
class SnapshotStored(CopyReplayState):
    """State of Snapshot."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        merging = self.merging
        return {
            **CopyReplayState.encode(self),
            "consumed": self.consumed,
            "merging": None if merging is None else {**merging.encode(), "whole": merging.whole},
            "keyProven": self.key_proven,
            **encode_parts(self.parts),
        }


def decode(value: Mapping[str, Any]) -> SnapshotStored:
    """Decode the result of `SnapshotStored.encode`.

    Raises:
        StateMismatchError: A field is invalid; the message names the first one.
    """
    fields = StoredFields("snapshot", value)
    merging = fields.part("merging")
    return SnapshotStored(
        copied=CopiedState.read(fields),
        phase=PHASES[fields.one_of("phase", PHASES)],
        consumed=fields.typed("consumed", int),
        merging=None if merging is None else AnnouncedMerge.of(merging),
        key_proven=value.get("keyProven") is True,
        parts=read_parts(fields),
    )
