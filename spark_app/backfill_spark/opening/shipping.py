"""Jobs that follow the source's log file by file: preparation of both sides before the start, and after a change of columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_api.spec.params import TargetAbility
from backfill_api.spec.spec import BackfillSpec
from backfill_core.protocol.work import NewColumns
from backfill_spark.opening.source import PinnedSource
from backfill_spark.opening.transform import transform_of
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.committer import SupportsColumns
from backfill_spark.ports.sink import Sink, SupportsShipping
from backfill_spark.ports.source import Source, SupportsLog, SupportsPin

if TYPE_CHECKING:
    from backfill_spark.driver.job_context import OpenedJob


def ships(spec: BackfillSpec) -> bool:
    """Return True if the strategy follows the log. Each target file then contains rows of one source file, and records which."""
    return TargetAbility.SHIPPING in spec.strategy.variant.needs


def lay_out(spec: BackfillSpec, source: Source, sink: Sink) -> None:
    """Set the target's layout to that of its source if the strategy follows the log.

    Raises:
        UnsupportedSourceFeatureError: a copy would lack a feature of the source; names it.
    """
    if ships(spec):
        ability(sink, SupportsShipping).follow(ability(source, SupportsLog).shippable())


def relaid(job: OpenedJob, version: int, columns: NewColumns) -> OpenedJob:
    """Return the job with the columns of a later version of its source, and with `columns` in its target; nothing is written.

    Raises:
        UnsupportedSourceFeatureError: the version has a feature that is not carried over; names it.
        InvalidTransformError: the transform does not fit these columns.
    """
    source = job.plugins.source.open(job.spark, job.backfill.spec.source)
    with job.explained("reading the source", source, job.transform):
        pins = ability(source, SupportsPin)
        opened = PinnedSource(pins, pins.pin(version))
        transform = transform_of(job.transform, opened, job.mode, job.key, begins=False)
        ability(source, SupportsLog).shippable()
    sink, committer = job.sink, job.committer
    if columns.schema is not None:
        sink = ability(sink, SupportsShipping).with_columns(columns.schema)
        committer = ability(committer, SupportsColumns).with_columns(columns)
    return replace(job, source=source, transform=transform, opened=opened, sink=sink, committer=committer)
