"""Delta tables as targets: staged files, MERGE, and checks before the first write."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from backfill_api.spec.params import TargetAbility
from backfill_api.spec.spec import BackfillResource
from backfill_api.spec.targets.delta import DeltaTarget
from backfill_spark.ports.sink import RepairCommits, SinkPlugin, TargetRemoval

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.sinks.delta.sink import DeltaSink


def _open(spark: SparkSession, backfill: BackfillResource) -> DeltaSink:
    from backfill_spark.delta.location import target_location
    from backfill_spark.rows.write_modes import write_mode
    from backfill_spark.sinks.delta.publishing import PublishingSink
    from backfill_spark.sinks.delta.sink import DeltaSink

    sink: Callable[..., DeltaSink]
    target = backfill.spec.target.params
    assert isinstance(target, DeltaTarget)
    sink = DeltaSink if target.publish == "Continuously" else PublishingSink
    transform, params = backfill.spec.transform, backfill.spec.strategy.params
    if TargetAbility.IN_PLACE in backfill.spec.strategy.variant.needs:
        from backfill_spark.sinks.delta.live.sink import LiveSink
        from backfill_spark.sinks.delta.live.writers import WritersStart

        since = WritersStart(getattr(params, "writers_since", None), getattr(params, "writers_since_time", None))
        sink = partial(
            LiveSink,
            values=dict(transform.set),
            where=transform.set_where,
            writers=since,
            data_change=target.data_change,
        )
    if target.scope is not None:
        from backfill_spark.sinks.delta.scope.sink import ScopedSink

        sink = partial(ScopedSink, scope=target.scope)
    return sink(
        spark,
        target_location(spark, target.path, target.table),
        table=target.table,
        write_mode=write_mode(backfill.spec.write_mode),
        key=backfill.spec.key,
        partition_by=tuple(target.partition_by),
        cluster_by=tuple(target.cluster_by),
        properties=dict(target.properties),
        existing_rows=target.existing_rows,
        filtered_rows=target.filtered_rows,
        job_id=backfill.job_id,
        alone=TargetAbility.SHIPPING in backfill.spec.strategy.variant.needs,
    )


def _code() -> type[DeltaSink]:
    from backfill_spark.sinks.delta.sink import DeltaSink

    return DeltaSink


def _quarantine(spark: SparkSession, backfill: BackfillResource, path: str) -> DeltaSink:
    from backfill_spark.delta.location import one_spelling
    from backfill_spark.rows.write_modes import APPEND
    from backfill_spark.sinks.delta.sink import DeltaSink

    place = one_spelling(spark, path, field=f"spec.source.{backfill.spec.source.member}.quarantinePath")
    # Several jobs may share it.
    return DeltaSink(spark, place, write_mode=APPEND, key=(), existing_rows="Keep", job_id=backfill.job_id)


def _repairs(spark: SparkSession, backfill: BackfillResource) -> RepairCommits:
    from backfill_spark.sinks.delta.repair_commits import DeltaRepairCommits

    sink = _open(spark, backfill)
    return DeltaRepairCommits(spark, sink.path, sink.job_hash)


def _removal(spark: SparkSession, backfill: BackfillResource) -> TargetRemoval:
    from backfill_spark.sinks.delta.removal.table_removal import DeltaTableRemoval

    return DeltaTableRemoval(spark, _open(spark, backfill).path)


SINK = SinkPlugin(name="Delta", open=_open, code=_code, quarantine=_quarantine, repairs=_repairs, removal=_removal)
