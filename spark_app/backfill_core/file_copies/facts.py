"""Facts of a transform, of source and target and of a file that are available before the file is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from backfill_core.file_copies.filters import Condition, Values

TEXT = '"string"'
"""The type STRING, as `ColumnFacts.type` spells it."""


def partition_value(text: str | None, kind: str) -> str | None:
    """Return a logged partition value as readers see it; `None` if readers see null.

    Spark casts the logged string to the column's type: an empty string is a value of a STRING column, and null in any other.
    The protocol defines it as null, and writers other than Spark log it for an empty STRING.

    Args:
        text: The string in the log.
        kind: The column's type, as `ColumnFacts.type` spells it.
    """
    return text if text or kind == TEXT else None


class UnsupportedColumn(Enum):
    """Reasons why readers see other values of a column than its file contains."""

    TYPE_CHANGED = "its type was changed after files were written"
    LENGTH = "it has a length limit (CHAR or VARCHAR)"
    FILLED = "older files have no values of it, and readers see its default"
    COLLATION = "its strings are not compared byte by byte"
    VARIANT = "it is a VARIANT, which a file may store in parts"


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A top-level column of a table."""

    name: str
    physical: str
    """The column's name in files, statistics and partition values."""

    type: str
    """The type with its physical field names, in canonical form, without nullability."""

    takes_null: bool = True
    oddity: UnsupportedColumn | None = None
    """The oddity of the column or of a field inside it."""

    is_instant: bool = False
    """True for a timestamp with a time zone."""

    widened: str = ""
    """Type widenings of the column and its fields since files were written, in canonical form; empty if none, or see `oddity`."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A version of a source, or an existing or planned target."""

    columns: tuple[ColumnFacts, ...]
    partitions: tuple[str, ...] = ()
    """Names of the partition columns, in order."""

    features: frozenset[str] = frozenset()
    """Reader and writer features that the protocol action lists."""

    mapped_by_id: bool = False
    drops: bool = False
    """True if files may contain values of dropped columns."""

    vectors: bool = False
    """True if added files may have deletion vectors."""

    keeps_empty_texts: bool = False
    """True if the target's partition columns keep empty strings. Spark's own writes store null instead."""

    def stored_partition(self, text: str | None, column: ColumnFacts) -> str | None:
        """Return the partition value that this target stores for a value of the source's `column`; `None` for null."""
        value = partition_value(text, column.type)
        return value if value or self.keeps_empty_texts else None

    @property
    def by_name(self) -> dict[str, ColumnFacts]:
        """Return the columns by name."""
        return {column.name: column for column in self.columns}


@dataclass(frozen=True, slots=True)
class Taken:
    """An output column that is a column of the source."""

    column: str


@dataclass(frozen=True, slots=True)
class Computed:
    """An output column that must be computed."""

    name: str
    may_fail: bool = True
    """True if the computation may fail for a row of the source."""


@dataclass(frozen=True, slots=True)
class TransformFacts:
    """Effect of a transform and a write mode on a row of the source."""

    outputs: Mapping[str, Taken | Computed]
    """Outputs by the name of the output column."""

    condition: Condition | None = None
    """Rows for which it is true are kept; `None` keeps all rows."""

    adds_columns: bool = False
    """True if the write mode adds columns."""

    hides: bool = False
    """True if a copied file may hold rows that fail the condition, hidden by its deletion vector."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A data file as the source's log describes it."""

    rows: int | None
    """Row count including deleted rows; `None` if the log has no count."""

    nulls: Mapping[str, int] = field(default_factory=dict)
    """Null counts by physical name, including deleted rows; only those in the log."""

    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Partition values by physical name."""

    values: Mapping[str, Values] = field(default_factory=dict)
    """Values by name, for the columns of the condition."""

    has_vector: bool = False
    is_elsewhere: bool = False
    """True if the file is outside the table's folder, as after a shallow clone."""
