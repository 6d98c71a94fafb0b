"""State of Snapshot that is stored in the target: a typed value, and its JSON form.

Earlier releases stored the phase `CatchUp` as `LogStore`, and did not store the number of live rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.phases.copied_state import CopiedState
from backfill_core.phases.replay import AnnouncedMerge
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import OpenRequest, PinVersion, StoredSummary

SNAPSHOT, CATCH_UP, LIVE = "Snapshot", "CatchUp", "Live"
PHASES = {name: name for name in (SNAPSHOT, CATCH_UP, LIVE)} | {"LogStore": CATCH_UP}


@dataclass(frozen=True, slots=True)
class SnapshotStored:
    """State that a new attempt resumes from; its size does not depend on the size of the table."""

    copied: CopiedState
    phase: str
    consumed: int
    merging: AnnouncedMerge | None
    key_proven: bool
    """True if the key was proven unique, in source or target. If the proof is required, no change is merged before it."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        merging = self.merging
        return {
            **self.copied.encode(),
            "phase": self.phase,
            "consumed": self.consumed,
            "merging": None if merging is None else {**merging.encode(), "whole": merging.whole},
            "keyProven": self.key_proven,
        }

    @property
    def consumed_version(self) -> int | None:
        """Return the version that the target is complete up to; `None` while rows of the snapshot are missing."""
        return None if self.phase == SNAPSHOT else self.consumed


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
    )


def open_request(stored: SnapshotStored | None) -> OpenRequest:
    """Pin the version of the state (R-SNAP-8); after the copy, the last consumed version suffices."""
    return PinVersion() if stored is None else stored.copied.open_request(stored.consumed_version)


def summarize(stored: SnapshotStored) -> StoredSummary:
    """Summarize the job's progress."""
    return stored.copied.summary(stored.phase, copied=stored.phase != SNAPSHOT)
