"""Parameters of the snapshot strategy."""

from __future__ import annotations

from typing import ClassVar, Literal

from backfill_api.model import Model
from backfill_api.spec.params import (
    ChangePartParams,
    HistoryOrder,
    SourceAbility,
    SplitParams,
    TargetAbility,
    Variant,
)


class CatchUp(Model):
    """Limit of the lag between the snapshot and the newest version."""

    limit: Literal["EpochTime", "Barriers"] = "EpochTime"
    """Unit of the pending changes: `EpochTime` is the time between commits of the source, `Barriers` the number of its versions."""


class SnapshotParams(SplitParams, ChangePartParams):
    """One pinned version in splits, then its changes."""

    ENDS_FOR_GOOD: ClassVar[str] = ""
    COPIES_BEFORE_CHANGES: ClassVar[bool] = True
    TAKES_CHANGES_ALONE: ClassVar[bool] = True
    MAY_CHANGE: ClassVar[frozenset[str]] = SplitParams.MAY_CHANGE | {"catch_up", "change_part_mebibytes", "order"}

    catch_up: CatchUp = CatchUp()
    """Limit of the lag while the job catches up; a Delta source is not held back. A change takes effect with the next attempt."""

    order: HistoryOrder | None = None
    """Order in which rows are read; default: none. A change takes effect with the next attempt, and no row is read twice."""

    @property
    def history_order(self) -> HistoryOrder | None:
        """See `order`."""
        return self.order


VARIANT = Variant(
    "Snapshot",
    SnapshotParams,
    default=True,
    needs=frozenset({SourceAbility.PIN, SourceAbility.CHANGES, TargetAbility.SEGMENTS}),
)
