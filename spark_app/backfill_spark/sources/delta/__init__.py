"""A Delta table as a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_api.spec.tables import Source
from backfill_spark.sources import SourcePlugin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.sources.delta.source import DeltaSource


def _open(spark: SparkSession, spec: Source) -> DeltaSource:
    from backfill_spark.delta.location import location
    from backfill_spark.sources.delta.source import DeltaSource

    assert spec.delta is not None
    path = location(spark, spec.delta.path, spec.delta.table)
    return DeltaSource(spark, path, key=tuple(spec.delta.key), schema_change=spec.delta.schema_change)


SOURCE = SourcePlugin(name="Delta", open=_open)
