"""Parameters of the snapshot strategy."""

from __future__ import annotations

from typing import ClassVar, Literal

from backfill_api.model import Model
from backfill_api.spec.params import HistoryOrder, SourceAbility, SplitParams, TargetAbility, Variant


class CatchUp(Model):
    """How the way from the snapshot to the newest version is judged."""

    limit: Literal["EpochTime", "Barriers"] = "EpochTime"
    """Unit of what is pending: `EpochTime` is the time between commits of the source, `Barriers` the number of its versions."""


class SnapshotParams(SplitParams):
    """One pinned version in splits, then its changes."""

    MAY_CHANGE: ClassVar[frozenset[str]] = SplitParams.MAY_CHANGE | {"catch_up", "order"}

    catch_up: CatchUp = CatchUp()
    """How the lag is judged while the job catches up; a Delta source is not held back. A change counts from the next attempt."""

    order: HistoryOrder | None = None
    """Which rows are read first; default: no order. A change counts from the next attempt, and nothing is read twice."""

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
