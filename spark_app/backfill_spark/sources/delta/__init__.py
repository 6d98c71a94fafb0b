"""Delta tables as sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_api.spec.sources import Source, delta
from backfill_spark.ports.source import SourcePlugin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_core.errors import BackfillError
    from backfill_spark.sources.delta.fenced_log import DeltaFencedLog
    from backfill_spark.sources.delta.source import DeltaTableSource


def _open(spark: SparkSession, spec: Source) -> DeltaTableSource:
    from backfill_spark.delta.location import location, one_spelling
    from backfill_spark.sources.delta.source import DeltaTableSource

    params = spec.params
    assert isinstance(params, delta.DeltaSource)
    path = location(spark, params.path, params.table)
    allowed = [
        one_spelling(spark, folder, field=f"spec.source.delta.allowFilesOutside[{at}]")
        for at, folder in enumerate(params.allow_files_outside)
    ]
    return DeltaTableSource(
        spark, path, key=params.key, schema_change=params.schema_change, allow_files_outside=tuple(allowed)
    )


def _fenced_log(spark: SparkSession, spec: Source) -> DeltaFencedLog:
    from backfill_spark.delta.location import location
    from backfill_spark.sources.delta.fenced_log import DeltaFencedLog

    params = spec.params
    assert isinstance(params, delta.DeltaSource)
    return DeltaFencedLog(spark, location(spark, params.path, params.table))


def _version_at(spark: SparkSession, spec: Source, wanted_ms: int) -> int:
    from backfill_spark.delta.location import location
    from backfill_spark.sources.delta.version_times import version_at

    params = spec.params
    assert isinstance(params, delta.DeltaSource)
    return version_at(spark, location(spark, params.path, params.table), wanted_ms)


def _doubt(spark: SparkSession, spec: Source, error: BackfillError, target: str | None) -> str:
    from backfill_spark.sources.delta.absence import doubt_of_absence

    params = spec.params
    assert isinstance(params, delta.DeltaSource)
    return doubt_of_absence(spark, params, error, target=target)


def _code() -> type[DeltaTableSource]:
    from backfill_spark.sources.delta.source import DeltaTableSource

    return DeltaTableSource


SOURCE = SourcePlugin(
    name="Delta", open=_open, code=_code, fenced_log=_fenced_log, doubt_of_absence=_doubt, version_at=_version_at
)
