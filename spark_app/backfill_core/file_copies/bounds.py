"""Source of a copied file's bounds: its footer, the source table's log, or none.

A footer stores bounds in the file's representation: milliseconds, unsigned numbers, days of another calendar. A reader that skips
files interprets them as values of the table's column. So a bound is used only if both representations are the same, and is omitted
otherwise: readers read a file without a bound, and lose the rows of a file with a wrong one.

type of the column      type in the file                               bounds
---------------------   --------------------------------------------   --------------------------------------------------
any                     the matching physical and logical type         the footer's
timestamp               other units, INT96                             the log's, if the bytes are the same; else none
any other               any other                                      none

value                   file                                           used
---------------------   --------------------------------------------   --------------------------------------------------
date, timestamp         its calendar is unknown                        from 1900 on
timestamp               any                                            from the year 1 on: Kernel drops the sign of others
string with U+FFFD      any                                            never: it was cut, or its bytes are not UTF-8
largest float           its writer may have ignored NaN                never: NaN is larger
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

Path = tuple[str, ...]
"""Physical names of a column, outermost first."""

MOMENTS = frozenset({"timestamp", "timestamp_ntz"})
DAY_US = 86_400_000_000
YEAR_1, SETTLED = -719_162, -25_567
"""0001-01-01 and 1900-01-01, in days since 1970-01-01. All calendars agree from 1900 on."""

NOT_A_TEXT = "\ufffd"


class BoundsSource(Enum):
    """Source of a column's bounds."""

    FOOTER = auto()
    LOG = auto()
    """The log of the source table."""

    NONE = auto()


@dataclass(frozen=True, slots=True)
class Stored:
    """Parquet types of a column in a file."""

    physical: str
    logical: str
    """Empty if the column has no logical type."""


@dataclass(frozen=True, slots=True)
class Written:
    """Properties of a footer that decide how values were written."""

    columns: tuple[tuple[Path, Stored], ...]
    """Columns outside lists."""

    calendar_is_known: bool
    """True if every reader interprets dates and timestamps in the proleptic Gregorian calendar."""

    knows_nan: bool
    """True if a float column with bounds has no NaN."""


_STORED = {
    "boolean": {Stored("BOOLEAN", "")},
    "byte": {Stored("INT32", "INTEGER(8,true)")},
    "short": {Stored("INT32", f"INTEGER({bits},true)") for bits in (8, 16)},
    "integer": {Stored("INT32", ""), *(Stored("INT32", f"INTEGER({bits},true)") for bits in (8, 16, 32))},
    "long": {Stored("INT64", ""), Stored("INT64", "INTEGER(64,true)")},
    "float": {Stored("FLOAT", "")},
    "double": {Stored("DOUBLE", "")},
    "date": {Stored("INT32", "DATE")},
    "timestamp": {Stored("INT64", "TIMESTAMP(MICROS,true)")},
    "timestamp_ntz": {Stored("INT64", "TIMESTAMP(MICROS,false)")},
    "string": {Stored("BINARY", "STRING")},
}
"""Parquet types whose bounds are usable, by the type's name in the Delta log."""

_DECIMAL = re.compile(r"decimal\((\d+), *(\d+)\)", re.IGNORECASE)


def teller(kind: str, stored: Stored | None, *, same_bytes: bool) -> BoundsSource:
    """Return the source of a column's bounds.

    Args:
        kind: The column's type, as named in the Delta log.
        stored: The column's types in the file; `None` if the file lacks the column, or has it in a list.
        same_bytes: True if the file is a byte copy of the one in the source's log.
    """
    if stored is not None and (stored in _STORED.get(kind, ()) or _is_decimal(kind, stored)):
        return BoundsSource.FOOTER
    return BoundsSource.LOG if kind in MOMENTS and same_bytes else BoundsSource.NONE


def _is_decimal(kind: str, stored: Stored) -> bool:
    """Return true if the stored decimal has the scale of the table's column, and at most its precision."""
    declared, actual = _DECIMAL.fullmatch(kind), _DECIMAL.fullmatch(stored.logical)
    if declared is None or actual is None:
        return False
    return int(actual[1]) <= int(declared[1]) and int(actual[2]) == int(declared[2])


def first_believed(kind: str, *, calendar_is_known: bool) -> int | None:
    """Return the smallest usable bound, in days or microseconds since 1970-01-01; `None` if every value is usable."""
    if kind in MOMENTS:
        return DAY_US * (YEAR_1 if calendar_is_known else SETTLED)
    return SETTLED if kind == "date" and not calendar_is_known else None


def has_largest(kind: str, *, knows_nan: bool) -> bool:
    """Return true if the footer's largest value is usable."""
    return knows_nan or kind not in ("float", "double")
