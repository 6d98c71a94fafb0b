"""What the log says of the values of a column in each file: bounds that no row of the file is outside of.

Values are such as Python compares like Spark: integers, decimals, dates, moments in UTC, and texts by their code points, which
is the order of their UTF-8 bytes. NaN has no place among them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from math import isfinite
from struct import error as StructError
from struct import pack, unpack
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from backfill_core.errors import InvalidSpecError
from backfill_core.positions.done_files import FILES_MAX
from backfill_core.positions.file_order import FileOrder
from backfill_spark.delta.log import LoggedValues, values_at
from backfill_spark.delta.properties import physical_name
from backfill_spark.rows.columns import instead

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRUNCATED_TO = timedelta(milliseconds=1)
"""Delta cuts moments in statistics down to milliseconds, the largest one too."""

EXACT_DIGITS = 15
"""Of a decimal: some writers put statistics through a float, which keeps so many."""

TEXT_MAX = 200
"""Characters of a value that people see."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """No value of the file is below `low` or above `high`."""

    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class OnlyNulls:
    """The column is null in every row of the file, or it has no rows."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The log does not say."""


FileBounds = Bounds | OnlyNulls | Unknown


# ------------------------------------------------------------------ reading the log
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


def bounds_of(files: Iterable[LoggedValues], column: int, kind: DataType, *, partition: str | None) -> list[FileBounds]:
    """Return the bounds of a column in each file.

    Args:
        files: What the log says of them.
        column: Which of the columns that were asked for.
        kind: Its type.
        partition: Its physical name, if it is a partition column.
    """
    if partition is not None:
        return [_of_partition(file.partition.get(partition), kind) for file in files]
    return [_of_statistics(file, column, kind) for file in files]


def _of_partition(text: str | None, kind: DataType) -> FileBounds:
    if not text:  # the log's form of null
        return OnlyNulls()
    value = _value(text, kind)
    return Unknown() if value is None else Bounds(value, value)


def _of_statistics(file: LoggedValues, column: int, kind: DataType) -> FileBounds:
    if file.rows == 0 or (file.rows is not None and file.nulls[column] == file.rows):
        return OnlyNulls()
    low, high = _value(file.smallest[column], kind), _value(file.largest[column], kind)
    if low is None or high is None:
        return Unknown()
    if isinstance(high, datetime) and not high.microsecond % 1000:
        high += TRUNCATED_TO
    if isinstance(kind, DecimalType) and kind.precision > EXACT_DIGITS:
        try:
            return Bounds(_beside(low, kind, ROUND_FLOOR, -1), _beside(high, kind, ROUND_CEILING, 1))
        except InvalidOperation:  # it is no value of the type
            return Unknown()
    return Bounds(low, high)


def _beside(value: Decimal | int, kind: DecimalType, rounding: str, sign: int) -> Decimal:
    """Return a value that is no nearer than one that a writer may have rounded to a float."""
    exact = Context(prec=2 * kind.precision)
    moved = exact.add(Decimal(value), exact.scaleb(exact.multiply(abs(Decimal(value)), Decimal(sign)), -EXACT_DIGITS))
    largest = exact.scaleb(Decimal(10**kind.precision - 1), -kind.scale)
    return max(-largest, min(largest, moved.quantize(Decimal(1).scaleb(-kind.scale), rounding, exact)))


def _value(found: Any, kind: DataType) -> Any:
    """Return a value of the log in Python's form; None where there is none, or none that compares."""
    read = _READERS.get(type(kind))
    if found is None or read is None:
        return None
    try:
        return read(found)
    except (ValueError, InvalidOperation, OverflowError, TypeError, KeyError, StructError):
        # Dates beyond the year 9999, moments without a zone, whatever another writer puts there.
        return None


def _float(found: Any) -> float:
    value = float(_number(found))
    if not isfinite(value):
        raise ValueError(found)
    return value


def _single(found: Any) -> float:
    """Return the float of four bytes that was written with as few digits as tell it apart."""
    (value,) = unpack("f", pack("f", _float(found)))
    return float(value)


def _number(found: Any) -> Decimal | int:
    value = found if isinstance(found, int | Decimal) else Decimal(found)
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError(found)
    return value


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError(found)
    return found


def _moment(found: str) -> datetime:
    moment = datetime.fromisoformat(found)
    if moment.tzinfo is None:
        raise ValueError(found)
    return moment.astimezone(UTC)


def _wall_clock(found: str) -> datetime:
    moment = datetime.fromisoformat(found)
    return moment.replace(tzinfo=None)


_READERS: Mapping[type[DataType], Callable[[Any], Any]] = {
    **dict.fromkeys((ByteType, ShortType, IntegerType, LongType, DecimalType), _number),
    DoubleType: _float,
    FloatType: _single,
    BooleanType: lambda found: {"true": True, "false": False}[str(found).lower()],
    StringType: _text,
    DateType: date.fromisoformat,
    TimestampType: _moment,
    TimestampNTZType: _wall_clock,
}


# ------------------------------------------------------------------ the order of history
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
    if type(kind) not in _READERS or (isinstance(kind, StringType) and not kind.isUTF8BinaryCollation()):
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
