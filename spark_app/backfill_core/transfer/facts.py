"""What is known of a transform, of two tables and of a file before anything of the file is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from backfill_core.transfer.filters import Condition, Values

TEXT = '"string"'
"""The type STRING, as `ColumnFacts.type` spells it."""


def partition_value(text: str | None, kind: str) -> str | None:
    """Return the text of a partition value in the log; `None` if readers see null.

    Spark casts the text to the column's type: an empty text is a value of a STRING column, and null in any other. The protocol
    calls it null, and writers other than Spark log it for an empty STRING.

    Args:
        text: The text in the log.
        kind: The column's type, as `ColumnFacts.type` spells it.
    """
    return text if text or kind == TEXT else None


class Oddity(Enum):
    """What makes a reader see other values of a column than its file holds."""

    TYPE_CHANGED = "its type was changed after files were written"
    LENGTH = "it has a length limit (CHAR or VARCHAR)"
    FILLED = "older files have no values of it, and readers see its default"
    COLLATION = "its texts are not compared byte by byte"
    VARIANT = "it is a VARIANT, which a file may hold in parts"


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A top-level column of a table."""

    name: str
    physical: str
    """Its name in files, in statistics and in partition values."""

    type: str
    """Its type and the physical names inside it, in one spelling; nullability is none of it."""

    takes_null: bool = True
    oddity: Oddity | None = None
    """Of the column or of a field inside it."""

    is_instant: bool = False
    """Is it a timestamp with a time zone?"""

    widened: str = ""
    """How its type, or one inside it, became wider after files were written, in one spelling; empty: it did not, or see `oddity`."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A version of a source, or a target as it is or will be made."""

    columns: tuple[ColumnFacts, ...]
    partitions: tuple[str, ...] = ()
    """Names of the partition columns, in their order."""

    features: frozenset[str] = frozenset()
    """Of readers and writers, as far as the protocol names them."""

    mapped_by_id: bool = False
    drops: bool = False
    """May files hold values of columns that the table does not have any more?"""

    vectors: bool = False
    """May files that are added have deletion vectors?"""

    keeps_empty_texts: bool = False
    """Does a partition column of a target hold an empty text? Spark's own writes store null instead."""

    def stored_partition(self, text: str | None, column: ColumnFacts) -> str | None:
        """Return the partition value that this target stores for one of a source's `column`; `None` is null."""
        value = partition_value(text, column.type)
        return value if value or self.keeps_empty_texts else None

    @property
    def by_name(self) -> dict[str, ColumnFacts]:
        """The columns by name."""
        return {one.name: one for one in self.columns}


@dataclass(frozen=True, slots=True)
class Taken:
    """An output column that is a column of the source."""

    column: str


@dataclass(frozen=True, slots=True)
class Computed:
    """An output column that must be computed."""

    name: str
    may_fail: bool = True
    """May there be a row of the source for which it cannot be computed?"""


@dataclass(frozen=True, slots=True)
class TransformFacts:
    """What a transform and a write mode make of a row of the source."""

    outputs: Mapping[str, Taken | Computed]
    """By the name of the output column."""

    condition: Condition | None = None
    """Rows of which it is true are kept; None: all are."""

    adds_columns: bool = False
    """Does the write mode add columns of its own?"""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A data file as the source's log describes it."""

    rows: int | None
    """Deleted ones included; None: not said."""

    nulls: Mapping[str, int] = field(default_factory=dict)
    """Nulls of a column by physical name, deleted rows included, as far as the log says."""

    partition: Mapping[str, str | None] = field(default_factory=dict)
    """By physical name."""

    values: Mapping[str, Values] = field(default_factory=dict)
    """By name of a column that the condition asks for."""

    has_vector: bool = False
    is_elsewhere: bool = False
    """Does it lie outside the table's folder, as after a shallow clone?"""
