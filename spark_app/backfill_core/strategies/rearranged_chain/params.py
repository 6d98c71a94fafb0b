"""How the rearranged chain runs; the words that a user sets are in the contract, so that the CRD has them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_api.spec.spec import BackfillSpec
from backfill_api.spec.strategies.rearranged_chain import RearrangedChainParams
from backfill_core.phases.copy_replay import CopyReplaySettings


@dataclass(frozen=True, slots=True)
class ChainSettings(CopyReplaySettings):
    """How the machine runs; none of it changes the result."""

    queue_max: int = 1000
    """Phantoms that may wait."""

    @classmethod
    def of(cls, spec: BackfillSpec) -> ChainSettings:
        """Read them from a spec."""
        params = spec.strategy.params
        assert isinstance(params, RearrangedChainParams)
        return replace(cls.shared(spec), queue_max=params.queue_max)
