"""Division of a file's rows into parts: one rule for any number of parts per read (ADR 0025, 0026).

A part that was staged together with others but never sealed is read again separately, and must have exactly the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructType, VariantType

from backfill_core.positions.file_ranges import FileRange
from backfill_spark.delta.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LABEL = "__backfill_part"
"""Name of the column with a row's segment, unless the source has a column with this name."""


def residue(frame: DataFrame, key: tuple[str, ...], of: int) -> Column:
    """Return the position of a row in its file of `of` rows: a hash of its key, or without a key of all its columns."""
    # Hashing a key is as even as hashing whole rows, and cheaper. xxhash64 does not support maps, so their JSON is hashed.
    columns = [
        F.to_json(F.struct(F.col(quoted(field.name)))) if _has_map(field.dataType) else F.col(quoted(field.name))
        for field in frame.schema
        if not key or field.name in key
    ]
    return F.pmod(F.xxhash64(*columns), F.lit(of))


def within(at: Column, file_range: FileRange) -> Column:
    """Return the condition that a residue is inside a file range."""
    return (at >= file_range.start) & (at < file_range.stop)


def labelled(frame: DataFrame, at: Column, parts: Sequence[tuple[int, FileRange]], label: str) -> DataFrame:
    """Return a file's rows with the number of their part as column `label`, without rows outside of all parts. Lazy."""
    # The residue gets a column first; otherwise Spark would hash a row again for each comparison with a part.
    rows = frame.withColumn(label, at)
    covered = sum(file_range.stop - file_range.start for _, file_range in parts) == parts[0][1].of
    if not covered:
        rows = rows.where(reduce(Column.__or__, [within(F.col(label), file_range) for _, file_range in parts]))
    *others, (last, _) = parts
    number = F.lit(last)
    for part, file_range in reversed(others):
        number = F.when(within(F.col(label), file_range), part).otherwise(number)
    return rows.withColumn(label, number)


def _has_map(data_type: Any) -> bool:
    if isinstance(data_type, MapType | VariantType):
        return True
    if isinstance(data_type, StructType):
        return any(_has_map(field.dataType) for field in data_type)
    return hasattr(data_type, "elementType") and _has_map(data_type.elementType)


def by_part(
    parts: Sequence[Sequence[FileRange]],
) -> tuple[dict[int, list[int]], dict[int, list[tuple[int, FileRange]]]]:
    """Return the whole files of each part, and the ranges of each other file, each with its part."""
    whole: dict[int, list[int]] = {}
    shares: dict[int, list[tuple[int, FileRange]]] = {}
    for part, ranges in enumerate(parts):
        for file_range in ranges:
            if file_range.whole:
                whole.setdefault(part, []).append(file_range.file)
            else:
                shares.setdefault(file_range.file, []).append((part, file_range))
    return whole, shares


def runs(indexes: Sequence[int]) -> list[tuple[int, int]]:
    """Join ascending indexes into runs `[first, stop)`."""
    joined: list[tuple[int, int]] = []
    for index in indexes:
        if joined and joined[-1][1] == index:
            joined[-1] = (joined[-1][0], index + 1)
        else:
            joined.append((index, index + 1))
    return joined
