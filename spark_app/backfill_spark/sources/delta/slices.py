"""Which rows of a file belong to which part of it: one rule, however many parts are read at once (ADR 0025, 0026).

A part that was staged together with others and never sealed is read again alone, and must have the very same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructType, VariantType

from backfill_core.protocol.work import FileRange
from backfill_spark.rows.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LABEL = "__backfill_part"
"""Name of the column with a row's segment, if the source has none of that name."""


def residue(frame: DataFrame, key: tuple[str, ...], of: int) -> Column:
    """Return where in its file of `of` rows a row is cut: by its key, or without one by all of its columns."""
    # A key is spread as evenly as whole rows are, and cheaper. xxhash64 takes no maps; what they print to will do.
    columns = [
        F.to_json(F.struct(F.col(quoted(field.name)))) if _has_map(field.dataType) else F.col(quoted(field.name))
        for field in frame.schema
        if not key or field.name in key
    ]
    return F.pmod(F.xxhash64(*columns), F.lit(of))


def within(at: Column, file_range: FileRange) -> Column:
    """Is a residue inside a file range?"""
    return (at >= file_range.start) & (at < file_range.stop)


def labelled(frame: DataFrame, at: Column, parts: Sequence[tuple[int, FileRange]], label: str) -> DataFrame:
    """Return a file's rows with the number of their part as column `label`, without those of no part. Lazy."""
    # The residue stands in a column first, or Spark would hash a row anew for each part that it is compared with.
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
        for one in ranges:
            if one.whole:
                whole.setdefault(part, []).append(one.file)
            else:
                shares.setdefault(one.file, []).append((part, one))
    return whole, shares


def runs(indexes: Sequence[int]) -> list[tuple[int, int]]:
    """Join ascending indexes into `[first, behind)` runs."""
    found: list[tuple[int, int]] = []
    for index in indexes:
        if found and found[-1][1] == index:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((index, index + 1))
    return found
