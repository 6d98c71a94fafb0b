"""How the rearranged chain runs; the words that a user sets are in the contract, so that the CRD has them."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.spec.spec import BackfillSpec
from backfill_api.spec.strategies.rearranged_chain import RearrangedChainParams
from backfill_core.phases.copy import CopySettings

READS_AHEAD_INTERVAL_MS = 1500


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """How the machine runs; none of it changes the result."""

    merges: bool
    """Changes are merged (Upsert); else staged and sealed like splits (Append, Changelog)."""

    filtered: bool
    """The transform drops rows, so rows sealed need not equal rows of the source."""

    in_flight_max: int = 2
    split_target_s: float = 4.0
    batch_target_s: float = 10.0
    follow: bool = False
    reads_ahead: bool = True
    queue_max: int = 1000
    """Phantoms that may wait."""

    @property
    def copy(self) -> CopySettings:
        """What of it the copy needs."""
        return CopySettings(self.filtered, self.in_flight_max, self.split_target_s, self.reads_ahead)

    @classmethod
    def of(cls, spec: BackfillSpec) -> ChainSettings:
        """Read them from a spec."""
        params = spec.strategy.params
        assert isinstance(params, RearrangedChainParams)
        return cls(
            merges=spec.target.params.write_mode == "Upsert",
            filtered=spec.transform.where is not None,
            in_flight_max=params.max_in_flight,
            split_target_s=params.split_target_seconds,
            batch_target_s=params.change_batch_seconds,
            follow=spec.after == "Follow",
            reads_ahead=spec.barrier.interval_ms <= READS_AHEAD_INTERVAL_MS,
            queue_max=params.queue_max,
        )
