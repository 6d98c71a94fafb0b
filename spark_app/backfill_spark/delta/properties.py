"""Table properties as Delta reads them: words in any case of letters."""

from __future__ import annotations

from collections.abc import Mapping
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
