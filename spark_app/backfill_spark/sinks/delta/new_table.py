"""What a table that is to be made must be: pure checks of what Delta would refuse while it is made, by field."""

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
"""In a column's name only with column mapping: Parquet's own limits."""

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
"""Types with a least and a greatest value in the statistics of a file, which clustering goes by."""

INTERVALS = (DayTimeIntervalType, YearMonthIntervalType)
CLUSTERS_MAX = 4
INDEXED = 32
"""Leaf columns that have statistics, unless a property says otherwise."""

INDEXED_NAMES = ("delta.dataSkippingNumIndexedCols", "delta.dataSkippingStatsColumns")


def check_new(
    wanted: StructType, *, partition_by: tuple[str, ...], cluster_by: tuple[str, ...], properties: Mapping[str, str]
) -> None:
    """Refuse columns, partitions and clusters that a new table cannot have.

    Raises:
        TargetSchemaMismatchError: names the field of the spec, or the column.
    """
    _check_names(wanted, mapped=value(properties, MAPPING_MODE) == "name")
    for name, field in every_field(wanted):
        if not _is_stored(field.dataType):
            raise TargetSchemaMismatchError(
                f"column {name!r} is {field.dataType.simpleString()}, and a Delta table has no such type.",
                hint="Cast it in spec.transform.select, for example to a string or a number.",
            )
    for field in wanted:
        if is_collated(field.dataType):
            # Delta on Spark makes no such table. Kernel makes one, with bounds of bytes: another order than the column's.
            raise TargetSchemaMismatchError(
                f"column {field.name!r} has texts with a collation ({field.dataType.simpleString()}), and bounds of files compare bytes.",
                hint="Cast it in spec.transform.select to STRING COLLATE UTF8_BINARY.",
            )
    if partition_by and {name.lower() for name in wanted.names} <= {name.lower() for name in partition_by}:
        raise TargetSchemaMismatchError(
            "spec.target.delta.partitionBy names all columns, and a file must have one.", hint="Partition by fewer."
        )
    _check_clusters(wanted, cluster_by, indexed_all=any(value(properties, name) for name in INDEXED_NAMES))


def _check_names(wanted: StructType, *, mapped: bool) -> None:
    seen: set[str] = set()
    for name in wanted.names:
        if name.lower() in seen:
            raise TargetSchemaMismatchError(
                f"the transform yields column {name!r} twice, or in two cases of letters.",
                hint="Name each column once in spec.transform.select, with AS.",
            )
        seen.add(name.lower())
    for path, field in every_field(wanted):
        if not mapped and any(character in ODD_CHARACTERS for character in field.name):
            raise TargetSchemaMismatchError(
                f"the name of column {path!r} has one of the characters {ODD_CHARACTERS!r}.",
                hint="Name it with AS in spec.transform.select, or set spec.target.delta.properties: "
                f"{{{MAPPING_MODE}: name}}.",
            )


def _is_stored(data_type: DataType) -> bool:
    return isinstance(data_type, STORED) and not isinstance(data_type, INTERVALS)


def _check_clusters(wanted: StructType, cluster_by: tuple[str, ...], *, indexed_all: bool) -> None:
    field = "spec.target.delta.clusterBy"
    if len(cluster_by) > CLUSTERS_MAX:
        raise TargetSchemaMismatchError(
            f"{field} names {len(cluster_by)} columns, and Delta takes {CLUSTERS_MAX}.", hint="Name fewer."
        )
    for column in cluster_by:
        kind = wanted[column].dataType
        if not isinstance(kind, SKIPPABLE) or isinstance(kind, INTERVALS):
            raise TargetSchemaMismatchError(
                f"{field}: column {column!r} is {kind.simpleString()}, which has no order that Delta clusters by.",
                hint="Cluster by a number, a text, a date or a time.",
            )
        before = sum(_leaves(wanted[name].dataType) for name in wanted.names[: wanted.names.index(column)])
        if before >= INDEXED and not indexed_all:
            raise TargetSchemaMismatchError(
                f"{field}: column {column!r} is behind the first {INDEXED}, which alone have statistics.",
                hint="Put it further in front in spec.transform.select, or set "
                f"spec.target.delta.properties: {{{INDEXED_NAMES[1]}: {column}}}.",
            )


def _leaves(data_type: DataType) -> int:
    return sum(_leaves(field.dataType) for field in data_type) if isinstance(data_type, StructType) else 1
