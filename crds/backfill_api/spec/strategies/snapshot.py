"""Parameters of the snapshot strategy."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt

from backfill_api.model import Model
from backfill_api.spec.params import HistoryOrder, SourceAbility, StrategyParams, TargetAbility, Variant


class CatchUp(Model):
    """How the way from the snapshot to the newest version is judged."""

    limit: Literal["EpochTime", "Barriers"] = "EpochTime"
    """What may be pending: `EpochTime` counts the time between commits of the source, `Barriers` its versions."""


class SnapshotParams(StrategyParams):
    """One pinned version in splits, then its changes."""

    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset(
        {"split_target_seconds", "max_in_flight", "change_batch_seconds", "catch_up", "order"}
    )

    split_target_seconds: Annotated[StrictInt, Field(ge=1, le=600)] = 4
    """How long one split should take at full speed; a change counts from the next attempt."""

    max_in_flight: Annotated[StrictInt, Field(ge=1, le=64)] = 2
    """Splits that are read at the same time; a change counts from the next attempt."""

    change_batch_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] = 10
    """How long one batch of changes should take; a change counts from the next attempt."""

    catch_up: CatchUp = CatchUp()
    """Limit of what may be pending; it only shrinks. A change counts from the next attempt."""

    order: HistoryOrder | None = None
    """Which rows are read first; default: no order. A change counts from the next attempt, and nothing is read twice."""

    @property
    def history_order(self) -> HistoryOrder | None:
        """See `order`."""
        return self.order

    def rows_per_split(self, rows_per_s: float) -> int:
        """As `maxInFlight` splits share the rate."""
        return max(1, int(rows_per_s * self.split_target_seconds / self.max_in_flight))


VARIANT = Variant(
    "Snapshot",
    SnapshotParams,
    default=True,
    needs=frozenset({SourceAbility.PIN, SourceAbility.CHANGES, TargetAbility.SEGMENTS}),
)
