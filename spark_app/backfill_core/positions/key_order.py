"""Positions in the order of a key, as typed values that JSON can store.

A position is the tuple of a row's values in the columns of an order. NULL is the largest value of a column, NaN the largest number
below it, and -0.0 equals 0.0. Strings and binaries compare byte by byte (strings as UTF-8). `descending` reverses a column's order,
including NULL.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import total_ordering
from typing import Any

KeyValue = None | bool | int | float | str | bytes | Decimal
"""Dates are days, timestamps microseconds since 1970 (UTC if they have a time zone)."""

KeyPosition = tuple[KeyValue, ...]

POSITION_BYTES_MAX = 8 * 1024
"""Most bytes of a stored position, so that a state of 64 KiB has room for several."""

_DECIMAL = re.compile(r"decimal\(\d+,\s*-?\d+\)")
_DAY_US = 86_400_000_000


def _exactly(kind: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is kind


def _float_to_json(value: float) -> float | str:
    return value + 0.0 if math.isfinite(value) else str(value)


def _float_from_json(value: Any) -> float:
    if type(value) in (int, float):
        return float(value)
    if value in ("nan", "inf", "-inf"):
        return float(value)
    raise ValueError(value)


@dataclass(frozen=True, slots=True)
class _Codec:
    """Codec for the values of a type."""

    holds: Callable[[Any], bool]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], KeyValue]


def _checked(kind: type) -> Callable[[Any], KeyValue]:
    def decode(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(value)
        return value

    return decode


def _same(value: Any) -> Any:
    return value


def _text(kind: Callable[[str], KeyValue]) -> Callable[[Any], KeyValue]:
    def decode(value: Any) -> KeyValue:
        if type(value) is not str:
            raise ValueError(value)
        return kind(value)

    return decode


_INTEGER = _Codec(_exactly(int), _same, _checked(int))
_FLOAT = _Codec(_exactly(float), _float_to_json, _float_from_json)
_DECIMALS = _Codec(lambda value: isinstance(value, Decimal) and value.is_finite(), str, _text(Decimal))
_CODECS: Mapping[str, _Codec] = {
    "boolean": _Codec(_exactly(bool), _same, _checked(bool)),
    "string": _Codec(_exactly(str), _same, _checked(str)),
    "binary": _Codec(_exactly(bytes), bytes.hex, _text(bytes.fromhex)),
    **dict.fromkeys(("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz"), _INTEGER),
    **dict.fromkeys(("float", "double"), _FLOAT),
}


def _codec(data_type: str) -> _Codec | None:
    return _DECIMALS if _DECIMAL.fullmatch(data_type) else _CODECS.get(data_type)


def has_order(data_type: str) -> bool:
    """Return whether an order may use a column of this type, named as in Spark's JSON. Collated strings cannot: their order depends on the release."""
    return _codec(data_type) is not None


@total_ordering
class _Reversed:
    """A value with reversed order."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and self._value == other._value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other._value < self._value)

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of an order."""

    name: str
    """Name in the source."""

    type: str
    """Type as in Spark's JSON; `has_order` is true for it."""

    descending: bool = False

    def sort_value(self, value: KeyValue) -> Any:
        """Return a value by which values of the column are compared."""
        if value is None:
            comparable: tuple[Any, ...] = (2,)
        elif isinstance(value, float) and math.isnan(value):
            comparable = (1,)
        else:
            comparable = (0, value)
        return _Reversed(comparable) if self.descending else comparable

    def format_value(self, value: KeyValue) -> str:
        """Return a value for users."""
        if value is None:
            return "NULL"
        if self.type == "date":
            return _date(int(value))
        if self.type.startswith("timestamp"):
            days, micros = divmod(int(value), _DAY_US)
            seconds, micros = divmod(micros, 1_000_000)
            clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            return f"{_date(days)}T{clock}{f'.{micros:06}' if micros else ''}{'Z' if self.type == 'timestamp' else ''}"
        if isinstance(value, bytes):
            return f"0x{value.hex()}"
        return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The columns by which rows are read, the first one first."""

    columns: tuple[KeyColumn, ...]

    def sort_key(self, position: KeyPosition) -> tuple[Any, ...]:
        """Return a value by which positions are compared."""
        return tuple(column.sort_value(value) for column, value in zip(self.columns, position, strict=True))

    def format_position(self, position: KeyPosition) -> str:
        """Return a position for users, as `ts = 2026-03-01T00:00:00Z, id = 5`."""
        pairs = zip(self.columns, position, strict=True)
        return ", ".join(f"{column.name} = {column.format_value(value)}" for column, value in pairs)

    # -------------------------------------------------------------- JSON
    def encode(self, position: KeyPosition) -> list[Any]:
        """Return the stored form of a position.

        Raises:
            ValueError: a value is not of its column's type.
        """
        return [self._encode_one(column, value) for column, value in zip(self.columns, position, strict=True)]

    @staticmethod
    def _encode_one(column: KeyColumn, value: KeyValue) -> Any:
        codec = _codec(column.type)
        if value is None:
            return None
        if codec is None or not codec.holds(value):
            raise ValueError(f"{column.name}: {value!r} is not a {column.type}")
        return codec.encode(value)

    def decode(self, value: Any) -> KeyPosition:
        """Read the output of `encode`.

        Raises:
            ValueError: the value is not a position in this order.
        """
        if not isinstance(value, list) or len(value) != len(self.columns):
            raise ValueError(f"not a position in {self.to_json()}: {value!r}")
        return tuple(self._decode_one(column, stored) for column, stored in zip(self.columns, value, strict=True))

    @staticmethod
    def _decode_one(column: KeyColumn, value: Any) -> KeyValue:
        codec = _codec(column.type)
        if value is None:
            return None
        try:
            if codec is not None:
                return codec.decode(value)
        except (ValueError, InvalidOperation):
            pass
        raise ValueError(f"{column.name}: {value!r} is not a {column.type}")

    def fits(self, position: KeyPosition) -> bool:
        """Return whether its stored form is small enough for a state."""
        return len(json.dumps(self.encode(position)).encode()) <= POSITION_BYTES_MAX

    def to_json(self) -> list[list[str]]:
        """Return the stored form of the order itself."""
        return [[column.name, column.type, "DESC" if column.descending else "ASC"] for column in self.columns]

    @classmethod
    def from_json(cls, value: Any) -> KeyOrder:
        """Read the output of `to_json`.

        Raises:
            ValueError: the value is not an order.
        """
        if not isinstance(value, list) or not value:
            raise ValueError(f"not an order: {value!r}")
        return cls(tuple(_column(column) for column in value))


def _column(value: Any) -> KeyColumn:
    if not isinstance(value, Sequence) or len(value) != 3 or not all(type(part) is str for part in value):
        raise ValueError(f"not a column of an order: {value!r}")
    name, data_type, direction = value
    if not has_order(data_type) or direction not in ("ASC", "DESC"):
        raise ValueError(f"not a column of an order: {value!r}")
    return KeyColumn(name, data_type, direction == "DESC")


def _date(days: int) -> str:
    """Return a day since 1970 in the Gregorian calendar, which repeats after 146,097 days."""
    era, day = divmod(days + 719_468, 146_097)
    year_of_era = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day_of_year = day - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153  # months since March
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    return f"{'-' if year < 0 else ''}{abs(year):04}-{month:02}-{day_of_year - (153 * shifted + 2) // 5 + 1:02}"
