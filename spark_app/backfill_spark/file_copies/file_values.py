"""Bounds of the values in a file, for the columns of a filter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql.types import DoubleType, FloatType, StructField, StructType

from backfill_core.file_copies.copy_modes import NO_FOLDER
from backfill_core.file_copies.facts import ColumnFacts, TableFacts
from backfill_core.file_copies.filters import Condition, Nulls, Values, columns_of
from backfill_spark.delta.statistics.column_bounds import (
    Bounds,
    OnlyNulls,
    Unknown,
    bounds_of,
    has_order,
    is_partition_value,
)

if TYPE_CHECKING:
    from backfill_spark.delta.source_file import LoggedValues, SourceFile

SETTLED = date(1900, 1, 1)
"""First day on which the Julian and Gregorian calendars of writers agree for all later dates."""

NOT_A_TEXT = "\ufffd"
"""Replacement character in statistics for bytes that are not UTF-8, or at the end of a truncated string."""


@dataclass(frozen=True, slots=True)
class FilterColumn:
    """A filter column whose statistics are exact."""

    facts: ColumnFacts
    field: StructField
    is_partition: bool

    def values(self, logged: LoggedValues, column: int) -> Values:
        """Return the bounds of the column in a file; `column` is its index in `logged`."""
        name = self.facts.physical
        if self.is_partition and name not in logged.partition:
            return Values()
        (bounds,) = bounds_of([logged], column, self.field, partition=name if self.is_partition else None)
        if isinstance(bounds, OnlyNulls):
            return Values(nulls=Nulls.ALL)
        if self.is_partition:
            none = is_partition_value(logged.partition[name], self.field.dataType)
        else:
            none = logged.nulls[column] == 0
        nulls = Nulls.NONE if none else Nulls.PERHAPS
        match bounds:
            case Unknown():
                return Values(nulls=nulls)
            case Bounds(low, high):
                values = Values(_trusted(low), _trusted(high), nulls)
        # NaN is larger than any number, but never included in bounds.
        return replace(values, high=None) if isinstance(self.field.dataType, FloatType | DoubleType) else values


@dataclass(frozen=True, slots=True)
class FilterColumns:
    """The columns of a filter."""

    columns: tuple[FilterColumn, ...] = ()

    @classmethod
    def of(cls, condition: Condition | None, table: TableFacts, schema: StructType) -> Self:
        """Return the columns of a condition whose stored values equal the values that the condition compares."""
        used = frozenset[str]() if condition is None else columns_of(condition)
        columns = (
            column for column in table.columns if column.name in used and column.oddity is None and not column.widened
        )
        return cls(
            tuple(
                FilterColumn(column, schema[column.name], column.name in table.partitions)
                for column in columns
                if has_order(schema[column.name].dataType)
            )
        )

    def values(self, file: SourceFile) -> Mapping[str, Values]:
        """Return the bounds of each column in a file, by name."""
        return self.of_logged(file.logged_values(self.physical)) if self.columns else {}

    @property
    def physical(self) -> list[str]:
        """Names of the columns in statistics and partition values."""
        return [column.facts.physical for column in self.columns]

    def of_logged(self, logged: LoggedValues) -> Mapping[str, Values]:
        """Return the bounds of each column by name, from a log's facts about the columns `physical`."""
        return {column.facts.name: column.values(logged, at) for at, column in enumerate(self.columns)}


def _trusted(bound: Any) -> Any:
    """Return a bound; `None` if it may be wrong in statistics of some writers."""
    match bound:
        case str():
            return None if NOT_A_TEXT in bound or bound == NO_FOLDER else bound
        case datetime():
            return bound if bound.date() >= SETTLED else None
        case date():
            return bound if bound >= SETTLED else None
    return bound
