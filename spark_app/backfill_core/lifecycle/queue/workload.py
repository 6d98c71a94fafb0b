"""The Workload of a job as last seen, and the hash of the spec's part from which it is created."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import AttemptKind

INADMISSIBLE: Final = "Inadmissible"
"""Kueue's reason of a Workload whose queue is missing, inactive or stopped."""

_CHARACTERS: Final = 16


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """A Workload with the name of the job's own."""

    name: str
    uid: str
    ours: bool = True
    """True if this Backfill owns it."""

    made_of: str = ""
    """Hash of the part of the spec from which it was created."""

    active: bool = True
    """False if a user or Kueue has set `spec.active` to false."""

    reserved: bool = False
    """True if it holds quota."""

    admitted: bool = False
    """True if its pods may run."""

    evicted: str = ""
    """Reason and message of its eviction; empty if it is not evicted."""

    finished: bool = False
    deleted: bool = False
    """True if its deletion was requested."""

    pods_ready: bool = False
    """True if Kueue was told that its pods run."""

    reason: str = ""
    """Kueue's reason why it is not admitted."""

    message: str = ""
    """Kueue's message about that reason; empty before Kueue has considered it."""

    @property
    def may_run(self) -> bool:
        """True if its pods may run now."""
        return self.admitted and self.active and not self.evicted and not self.finished and not self.deleted


def made_of(spec: BackfillSpec, kind: AttemptKind) -> str:
    """Return the hash of the fields from which the Workload of such an attempt is created.

    Fields with default values are left out, so that a field of a later version replaces no Workload.
    """
    names = {"queue", "priority", "driver"} if kind == "Plan" else {"queue", "priority", "driver", "executor"}
    part = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, include=names)
    document = json.dumps({"kind": kind, **part}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(document.encode()).hexdigest()[:_CHARACTERS]
