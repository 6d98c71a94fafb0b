"""Table properties as Delta reads them: words in any case of letters, and how long a table keeps files and versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from backfill_core.log_shipping import columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

FEATURE = "delta.feature."
"""How a property begins that gives a table a feature."""

CHANGE_FEED = "delta.enableChangeDataFeed"
MAPPING_MODE = "delta.columnMapping.mode"
ROW_TRACKING = "delta.enableRowTracking"
VECTORS, VECTORS_ON = "deletionVectors", "delta.enableDeletionVectors"
"""The table feature, and the property that lets writers use it."""

COLUMN_ID, PHYSICAL_NAME = columns.COLUMN_ID, columns.PHYSICAL_NAME
TYPE_CHANGES = columns.TYPE_CHANGES
"""Of a column, in its metadata; an id is never given twice."""

ELSEWHERE = ("delta.coordinatedcommits.", "delta.redirect")
"""How properties begin that name a server to ask for commits, or another table to read instead; in small letters."""

UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_NUMBER = re.compile("[0-9]{1,15}")
DEFAULT_LOG_SECONDS, DEFAULT_FILE_SECONDS = 30 * 86_400, 7 * 86_400


class PropertyNamesPlaceError(Exception):
    """A property of a table names a server or another table, which a reader would ask or read."""


def names_place(names: Iterable[str]) -> str | None:
    """Return the first property that names a server or another table; `None` without one."""
    return next((name for name in names if name.lower().startswith(ELSEWHERE)), None)


def check_names_no_place(names: Iterable[str]) -> None:
    """Refuse properties that name a server or another table: the writers of a log decide what it names.

    Raises:
        PropertyNamesPlaceError: names the property.
    """
    found = names_place(names)
    if found is not None:
        raise PropertyNamesPlaceError(f"the table property {found} names a server or another table")


def value(properties: Mapping[str, str], name: str) -> str:
    """Return a property in small letters; empty where it is not set. Delta keeps the case of what was written."""
    wanted = name.lower()
    return next((text.strip().lower() for one, text in properties.items() if one.lower() == wanted), "")


def is_on(properties: Mapping[str, str], name: str) -> bool:
    """Is a property true?"""
    return value(properties, name) == "true"


def physical_name(field: StructField) -> str:
    """Return the name of a column in files, statistics and partition values."""
    return str(field.metadata.get(PHYSICAL_NAME, field.name))


def kept_seconds(read: Callable[[str], str | None]) -> int:
    """Return the shorter of the retention of removed files and of the log; `read` gives a table property."""
    log = _seconds(read("delta.logRetentionDuration"), DEFAULT_LOG_SECONDS)
    return min(log, _seconds(read("delta.deletedFileRetentionDuration"), DEFAULT_FILE_SECONDS))


def _seconds(interval: str | None, default: int) -> int:
    words = (interval or "").lower().split()
    found = [(number, unit) for number, unit in pairwise(words) if _NUMBER.fullmatch(number)]
    return sum(int(number) * UNIT_SECONDS.get(unit.rstrip("s"), 0) for number, unit in found) or default
