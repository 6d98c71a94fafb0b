"""A job that follows the log of its source, file by file: what both sides are asked before it begins."""

from __future__ import annotations

from backfill_api.spec.params import TargetAbility
from backfill_api.spec.spec import BackfillSpec
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import Sink, SupportsShipping
from backfill_spark.ports.source import Source, SupportsLog


def ships(spec: BackfillSpec) -> bool:
    """Does the strategy follow the log? Then a file of the target has rows of one file of the source, and tells of which."""
    return TargetAbility.SHIPPING in spec.strategy.variant.needs


def lay_out(spec: BackfillSpec, source: Source, sink: Sink) -> None:
    """Have the target follow the layout of its source, where the strategy follows the log.

    Raises:
        UnsupportedSourceFeatureError: names what a copy would lack.
    """
    if ships(spec):
        ability(sink, SupportsShipping).follow(ability(source, SupportsLog).shippable())
