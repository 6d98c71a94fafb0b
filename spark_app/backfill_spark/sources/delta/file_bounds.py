"""The order of a table's files by the values of a column, as the log says them."""

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
"""Characters of a value that people see."""


def logged_bounds(
    spark: SparkSession, path: str, version: int, field: StructField, *, partitioned: bool
) -> list[FileBounds]:
    """Return the bounds of a column in each file of a version; one listing, no Spark job.

    Raises:
        Whatever Kernel or the storage say (`LOG_ERRORS`).
    """
    name = physical_name(field)
    files = values_at(spark, path, version, columns=[name])
    return bounds_of(files, 0, field.dataType, partition=name if partitioned else None)


def check_order_column(column: str, schema: StructType, *, field: str) -> DataType:
    """Return the type of a column that files can be ordered by.

    Raises:
        InvalidSpecError: there is no such column, it is nested, or its type has no order; names the field of the spec.
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
    """Return the order in which files are read: the newest first is by the largest value of each; ties in path order.

    Raises:
        InvalidSpecError: there are more files than a state can tell in any order.
    """
    if len(bounds) > FILES_MAX:
        raise InvalidSpecError(
            f"{field}: the source has {len(bounds):,} files, at most {FILES_MAX:,} can be read in an order.",
            hint="OPTIMIZE the source, or leave the order out.",
        )
    ascending = direction == "Ascending"
    known = [(one.low if ascending else one.high, file) for file, one in enumerate(bounds) if isinstance(one, Bounds)]
    known.sort(key=lambda one: one[0], reverse=not ascending)
    marks: dict[int, str | None] = {file: _words(value) for value, file in known}
    last = _words(known[-1][0]) if known else None
    nulls = [file for file, one in enumerate(bounds) if isinstance(one, OnlyNulls)]
    # Rows without a value come before no value: they keep the mark of the last one.
    marks |= dict.fromkeys(nulls, "" if last is None else last)
    unknown = [file for file, one in enumerate(bounds) if isinstance(one, Unknown)]
    marks |= dict.fromkeys(unknown)
    files = (*(file for _, file in known), *nulls, *unknown)
    return FileOrder(
        column, direction, files, tuple(marks[file] for file in files), overlap_percent(bounds), len(unknown)
    )


def overlap_percent(bounds: Sequence[FileBounds]) -> int:
    """Return how many of all pairs of files with values overlap, in percent, rounded up; files that only touch do too."""
    known = [one for one in bounds if isinstance(one, Bounds)]
    pairs = len(known) * (len(known) - 1) // 2
    highs = sorted(one.high for one in known)
    apart = sum(bisect_left(highs, one.low) for one in known)
    return -(-100 * (pairs - apart) // pairs) if pairs else 0


def _words(value: Any) -> str:
    """Return a value for people; a text without what would end a line or move a cursor."""
    if isinstance(value, date):
        return value.isoformat().replace("+00:00", "Z")
    text = str(value)[:TEXT_MAX]
    return text if text.isprintable() else text.encode("unicode_escape").decode()
