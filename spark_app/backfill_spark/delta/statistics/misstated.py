"""Finds data files whose statistics exclude some of their rows; a reader with a filter misses these rows.

Spark reads the values, and reads the statistics as it does to skip files. The check uses no bound that backfill computed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, StructType, TimestampNTZType, TimestampType

from backfill_core.protocol.receipt import FileDifference
from backfill_spark.delta.log import table_at
from backfill_spark.delta.properties import physical_name
from backfill_spark.delta.schemas import schema_of
from backfill_spark.delta.source_file import LoggedFile
from backfill_spark.delta.spark_internals import SparkDeltaLog, delta_actions
from backfill_spark.delta.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS_SHOWN_MAX = 3
TRUNCATED_TO = "INTERVAL 1 MILLISECOND"
"""Maximum timestamps are stored without their microseconds, and Spark adds this interval when it skips files."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column with bounds, possibly nested."""

    name: str
    """Logical name, with dots."""

    logical: tuple[str, ...]
    physical: tuple[str, ...]
    type: DataType


def misstated(spark: SparkSession, path: str, version: int, files: Sequence[LoggedFile]) -> tuple[FileDifference, ...]:
    """Return the files of one version whose statistics exclude values that the files have; one Spark job reads all of them.

    Bounds must include every value that a reader sees. Counts of rows and nulls must be correct in files without hidden rows.

    Raises:
        JAVA_ERRORS: any error of Spark, Delta or the storage.
    """
    if not files:
        return ()
    log = SparkDeltaLog(spark, path)
    snapshot = log.at(version)
    statistics = DataFrame(snapshot.withStats(), spark)
    leaves = _leaves(schema_of(table_at(spark, path, version).schema), statistics)
    # Spark exposes only the path and the modification time of a file, so that time contains the file's index here.
    adds = [json.loads(file.action)["add"] | {"modificationTime": number} for number, file in enumerate(files)]
    rows = log.frame(delta_actions(spark, [json.dumps({"add": add}) for add in adds]), snapshot)
    number = F.unix_millis(rows.metadataColumn("_metadata")["file_modification_time"])
    values = rows.groupBy(number.alias("number")).agg(
        F.count(F.lit(1)).alias("rows"),
        *(column for index, leaf in enumerate(leaves) for column in _values(index, leaf)),
    )
    numbers = spark.createDataFrame(
        [(file.path, number) for number, file in enumerate(files)], "path string, number long"
    )
    logged = statistics.select("path", "stats", F.col("deletionVector").isNull().alias("whole"))
    compared = values.join(F.broadcast(logged.join(F.broadcast(numbers), "path")), "number")
    wrong = F.array_compact(F.array(*_defects(leaves)))
    mismatches = compared.select("number", wrong.alias("wrong")).where(F.size("wrong") > 0).orderBy("number").collect()
    return tuple(FileDifference(files[row["number"]].path, _message(row["wrong"])) for row in mismatches)


def _leaves(schema: StructType, statistics: DataFrame) -> list[_Leaf]:
    stats = statistics.schema["stats"].dataType
    assert isinstance(stats, StructType)
    bounds = stats["minValues"].dataType if "minValues" in stats.names else StructType()
    assert isinstance(bounds, StructType)
    return list(_below(schema, bounds, (), ()))


def _below(
    schema: StructType, bounds: StructType, logical: tuple[str, ...], physical: tuple[str, ...]
) -> Iterator[_Leaf]:
    for field in schema:
        stored = physical_name(field)
        if stored not in bounds.names:
            continue
        names, places, bound = (*logical, field.name), (*physical, stored), bounds[stored].dataType
        if isinstance(field.dataType, StructType) and isinstance(bound, StructType):
            yield from _below(field.dataType, bound, names, places)
        else:
            yield _Leaf(".".join(names), names, places, field.dataType)


def _values(index: int, leaf: _Leaf) -> tuple[Column, Column, Column]:
    value = F.col(".".join(map(quoted, leaf.logical)))
    # Writers exclude NaN from bounds, and Spark treats NaN as larger than all bounds.
    bounded = F.when(~F.isnan(value), value) if isinstance(leaf.type, DoubleType | FloatType) else value
    return (
        F.min(bounded).alias(f"min{index}"),
        F.max(bounded).alias(f"max{index}"),
        F.count(F.when(value.isNull(), 1)).alias(f"nulls{index}"),
    )


def _defects(leaves: Sequence[_Leaf]) -> list[Column]:
    """Return a column for each fact in the statistics: its name if the fact is wrong, else null."""
    defects = [F.when(F.col("whole") & (F.col("rows") != F.col("stats.numRecords")), "its number of rows")]
    for index, leaf in enumerate(leaves):
        low, high, nulls = (
            F.col(".".join(map(quoted, ("stats", kind, *leaf.physical))))
            for kind in ("minValues", "maxValues", "nullCount")
        )
        if isinstance(leaf.type, TimestampType | TimestampNTZType):
            high = high + F.expr(TRUNCATED_TO)
        outside = (F.col(f"min{index}") < low) | (F.col(f"max{index}") > high)
        miscounted = F.col("whole") & (F.col(f"nulls{index}") != nulls)
        defects.append(F.when(F.coalesce(outside, F.lit(False)) | F.coalesce(miscounted, F.lit(False)), leaf.name))
    return defects


def _message(wrong: Sequence[str]) -> str:
    shown = ", ".join(wrong[:COLUMNS_SHOWN_MAX])
    more = f" and {len(wrong) - COLUMNS_SHOWN_MAX} more" if len(wrong) > COLUMNS_SHOWN_MAX else ""
    return f"its statistics in the log are wrong, so filters miss rows: {shown}{more}"
