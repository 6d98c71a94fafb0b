"""Parameters of the rearranged chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, StrictInt

from backfill_api.spec.params import ChangePartParams, SourceAbility, SplitParams, TargetAbility, Variant


class RearrangedChainParams(SplitParams, ChangePartParams):
    """Baseline for comparisons: like `Snapshot`, but an attempt that did not catch up starts from the beginning, and its rows are removed."""

    MAY_CHANGE: ClassVar[frozenset[str]] = SplitParams.MAY_CHANGE | {"change_part_mebibytes", "queue_max"}

    ENDS_FOR_GOOD: ClassVar[str] = (
        "an attempt that resumes after the catch-up ends without reading newer versions, because barriers do not wait for data"
    )

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


VARIANT = Variant(
    "RearrangedChain",
    RearrangedChainParams,
    needs=frozenset({SourceAbility.PIN, SourceAbility.CHANGES, TargetAbility.SEGMENTS, TargetAbility.START_OVER}),
)
