"""How the snapshot strategy runs; the words that a user sets are in the contract, so that the CRD has them."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.spec.spec import BackfillSpec
from backfill_api.spec.strategies.snapshot import SnapshotParams
from backfill_core.phases.copy import CopySettings
from backfill_core.phases.pending import LimitRule

READS_AHEAD_INTERVAL_MS = 1500


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """How the machine runs; none of it changes the result."""

    merges: bool
    """Changes are merged (Upsert); else staged and sealed like splits (Append, Changelog)."""

    filtered: bool
    """The transform drops rows, so rows sealed need not equal rows of the source."""

    in_flight_max: int = 2
    split_target_s: float = 4.0
    batch_target_s: float = 10.0
    follow: bool = False
    limit: LimitRule = "EpochTime"
    """How much may be pending while the job catches up."""

    reads_ahead: bool = True
    """May files be read ahead of a limit? What is kept ahead is a few seconds' worth, which slow barriers would wait for."""

    @property
    def copy(self) -> CopySettings:
        """What of it the copy needs."""
        return CopySettings(self.filtered, self.in_flight_max, self.split_target_s, self.reads_ahead)

    @classmethod
    def of(cls, spec: BackfillSpec) -> SnapshotSettings:
        """Read them from a spec."""
        params = spec.strategy.params
        assert isinstance(params, SnapshotParams)
        return cls(
            merges=spec.target.params.write_mode == "Upsert",
            filtered=spec.transform.where is not None,
            in_flight_max=params.max_in_flight,
            split_target_s=params.split_target_seconds,
            batch_target_s=params.change_batch_seconds,
            follow=spec.after == "Follow",
            limit=params.catch_up.limit,
            reads_ahead=spec.barrier.interval_ms <= READS_AHEAD_INTERVAL_MS,
        )
