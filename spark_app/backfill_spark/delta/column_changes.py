"""Difference between the columns of two tables, as a user reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from backfill_spark.jvm.errors import JAVA_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNKNOWN = "columns: unknown until both tables exist"


def columns_lines(spark: SparkSession, before: str, after: str) -> list[str]:
    """Return how the columns of a name change that points to the table at `before`, and then to that at `after`."""
    try:
        schemas = [spark.read.format("delta").load(path).schema for path in (before, after)]
    except JAVA_ERRORS:  # a dry run may come before the target exists
        return [UNKNOWN]
    return column_changes(*schemas)


def column_changes(before: StructType, after: StructType) -> list[str]:
    """Return one line for each kind of difference: new, missing and changed columns; empty if readers see the same columns."""
    old, new = ({field.name: field.dataType.simpleString() for field in schema} for schema in (before, after))
    kinds = {
        "new columns": [f"{name} {new[name]}" for name in new if name not in old],
        "columns that disappear": [f"{name} {old[name]}" for name in old if name not in new],
        "columns with another type": [
            f"{name} {old[name]} -> {new[name]}" for name in old if name in new and old[name] != new[name]
        ],
    }
    return [f"{kind}: {', '.join(columns)}" for kind, columns in kinds.items() if columns]
