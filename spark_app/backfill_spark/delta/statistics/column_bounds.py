"""Bounds of a column in each file, from the statistics in the log: no row of the file is outside its bounds.

Bounds are values that Python compares like Spark: integers, decimals, dates, timestamps in UTC, and strings. Python compares strings by
code points, which is the order of their UTF-8 bytes. NaN has no place in these orders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
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
    StructField,
    TimestampNTZType,
    TimestampType,
)

from backfill_core.file_copies.facts import partition_value
from backfill_core.log_shipping.columns import TYPE_CHANGES
from backfill_spark.delta.source_file import LoggedValues
from backfill_spark.delta.statistics.moments import read_moment

NOT_A_VALUE = (ValueError, ArithmeticError, TypeError, KeyError, StructError)
"""Exceptions for a string that is not a value of its type: a day after the year 9999, a timestamp without a zone, or other content."""

EXACT_DIGITS = 15
"""Number of exact digits of a decimal, because some writers convert statistics to a float, which keeps 15 digits."""


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
    """The log has no usable bounds."""


FileBounds = Bounds | OnlyNulls | Unknown


def bounds_of(
    files: Iterable[LoggedValues], column: int, field: StructField, *, partition: str | None
) -> list[FileBounds]:
    """Return the bounds of a column in each file.

    Args:
        files: The log's facts about the files.
        column: Index of the column among the requested ones.
        field: The column, with the metadata that the log has of it.
        partition: Physical name of the column if it is a partition column.
    """
    kind = field.dataType
    if partition is not None:
        spelled = kind.json()
        return [_of_partition(partition_value(file.partition.get(partition), spelled), kind) for file in files]
    bounds = [_of_statistics(file, column, kind) for file in files]
    return [*map(_of_singles, bounds)] if _was_single(field) else bounds


def _of_partition(text: str | None, kind: DataType) -> FileBounds:
    if text is None:
        return OnlyNulls()
    form = _SPELLINGS.get(type(kind))
    value = _value(text, kind) if form is None or form.fullmatch(text) else None
    return Unknown() if value is None or not _fits(value, kind) else Bounds(value, value)


def is_partition_value(text: str | None, kind: DataType) -> bool:
    """Return True if readers see a value, not null, for the string of a partition value; `False` if that is unknown."""
    if isinstance(kind, TimestampType) and isinstance(_of_partition(text, TimestampNTZType()), Bounds):
        return True  # the reader's time zone decides which value it is
    return text is not None and (isinstance(kind, StringType) or isinstance(_of_partition(text, kind), Bounds))


def _fits(value: Any, kind: DataType) -> bool:
    """Return True if a number fits its type; otherwise, Spark reads null or a rounded number."""
    if isinstance(kind, DecimalType):
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        return -exponent <= kind.scale and len(digits) + exponent <= kind.precision - kind.scale
    bits = _BITS.get(type(kind))
    return bits is None or bool(-(1 << bits - 1) <= value < 1 << bits - 1)


def _of_statistics(file: LoggedValues, column: int, kind: DataType) -> FileBounds:
    if file.rows == 0 or (file.rows is not None and file.nulls[column] == file.rows):
        return OnlyNulls()
    try:
        return _bounds(file.smallest[column], file.largest[column], kind)
    except NOT_A_VALUE:
        return Unknown()


def _bounds(smallest: Any, largest: Any, kind: DataType) -> FileBounds:
    if isinstance(kind, TimestampType | TimestampNTZType):
        zoned = isinstance(kind, TimestampType)
        low, high = read_moment(smallest, zoned=zoned).earliest, read_moment(largest, zoned=zoned).latest
        return Bounds(low.astimezone(UTC), high.astimezone(UTC)) if zoned else Bounds(low, high)
    low, high = _value(smallest, kind), _value(largest, kind)
    if low is None or high is None:
        return Unknown()
    if isinstance(kind, DecimalType) and kind.precision > EXACT_DIGITS:
        return Bounds(_widened(low, kind, ROUND_FLOOR, -1), _widened(high, kind, ROUND_CEILING, 1))
    return Bounds(low, high)


def _was_single(field: StructField) -> bool:
    """Return true if older files of a column of doubles may have four-byte floats."""
    return any(change.get("fromType") == "float" for change in field.metadata.get(TYPE_CHANGES) or ())


def _of_singles(bounds: FileBounds) -> FileBounds:
    """Return bounds that also contain four-byte floats: readers see 0.10000000149011612 where the log has 0.1."""
    if not isinstance(bounds, Bounds):
        return bounds
    low, high = _single(bounds.low), _single(bounds.high)
    # A bound beyond the largest four-byte float is infinite as one: the file has doubles.
    return Bounds(min(bounds.low, low), max(bounds.high, high)) if isfinite(low) and isfinite(high) else bounds


def _widened(value: Decimal | int, kind: DecimalType, rounding: str, sign: int) -> Decimal:
    """Return the bound moved outward by the largest error of a writer that converts it to a float."""
    exact = Context(prec=2 * kind.precision)
    # Operators and `abs` would round to the 28 digits of Python's default context.
    size = Decimal(value).copy_abs()
    moved = exact.add(Decimal(value), exact.scaleb(exact.multiply(size, Decimal(sign)), -EXACT_DIGITS))
    largest = exact.scaleb(Decimal(10**kind.precision - 1), -kind.scale)
    rounded = moved.quantize(exact.scaleb(Decimal(1), -kind.scale), rounding, exact)
    return max(largest.copy_negate(), min(largest, rounded))


def _value(logged: Any, kind: DataType) -> Any:
    """Return a value of the log as a Python value; `None` if there is none, or if it does not compare."""
    read = _READERS.get(type(kind))
    if logged is None or read is None:
        return None
    try:
        return read(logged)
    except NOT_A_VALUE:
        return None


def _float(logged: Any) -> float:
    value = float(_number(logged))
    if not isfinite(value):
        raise ValueError(logged)
    return value


def _single(logged: Any) -> float:
    """Return the four-byte float that was written with the minimum number of digits."""
    (value,) = unpack("f", pack("f", _float(logged)))
    return float(value)


def _number(logged: Any) -> Decimal | int:
    value = logged if isinstance(logged, int | Decimal) else Decimal(logged)
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError(logged)
    return value


def _text(logged: Any) -> str:
    if not isinstance(logged, str):
        raise TypeError(logged)
    return logged


def _timestamp(logged: str) -> datetime:
    timestamp = datetime.fromisoformat(logged)
    if timestamp.tzinfo is None:
        raise ValueError(logged)
    return timestamp.astimezone(UTC)


_READERS: Mapping[type[DataType], Callable[[Any], Any]] = {
    **dict.fromkeys((ByteType, ShortType, IntegerType, LongType, DecimalType), _number),
    DoubleType: _float,
    FloatType: _single,
    BooleanType: lambda logged: {"true": True, "false": False}[str(logged).lower()],
    StringType: _text,
    DateType: date.fromisoformat,
    TimestampType: _timestamp,
    TimestampNTZType: lambda logged: datetime.fromisoformat(logged).replace(tzinfo=None),
}


_BITS: Mapping[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}

_DAY, _CLOCK, _ZONE = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d(\.\d{1,6})?", r"(Z|[+-]\d\d:\d\d)"
_SPELLINGS: Mapping[type[DataType], re.Pattern[str]] = {
    **dict.fromkeys(_BITS, re.compile(r"[+-]?\d{1,19}", re.ASCII)),
    DecimalType: re.compile(r"[+-]?\d{1,38}(\.\d{1,38})?", re.ASCII),
    DoubleType: re.compile(r"[+-]?\d{1,400}(\.\d{1,400})?([eE][+-]?\d{1,3})?", re.ASCII),
    FloatType: re.compile(r"[+-]?\d{1,4}(\.\d{1,4})?([eE][+-]?\d{1,2})?", re.ASCII),
    DateType: re.compile(_DAY, re.ASCII),
    TimestampType: re.compile(f"{_DAY}[T ]{_CLOCK}{_ZONE}", re.ASCII),
    TimestampNTZType: re.compile(f"{_DAY}[T ]{_CLOCK}", re.ASCII),
}
"""Formats of partition values that Python and Spark parse to the same value. Values in other formats are left to Spark, row by row."""


def has_order(kind: DataType) -> bool:
    """Return True if the log has bounds for values of a type."""
    return type(kind) in _READERS and (not isinstance(kind, StringType) or kind.isUTF8BinaryCollation())
