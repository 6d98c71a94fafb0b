"""Which bounds of a copied file are believed: those of its footer, those of its source's log, or none.

A footer tells bounds in the file's own terms: milliseconds, unsigned numbers, days of another calendar. A reader that leaves out files
takes them for values of the table's column. So a bound is believed only where both are the same, and one that is not is left out:
a file without a bound is read, a file with a wrong one is lost.

column of the table     in the file                                    bounds
---------------------   --------------------------------------------   --------------------------------------------------
any                     its own physical and logical type              the footer's
moments                 other units, INT96                             the log's, where the bytes are the same; else none
any other               anything else                                  none

value                   in                                             believed
---------------------   --------------------------------------------   --------------------------------------------------
day, moment             a file whose calendar is not known             from 1900 on
moment                  any file                                       from the year 1 on: Kernel writes others without a sign
text with U+FFFD        any file                                       never: it was cut, or made of bytes that are no text
largest float           a file whose writer may have left out NaN      never: NaN is larger
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

Path = tuple[str, ...]
"""Names of a column in files, outer ones first."""

MOMENTS = frozenset({"timestamp", "timestamp_ntz"})
DAY_US = 86_400_000_000
YEAR_1, SETTLED = -719_162, -25_567
"""0001-01-01 and 1900-01-01, in days since 1970-01-01. From the second one on all calendars agree."""

NOT_A_TEXT = "\ufffd"


class Teller(Enum):
    """Who tells the bounds of a column."""

    FOOTER = auto()
    LOG = auto()
    """Of the source."""

    NONE = auto()


@dataclass(frozen=True, slots=True)
class Stored:
    """How a Parquet file stores a column, in Parquet's words."""

    physical: str
    logical: str
    """Empty: the column has no logical type."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a footer says of how values were written."""

    columns: tuple[tuple[Path, Stored], ...]
    """Those that are in no list."""

    calendar_is_known: bool
    """Are days and moments those of today's calendar for every reader?"""

    knows_nan: bool
    """Is there no NaN where a float column has bounds?"""


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
"""By the name of a type in Delta's log."""

_DECIMAL = re.compile(r"decimal\((\d+), *(\d+)\)", re.IGNORECASE)


def teller(kind: str, stored: Stored | None, *, same_bytes: bool) -> Teller:
    """Return who tells the bounds of a column.

    Args:
        kind: Its type, as Delta's log names it.
        stored: How the file stores it; None: it has no such column, or in a list.
        same_bytes: Is the file a copy of the one that the source's log describes?
    """
    if stored is not None and (stored in _STORED.get(kind, ()) or _is_decimal(kind, stored)):
        return Teller.FOOTER
    return Teller.LOG if kind in MOMENTS and same_bytes else Teller.NONE


def _is_decimal(kind: str, stored: Stored) -> bool:
    """Has it the scale of the table's column, and no more digits?"""
    wanted, found = _DECIMAL.fullmatch(kind), _DECIMAL.fullmatch(stored.logical)
    if wanted is None or found is None:
        return False
    return int(found[1]) <= int(wanted[1]) and int(found[2]) == int(wanted[2])


def first_believed(kind: str, *, calendar_is_known: bool) -> int | None:
    """Return the smallest value that is believed as a bound, in days or microseconds since 1970-01-01; None: any is."""
    if kind in MOMENTS:
        return DAY_US * (YEAR_1 if calendar_is_known else SETTLED)
    return SETTLED if kind == "date" and not calendar_is_known else None


def has_largest(kind: str, *, knows_nan: bool) -> bool:
    """Is the largest value that a footer tells believed?"""
    return knows_nan or kind not in ("float", "double")
