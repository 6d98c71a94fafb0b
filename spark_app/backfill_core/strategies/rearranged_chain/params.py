"""Settings of RearrangedChain; the API package defines the parameters that users set, for the CRD."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_api.spec.spec import BackfillSpec
from backfill_api.spec.strategies.rearranged_chain import RearrangedChainParams
from backfill_core.phases.copy_replay import CopyReplaySettings


@dataclass(frozen=True, slots=True)
class ChainSettings(CopyReplaySettings):
    """Settings of the state machine; none of them changes the result."""

    queue_max: int = 1000
    """Maximum number of waiting phantoms."""

    @classmethod
    def of(cls, spec: BackfillSpec) -> ChainSettings:
        """Read the settings from a spec."""
        params = spec.strategy.params
        assert isinstance(params, RearrangedChainParams)
        return replace(cls.shared(spec), queue_max=params.queue_max)
