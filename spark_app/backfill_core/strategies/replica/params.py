"""Settings of Replica; the API package defines the parameters that users set, for the CRD."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_api.spec.spec import BackfillSpec
from backfill_core.phases.change_batch import ChangeMode
from backfill_core.phases.copy_replay import CopyReplaySettings


@dataclass(frozen=True, slots=True)
class ReplicaSettings(CopyReplaySettings):
    """Settings of the state machine; none of them changes the result."""

    @property
    def mode(self) -> ChangeMode:
        """Return that the replica ships the source's log."""
        return ChangeMode.SHIPPED

    @classmethod
    def of(cls, spec: BackfillSpec) -> ReplicaSettings:
        """Read the settings from a spec."""
        # Reading ahead would cut files, too.
        return replace(cls.shared(spec), whole_files=True, reads_ahead=False)
