"""What is known of the values of a file, for a filter that asks for some columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql.types import DataType, DoubleType, FloatType, StructType

from backfill_core.transfer.facts import ColumnFacts, TableFacts
from backfill_core.transfer.filters import Condition, Nulls, Values, columns_of
from backfill_core.transfer.ways import NO_FOLDER
from backfill_spark.delta.statistics.column_bounds import (
    Bounds,
    OnlyNulls,
    Unknown,
    bounds_of,
    has_order,
    is_partition_value,
)

if TYPE_CHECKING:
    from backfill_spark.delta.log import LoggedValues
    from backfill_spark.delta.source_file import SourceFile

SETTLED = date(1900, 1, 1)
"""Since then all calendars that a file was written by agree."""

NOT_A_TEXT = "\ufffd"
"""What a writer puts into statistics for bytes that are no text, or behind a text that it cut."""


@dataclass(frozen=True, slots=True)
class FilterColumn:
    """A column that a filter asks for, and of which the log says exactly what is in files."""

    facts: ColumnFacts
    kind: DataType
    is_partition: bool

    def values(self, logged: LoggedValues, column: int) -> Values:
        """Return what is known of it in a file; `column`: which of the columns of `logged` it is."""
        name = self.facts.physical
        if self.is_partition and name not in logged.partition:
            return Values()
        (found,) = bounds_of([logged], column, self.kind, partition=name if self.is_partition else None)
        if isinstance(found, OnlyNulls):
            return Values(nulls=Nulls.ALL)
        if self.is_partition:
            none = is_partition_value(logged.partition[name], self.kind)
        else:
            none = logged.nulls[column] == 0
        nulls = Nulls.NONE if none else Nulls.PERHAPS
        match found:
            case Unknown():
                return Values(nulls=nulls)
            case Bounds(low, high):
                values = Values(_trusted(low), _trusted(high), nulls)
        # NaN is larger than any number, and in no bounds.
        return replace(values, high=None) if isinstance(self.kind, FloatType | DoubleType) else values


@dataclass(frozen=True, slots=True)
class FilterColumns:
    """The columns of a filter."""

    columns: tuple[FilterColumn, ...] = ()

    @classmethod
    def of(cls, condition: Condition | None, table: TableFacts, schema: StructType) -> Self:
        """Return those of a condition whose values are what files hold."""
        asked = frozenset[str]() if condition is None else columns_of(condition)
        return cls(
            tuple(
                FilterColumn(one, schema[one.name].dataType, one.name in table.partitions)
                for one in table.columns
                if one.name in asked and one.oddity is None and not one.widened and has_order(schema[one.name].dataType)
            )
        )

    def values(self, file: SourceFile) -> Mapping[str, Values]:
        """Return what is known of each in a file, by name."""
        if not self.columns:
            return {}
        logged = file.logged_values([one.facts.physical for one in self.columns])
        return {one.facts.name: one.values(logged, at) for at, one in enumerate(self.columns)}


def _trusted(bound: Any) -> Any:
    """Return a bound; None: another writer's may be wrong."""
    match bound:
        case str():
            return None if NOT_A_TEXT in bound or bound == NO_FOLDER else bound
        case datetime():
            return bound if bound.date() >= SETTLED else None
        case date():
            return bound if bound >= SETTLED else None
    return bound
