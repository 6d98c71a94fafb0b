"""A batch of changes, from its announcement to its commit; `phases/replay.py` has its states."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from backfill_core.positions.change_parts import ChangeParts, KeyPart
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.work import ChangesApplied, VersionsShipped


@dataclass(frozen=True, slots=True)
class ReplayBatch:
    """The versions `(after, upto]`."""

    after: int
    upto: int
    txn: int
    """Transaction version of the MERGE; 0 if the batch is staged."""

    whole: bool
    """True if the batch contains all versions that were pending when it was planned."""

    left: int = 0
    """Versions that were pending at that time and are not in the batch."""

    part: KeyPart | None = None
    """The keys that are merged now; `None` if the batch is merged whole."""

    @property
    def is_last(self) -> bool:
        """True if the target holds all changes of the batch once this part is merged."""
        return self.part is None or self.part.is_last


@dataclass(frozen=True, slots=True)
class AnnouncedMerge:
    """A MERGE as the commit that announces it stores it. It happened if the target contains its transaction version."""

    upto: int
    txn: int
    whole: bool = False
    """True if the batch contains all pending versions; only the Snapshot strategy stores it."""

    @classmethod
    def of(cls, stored: StoredFields) -> AnnouncedMerge:
        """Read an announced MERGE from a stored state."""
        return cls(stored.typed("upto", int), stored.typed("txn", int), stored.value.get("whole") is True)

    def encode(self) -> dict[str, Any]:
        """Return the JSON value, without `whole`."""
        return {"upto": self.upto, "txn": self.txn}


def encode_parts(parts: ChangeParts | None) -> dict[str, Any]:
    """Return the field of a stored state that holds the position inside a batch; no field without one."""
    return {} if parts is None else {"parts": parts.encode()}


def read_parts(stored: StoredFields) -> ChangeParts | None:
    """Read the output of `encode_parts`; states of earlier releases have none.

    Raises:
        StateMismatchError: the field is invalid.
    """
    return stored.parsed("parts", ChangeParts.from_json) if "parts" in stored.value else None


@dataclass(frozen=True, slots=True)
class AnnouncedBatch:
    """A commit announces that the next transaction of the job is the MERGE of this batch."""

    batch: ReplayBatch


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """The work of the batch is under way."""

    batch: ReplayBatch
    work_id: int
    since_s: float


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """The rows of the batch are merged or staged, and no commit records it yet."""

    batch: ReplayBatch
    result: ChangesApplied | VersionsShipped


ChangeBatch = AnnouncedBatch | RunningBatch | AppliedBatch | None


class ChangeMode(Enum):
    """Method by which changes enter the target."""

    MERGED = auto()
    """Merged by key, in separate commits."""

    STAGED = auto()
    """Staged as rows; commits include them like those of a split."""

    SHIPPED = auto()
    """Shipped as added and removed files, as recorded in the source's log."""

    @classmethod
    def of(cls, *, merges: bool) -> ChangeMode:
        """Return the method for a target that is merged into, or only appended to."""
        return cls.MERGED if merges else cls.STAGED
