"""Checks of a table before its creation: pure functions that reject tables that Delta would reject, by field of the spec."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)

from backfill_core.errors import TargetSchemaMismatchError
from backfill_spark.delta.properties import MAPPING_MODE, value
from backfill_spark.delta.table_facts import every_field, is_collated

ODD_CHARACTERS = " ,;{}()\n\t="
"""Characters that Parquet does not allow in column names; allowed with column mapping only."""

STORED = (
    *(
        NumericType,
        StringType,
        BinaryType,
        BooleanType,
        DateType,
        TimestampType,
        TimestampNTZType,
        VariantType,
        NullType,
    ),
    *(StructType, ArrayType, MapType),
)
SKIPPABLE = (NumericType, DateType, TimestampType, TimestampNTZType, StringType)
"""Types with minimum and maximum in file statistics, which clustering uses."""

INTERVALS = (DayTimeIntervalType, YearMonthIntervalType)
CLUSTERS_MAX = 4
INDEXED = 32
"""Number of leaf columns with statistics, unless a property changes it."""

INDEXED_NAMES = ("delta.dataSkippingNumIndexedCols", "delta.dataSkippingStatsColumns")


def check_new(
    schema: StructType, *, partition_by: tuple[str, ...], cluster_by: tuple[str, ...], properties: Mapping[str, str]
) -> None:
    """Reject columns, partitions and clustering columns that a new table cannot have.

    Raises:
        TargetSchemaMismatchError: names the field of the spec, or the column.
    """
    _check_names(schema, mapped=value(properties, MAPPING_MODE) == "name")
    for name, field in every_field(schema):
        if not _is_stored(field.dataType):
            raise TargetSchemaMismatchError(
                f"column {name!r} is {field.dataType.simpleString()}, and a Delta table has no such type.",
                hint="Cast it in spec.transform.select, for example to a string or a number.",
            )
    for field in schema:
        if is_collated(field.dataType):
            # Delta on Spark rejects such a table. Kernel creates it, but with file statistics in byte order.
            raise TargetSchemaMismatchError(
                f"column {field.name!r} has strings with a collation ({field.dataType.simpleString()}), but file statistics compare bytes.",
                hint="Cast it in spec.transform.select to STRING COLLATE UTF8_BINARY.",
            )
    if partition_by and {name.lower() for name in schema.names} <= {name.lower() for name in partition_by}:
        raise TargetSchemaMismatchError(
            "spec.target.delta.partitionBy names all columns, and a file must have one.", hint="Partition by fewer."
        )
    _check_clusters(schema, cluster_by, indexed_all=any(value(properties, name) for name in INDEXED_NAMES))


def _check_names(schema: StructType, *, mapped: bool) -> None:
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise TargetSchemaMismatchError(
                f"the transform yields column {name!r} twice, or with different letter case.",
                hint="Name each column once in spec.transform.select, with AS.",
            )
        seen.add(name.lower())
    for path, field in every_field(schema):
        if not mapped and any(character in ODD_CHARACTERS for character in field.name):
            raise TargetSchemaMismatchError(
                f"the name of column {path!r} has one of the characters {ODD_CHARACTERS!r}.",
                hint="Name it with AS in spec.transform.select, or set spec.target.delta.properties: "
                f"{{{MAPPING_MODE}: name}}.",
            )


def _is_stored(data_type: DataType) -> bool:
    return isinstance(data_type, STORED) and not isinstance(data_type, INTERVALS)


def _check_clusters(schema: StructType, cluster_by: tuple[str, ...], *, indexed_all: bool) -> None:
    field = "spec.target.delta.clusterBy"
    if len(cluster_by) > CLUSTERS_MAX:
        raise TargetSchemaMismatchError(
            f"{field} names {len(cluster_by)} columns, and Delta allows {CLUSTERS_MAX}.", hint="Name fewer columns."
        )
    for column in cluster_by:
        kind = schema[column].dataType
        if not isinstance(kind, SKIPPABLE) or isinstance(kind, INTERVALS):
            raise TargetSchemaMismatchError(
                f"{field}: column {column!r} is {kind.simpleString()}, a type by which Delta cannot cluster.",
                hint="Cluster by a number, a string, a date or a time.",
            )
        before = sum(_leaves(schema[name].dataType) for name in schema.names[: schema.names.index(column)])
        if before >= INDEXED and not indexed_all:
            raise TargetSchemaMismatchError(
                f"{field}: column {column!r} comes after the first {INDEXED}, and only these have statistics.",
                hint="Move it forward in spec.transform.select, or set "
                f"spec.target.delta.properties: {{{INDEXED_NAMES[1]}: {column}}}.",
            )


def _leaves(data_type: DataType) -> int:
    return sum(_leaves(field.dataType) for field in data_type) if isinstance(data_type, StructType) else 1
