"""How the snapshot strategy runs; the words that a user sets are in the contract, so that the CRD has them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_api.spec.spec import BackfillSpec
from backfill_api.spec.strategies.snapshot import SnapshotParams
from backfill_core.phases.copy_replay import CopyReplaySettings
from backfill_core.phases.pending import LimitRule


@dataclass(frozen=True, slots=True)
class SnapshotSettings(CopyReplaySettings):
    """How the machine runs; none of it changes the result."""

    limit: LimitRule = "EpochTime"
    """How much may be pending while the job catches up."""

    @classmethod
    def of(cls, spec: BackfillSpec) -> SnapshotSettings:
        """Read them from a spec."""
        params = spec.strategy.params
        assert isinstance(params, SnapshotParams)
        return replace(cls.shared(spec), limit=params.catch_up.limit)
