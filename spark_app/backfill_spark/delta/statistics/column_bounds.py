"""What the log says of the values of a column in each file: bounds that no row of the file is outside of.

Values are such as Python compares like Spark: integers, decimals, dates, moments in UTC, and texts by their code points, which
is the order of their UTF-8 bytes. NaN has no place among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from math import isfinite
from struct import error as StructError
from struct import pack, unpack
from typing import Any

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
    TimestampNTZType,
    TimestampType,
)

from backfill_spark.delta.log import LoggedValues

TRUNCATED_TO = timedelta(milliseconds=1)
"""Delta cuts moments in statistics down to milliseconds, the largest one too."""

EXACT_DIGITS = 15
"""Of a decimal: some writers put statistics through a float, which keeps so many."""


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


def has_order(kind: DataType) -> bool:
    """Has the log bounds of values of a type?"""
    return type(kind) in _READERS and (not isinstance(kind, StringType) or kind.isUTF8BinaryCollation())
