"""Settings of Snapshot; the API package defines the parameters that users set, for the CRD."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_api.spec.spec import BackfillSpec
from backfill_api.spec.strategies.snapshot import SnapshotParams
from backfill_core.phases.copy_replay import CopyReplaySettings
from backfill_core.phases.pending import LimitRule


@dataclass(frozen=True, slots=True)
class SnapshotSettings(CopyReplaySettings):
    """Settings of the state machine; none of them changes the result."""

    limit: LimitRule = "EpochTime"
    """Rule that limits the pending changes while the job catches up."""

    @classmethod
    def of(cls, spec: BackfillSpec) -> SnapshotSettings:
        """Read the settings from a spec."""
        params = spec.strategy.params
        assert isinstance(params, SnapshotParams)
        return replace(cls.shared(spec), limit=params.catch_up.limit)
