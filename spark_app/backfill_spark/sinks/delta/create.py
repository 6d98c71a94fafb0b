"""How a target is made when it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import LongType, StringType, StructType

from backfill_spark.changes import EPOCH, OP, VERSION
from backfill_spark.columns import nullable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def with_changelog_columns(schema: StructType) -> StructType:
    """Return the schema of a Changelog target: the columns, then `_op`, `_epoch`, `_version`."""
    result = StructType(list(schema.fields))
    return result.add(OP, StringType()).add(EPOCH, LongType()).add(VERSION, LongType())


def create_table(
    spark: SparkSession,
    path: str,
    name: str | None,
    schema: StructType,
    *,
    partition_by: tuple[str, ...],
    cluster_by: tuple[str, ...],
    properties: Mapping[str, str],
    deletion_vectors: bool,
) -> None:
    """Create an empty Delta table that can hold a job's state in the same commit as its rows; with a name in the catalog."""
    from delta.tables import DeltaTable

    builder = DeltaTable.createIfNotExists(spark).location(path)
    if name is not None:
        builder = builder.tableName(name)
    for field in schema:
        builder = builder.addColumn(field.name, nullable(field.dataType), nullable=True)
    if partition_by:
        builder = builder.partitionedBy(*partition_by)
    if cluster_by:
        builder = builder.clusterBy(*cluster_by)
    ours = {"delta.feature.domainMetadata": "supported"}
    if deletion_vectors:
        ours["delta.enableDeletionVectors"] = "true"
    for key, value in {**ours, **properties}.items():
        builder = builder.property(key, value)
    builder.execute()


def name_table(spark: SparkSession, path: str, name: str) -> None:
    """Give a table that exists a name in the catalog."""
    from delta.tables import DeltaTable

    DeltaTable.createIfNotExists(spark).tableName(name).location(path).execute()
