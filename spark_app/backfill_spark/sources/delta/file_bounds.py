"""Order of a table's files by the values of a column, from statistics in the log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, StructField, StructType

from backfill_core.errors import InvalidSpecError
from backfill_core.positions.done_files import FILES_MAX
from backfill_core.positions.file_order import FileOrder
from backfill_spark.delta.log import values_at
from backfill_spark.delta.properties import physical_name
from backfill_spark.delta.statistics.column_bounds import Bounds, FileBounds, OnlyNulls, Unknown, bounds_of, has_order
from backfill_spark.rows.columns import instead

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT_MAX = 200
"""Largest number of characters of a value in messages."""


def logged_bounds(
    spark: SparkSession, path: str, version: int, field: StructField, *, partitioned: bool
) -> list[FileBounds]:
    """Return the bounds of a column in each file of a version; one listing, no Spark job.

    Raises:
        LOG_ERRORS: Kernel or the storage failed.
    """
    name = physical_name(field)
    files = values_at(spark, path, version, columns=[name])
    return bounds_of(files, 0, field, partition=name if partitioned else None)


def check_order_column(column: str, schema: StructType, *, field: str) -> DataType:
    """Return the type of a column that files can be ordered by.

    Raises:
        InvalidSpecError: the column does not exist, is nested, or has a type without order; names the field of the spec.
    """
    if column not in schema.names:
        root = column.split(".", 1)[0]
        if root != column and root in schema.names:
            raise InvalidSpecError(
                f"{field} names {column!r}, which is inside the column {root!r}.",
                hint="Name a column of the table itself.",
            )
        raise InvalidSpecError(
            f"{field} names {column!r}, which the source does not have.", hint=instead(column, schema.names)
        )
    kind = schema[column].dataType
    if not has_order(kind):
        raise InvalidSpecError(
            f"{field} names {column!r}, whose type {kind.simpleString()} has no order in the log.",
            hint="Name a column of numbers, text, dates or timestamps.",
        )
    return kind


def file_order(column: str, direction: str, bounds: Sequence[FileBounds], *, field: str) -> FileOrder:
    """Return the order in which files are read; descending order uses the largest value of each file; ties in path order.

    Raises:
        InvalidSpecError: there are more files than a state can track in such an order.
    """
    if len(bounds) > FILES_MAX:
        raise InvalidSpecError(
            f"{field}: the source has {len(bounds):,} files, but at most {FILES_MAX:,} can be read in an order.",
            hint="OPTIMIZE the source, or leave the order out.",
        )
    ascending = direction == "Ascending"
    values = [
        (bound.low if ascending else bound.high, file) for file, bound in enumerate(bounds) if isinstance(bound, Bounds)
    ]
    values.sort(key=lambda item: item[0], reverse=not ascending)
    marks: dict[int, str | None] = {file: _formatted(value) for value, file in values}
    last = _formatted(values[-1][0]) if values else None
    nulls = [file for file, bound in enumerate(bounds) if isinstance(bound, OnlyNulls)]
    # Files with nulls only come after all values, so they keep the mark of the last value.
    marks |= dict.fromkeys(nulls, "" if last is None else last)
    unknown = [file for file, bound in enumerate(bounds) if isinstance(bound, Unknown)]
    marks |= dict.fromkeys(unknown)
    files = (*(file for _, file in values), *nulls, *unknown)
    return FileOrder(
        column, direction, files, tuple(marks[file] for file in files), overlap_percent(bounds), len(unknown)
    )


def overlap_percent(bounds: Sequence[FileBounds]) -> int:
    """Return the percentage of overlapping pairs among the files with values, rounded up; touching files overlap."""
    ranges = [bound for bound in bounds if isinstance(bound, Bounds)]
    pairs = len(ranges) * (len(ranges) - 1) // 2
    highs = sorted(bound.high for bound in ranges)
    apart = sum(bisect_left(highs, bound.low) for bound in ranges)
    return -(-100 * (pairs - apart) // pairs) if pairs else 0


def _formatted(value: Any) -> str:
    """Return a value for messages, with control characters escaped."""
    if isinstance(value, date):
        return value.isoformat().replace("+00:00", "Z")
    text = str(value)[:TEXT_MAX]
    return text if text.isprintable() else text.encode("unicode_escape").decode()
