"""Table properties as Delta reads them: case-insensitive values, and the retention of files and versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from backfill_core.log_shipping import columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

FEATURE = "delta.feature."
"""Prefix of properties that enable a table feature."""

CHANGE_FEED = "delta.enableChangeDataFeed"
MAPPING_MODE = "delta.columnMapping.mode"
ROW_TRACKING = "delta.enableRowTracking"
VECTORS, VECTORS_ON = "deletionVectors", "delta.enableDeletionVectors"
"""The table feature of deletion vectors, and the property that lets writers use it."""

COLUMN_ID, PHYSICAL_NAME = columns.COLUMN_ID, columns.PHYSICAL_NAME
TYPE_CHANGES = columns.TYPE_CHANGES
"""Keys in the metadata of a column; an id is never reused."""

ELSEWHERE = ("delta.coordinatedcommits.", "delta.redirect")
"""Lower-case prefixes of properties that name a server for commits, or another table to read instead."""

UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_NUMBER = re.compile("[0-9]{1,15}")
DEFAULT_LOG_SECONDS, DEFAULT_FILE_SECONDS = 30 * 86_400, 7 * 86_400


class PropertyNamesPlaceError(Exception):
    """A property of a table names a server or another table, which a reader would contact or read."""


def names_place(names: Iterable[str]) -> str | None:
    """Return the first property that names a server or another table; `None` if there is none."""
    return next((name for name in names if name.lower().startswith(ELSEWHERE)), None)


def check_names_no_place(names: Iterable[str]) -> None:
    """Reject properties that name a server or another table, because the writers of a log decide its content.

    Raises:
        PropertyNamesPlaceError: there is such a property; the message names it.
    """
    name = names_place(names)
    if name is not None:
        raise PropertyNamesPlaceError(f"the table property {name} names a server or another table")


def value(properties: Mapping[str, str], name: str) -> str:
    """Return the value of a property in lower case; empty if it is not set. Delta stores names and values in their original case."""
    lower = name.lower()
    return next((text.strip().lower() for key, text in properties.items() if key.lower() == lower), "")


def is_on(properties: Mapping[str, str], name: str) -> bool:
    """Return True if a property is `true`."""
    return value(properties, name) == "true"


def physical_name(field: StructField) -> str:
    """Return the name of a column in files, statistics and partition values."""
    return str(field.metadata.get(PHYSICAL_NAME, field.name))


INTERVAL_CHARACTERS_MAX = 1000
"""Longer intervals are cut: a table property may have megabytes."""


def retention_seconds(name: str, text: str | None) -> int:
    """Return the seconds of a retention by the name of its property and its value; `None` stands for Delta's default."""
    return _seconds(text, DEFAULT_LOG_SECONDS if name == "delta.logRetentionDuration" else DEFAULT_FILE_SECONDS)


def kept_seconds(read: Callable[[str], str | None]) -> int:
    """Return the retention of removed files or of the log in seconds, the shorter one; `read` returns a table property."""
    log = _seconds(read("delta.logRetentionDuration"), DEFAULT_LOG_SECONDS)
    return min(log, _seconds(read("delta.deletedFileRetentionDuration"), DEFAULT_FILE_SECONDS))


def _seconds(interval: str | None, default: int) -> int:
    tokens = (interval or "")[:INTERVAL_CHARACTERS_MAX].lower().split()
    parts = [(number, unit) for number, unit in pairwise(tokens) if _NUMBER.fullmatch(number)]
    return sum(int(number) * UNIT_SECONDS.get(unit.rstrip("s"), 0) for number, unit in parts) or default
