"""Jobs that follow the source's log file by file: preparation of both sides before the start, and after a change of columns."""

from __future__ import annotations

from dataclasses import replace

from backfill_api.spec.params import TargetAbility
from backfill_api.spec.spec import BackfillSpec
from backfill_core.protocol.work import NewColumns
from backfill_spark.opening.failures import explained
from backfill_spark.opening.source import PinnedSource
from backfill_spark.opening.tables import Tables
from backfill_spark.opening.transform import transform_of
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.committer import SupportsColumns
from backfill_spark.ports.sink import Sink, SupportsShipping
from backfill_spark.ports.source import Source, SupportsLog, SupportsPin


def ships(spec: BackfillSpec) -> bool:
    """Return True if the strategy follows the log. Each target file then contains rows of one source file, and records which."""
    return TargetAbility.SHIPPING in spec.strategy.variant.needs


def adopt_layout(spec: BackfillSpec, source: Source, sink: Sink) -> None:
    """Set the target's layout to that of its source if the strategy follows the log.

    Raises:
        UnsupportedSourceFeatureError: a copy would lack a feature of the source; names it.
    """
    if ships(spec):
        ability(sink, SupportsShipping).follow(ability(source, SupportsLog).shippable())


def reopened_at(tables: Tables, version: int, columns: NewColumns) -> Tables:
    """Return the tables with the columns of a later version of the source, and with `columns` in the target; nothing is written.

    Raises:
        UnsupportedSourceFeatureError: the version has a feature that is not carried over; names it.
        InvalidTransformError: the transform does not fit these columns.
    """
    source = tables.source_plugin.open(tables.spark, tables.spec.source)
    with explained(tables.spark, "reading the source", source, tables.transform):
        pins = ability(source, SupportsPin)
        opened = PinnedSource(pins, pins.pin(version))
        transform = transform_of(tables.transform, opened, tables.mode, tables.key, begins=False)
        ability(source, SupportsLog).shippable()
    sink, committer = tables.sink, tables.committer
    if columns.schema is not None:
        sink = ability(sink, SupportsShipping).with_columns(columns.schema)
        committer = ability(committer, SupportsColumns).with_columns(columns)
    return replace(tables, source=source, transform=transform, opened=opened, sink=sink, committer=committer)
