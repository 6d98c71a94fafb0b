"""Parameters of the rearranged chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, StrictInt

from backfill_api.spec.params import SourceAbility, StrategyParams, TargetAbility, Variant


class RearrangedChainParams(StrategyParams):
    """A baseline to compare with: as `Snapshot`, but an attempt that did not catch up begins anew, and its rows are removed."""

    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset(
        {"split_target_seconds", "max_in_flight", "change_batch_seconds", "queue_max"}
    )

    split_target_seconds: Annotated[StrictInt, Field(ge=1, le=600)] = 4
    """How long one split should take at full speed; a change counts from the next attempt."""

    max_in_flight: Annotated[StrictInt, Field(ge=1, le=64)] = 2
    """Splits that are read at the same time; a change counts from the next attempt."""

    change_batch_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] = 10
    """How long one batch of changes should take; a change counts from the next attempt."""

    queue_max: Annotated[StrictInt, Field(ge=1, le=100_000)] = 1000
    """Barriers that overtook the data whose places are kept; of more only the newest counts."""

    @property
    def doubts(self) -> Mapping[str, str]:
        """It is a baseline."""
        return {
            "NotResumable": "an attempt that ends before the job has caught up is not continued, whatever ends it: its rows "
            "leave the target, and the job begins anew.",
            "MayNotCatchUp": "the job has caught up once the source is quiet for as long as a batch of changes takes; the "
            f"queue of barriers that wait for their data has {self.queue_max:,} places.",
        }

    def rows_per_split(self, rows_per_s: float) -> int:
        """As `maxInFlight` splits share the rate."""
        return max(1, int(rows_per_s * self.split_target_seconds / self.max_in_flight))


VARIANT = Variant(
    "RearrangedChain",
    RearrangedChainParams,
    needs=frozenset({SourceAbility.PIN, SourceAbility.CHANGES, TargetAbility.SEGMENTS, TargetAbility.START_OVER}),
)
