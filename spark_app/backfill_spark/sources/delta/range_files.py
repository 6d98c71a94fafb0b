"""Finds the files of a version that may hold rows between two key positions, from the log and without a Spark job.

Delta's data skipping could find them too, but with a Spark job for each range, and only for conditions that it supports.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from backfill_core.file_copies.bounds import NOT_A_TEXT
from backfill_core.positions.key_order import KeyColumn, KeyOrder, KeyPosition, KeyValue
from backfill_spark.delta.log import values_at
from backfill_spark.delta.properties import physical_name
from backfill_spark.delta.source_file import LoggedValues
from backfill_spark.delta.spark_internals import SparkDeltaLog, delta_actions
from backfill_spark.delta.statistics.column_bounds import Bounds, FileBounds, OnlyNulls, bounds_of
from backfill_spark.sources.delta.file_access import FileAccess
from backfill_spark.sources.delta.range_rows import FLOATS, Edges, cut_files, whole_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS_MAX = 2
"""Number of versions whose files are cached: chunks of the next version start while the last chunks of this one end."""

LAST_LETTER = "\U0010ffff"

_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SortKey = tuple[Any, ...]
"""Comparable form of a position, or of its first columns (`KeyColumn.sort_value`)."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows after `low`, up to and including `high`; a bound that is `None` does not apply."""

    low: SortKey | None
    high: SortKey | None
    exhausted: int
    """Number of leading columns after which `low` has only NULLs, the largest values; no row with these columns follows it."""

    @classmethod
    def of(cls, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> KeyRange:
        """Return the range of two positions."""
        exhausted = len(order.columns)
        while (
            low is not None and exhausted and low[exhausted - 1] is None and not order.columns[exhausted - 1].descending
        ):
            exhausted -= 1
        low_key, high_key = (None if position is None else order.sort_key(position) for position in (low, high))
        return cls(low_key, high_key, exhausted)


@dataclass(frozen=True, slots=True)
class Span:
    """Rows whose first columns lie between two sort keys of the same length, inclusive."""

    first: SortKey
    last: SortKey

    def meets(self, key_range: KeyRange) -> bool:
        """Return True if the span may have a row of a range."""
        columns = len(self.first)
        if key_range.high is not None and key_range.high[:columns] < self.first:
            return False
        if key_range.low is None:
            return True
        low = key_range.low[:columns]
        return low < self.last or (low == self.last and columns < key_range.exhausted)

    def lies_in(self, key_range: KeyRange) -> bool:
        """Return True if every row of the span is in a range."""
        return self.begins_in(key_range) and self.ends_in(key_range)

    def begins_in(self, key_range: KeyRange) -> bool:
        """Return True if no row of the span is before a range."""
        return key_range.low is None or key_range.low[: len(self.first)] < self.first

    def ends_in(self, key_range: KeyRange) -> bool:
        """Return True if no row of the span is after a range."""
        if key_range.high is None:
            return True
        columns = len(self.last)
        high = key_range.high[:columns]
        return self.last < high or (self.last == high and columns == len(key_range.high))


@dataclass(frozen=True, slots=True)
class RangedFile:
    """A file of a version: the spans of its rows, and its `add` action."""

    spans: tuple[Span, ...]
    """Spans that contain all rows. The first one excludes NULL and NaN of the first column."""

    last: KeyPosition | None
    """Position that no row of the first span exceeds; `None` if the log does not record it."""

    action: str
    rows: int | None = None
    """Number of rows without deleted ones; `None` if the log does not record it."""
    has_nulls: bool = True
    """True if the first column may have nulls in addition to other values."""

    def is_read(self, key_range: KeyRange) -> bool:
        """Return True if the file may have a row of a range."""
        return any(span.meets(key_range) for span in self.spans)

    def edges(self, key_range: KeyRange) -> Edges:
        """Return the position of the file relative to a range."""
        rows = self.spans[0]
        return Edges(
            whole=all(span.lies_in(key_range) for span in self.spans),
            begins=rows.begins_in(key_range),
            ends=rows.ends_in(key_range),
            has_nulls=self.has_nulls,
        )


class RangeFiles:
    """Files of a table, by version. Thread-safe."""

    def __init__(self, spark: SparkSession, log: SparkDeltaLog, schema: StructType, access: FileAccess) -> None:
        """Store the table; `schema` has the columns to read, `access` the path."""
        self._spark, self._log, self._schema, self._access = spark, log, schema, access
        self._lock = threading.Lock()
        self._versions: dict[tuple[int, KeyOrder], tuple[Any, list[RangedFile]]] = {}

    def frame(self, version: int, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> DataFrame:
        """Return the rows of a version after `low`, up to and including `high`; lazy.

        Raises:
            LOG_ERRORS: Kernel, Delta or the storage failed.
        """
        snapshot, files = self._at(version, order)
        key_range = KeyRange.of(order, low, high)
        groups: dict[Edges, list[str]] = {}
        for file in files:
            if file.is_read(key_range):
                groups.setdefault(file.edges(key_range), []).append(file.action)

        def rows(actions: Sequence[str]) -> DataFrame:
            return self._log.frame(delta_actions(self._spark, actions), snapshot)

        frames = [
            whole_files(rows(actions), order, low, high)
            if edges.whole
            else cut_files(rows(actions), order, low, high, edges)
            for edges, actions in groups.items()
        ]
        return reduce(DataFrame.unionAll, frames) if frames else rows([])

    def files(self, version: int, order: KeyOrder) -> list[RangedFile]:
        """Return the files of a version in the order of their paths.

        Raises:
            LOG_ERRORS: Kernel, Delta or the storage failed.
        """
        return self._at(version, order)[1]

    def _at(self, version: int, order: KeyOrder) -> tuple[Any, list[RangedFile]]:
        with self._lock:
            cached = self._versions.get((version, order))
            if cached is None:
                snapshot = self._log.at(version)
                cached = snapshot, self._list(version, order, self._log.partitions(snapshot))
                self._versions = {**dict(list(self._versions.items())[1 - VERSIONS_MAX :]), (version, order): cached}
            return cached

    def _list(self, version: int, order: KeyOrder, partitions: Sequence[str]) -> list[RangedFile]:
        fields = [self._schema[column.name] for column in order.columns]
        names = [physical_name(field) for field in fields]
        files = values_at(self._spark, self._access.source, version, columns=names)
        self._access.check_listed(version, files)
        bounds = [
            bounds_of(files, at, field, partition=names[at] if field.name in partitions else None)
            for at, field in enumerate(fields)
        ]
        return [
            replace(
                ranged_file(order, [of_column[number] for of_column in bounds], _nullable(file, order), file.action),
                rows=None if file.rows is None else file.rows - file.deleted,
            )
            for number, file in enumerate(files)
        ]


def _nullable(file: LoggedValues, order: KeyOrder) -> tuple[bool, ...]:
    """Return, for each column, True if the file may have nulls in it, or if the log does not record their number."""
    return tuple(file.nulls[at] != 0 for at in range(len(order.columns)))


def ranged_file(order: KeyOrder, bounds: Sequence[FileBounds], nullable: Sequence[bool], action: str) -> RangedFile:
    """Return the spans of a file's rows, by the leading columns with known bounds.

    Each row is between the smallest values of these columns and their largest values. NULL and NaN of the first column, which may be
    far from its other values, get separate spans.

    Args:
        order: The order.
        bounds: Bounds of each column.
        nullable: For each column, True if it may have nulls in addition to these values.
        action: The file's `add` action.
    """
    first: SortKey = ()
    last: SortKey = ()
    position: KeyPosition | None = ()
    separate: list[Any] = []
    for at, (column, bound, nulls) in enumerate(zip(order.columns, bounds, nullable, strict=True)):
        values, unbounded = _values(column, bound, nulls)
        if not values:
            # NULL is larger than every value, in ascending columns.
            rest = order.columns[at:]
            descends = any(remaining.descending for remaining in rest)
            position = None if descends else (*(position or ()), *(None for _ in rest))
            break
        separate, values = (unbounded, values) if at == 0 else (separate, [*values, *unbounded])
        keys = {column.sort_value(value): value for value in values}
        first, last = (*first, min(keys)), (*last, max(keys))
        position = (*(position or ()), keys[max(keys)])
    apart = (order.columns[0].sort_value(value) for value in separate)
    spans = (Span(first, last), *(Span((key, *first[1:]), (key, *last[1:])) for key in apart))
    return RangedFile(spans, position, action, has_nulls=nullable[0])


def _values(column: KeyColumn, bounds: FileBounds, nulls: bool) -> tuple[list[KeyValue], list[KeyValue]]:
    """Return the smallest and largest value of a column, and possible values outside of them; both empty if unknown."""
    match bounds:
        case OnlyNulls():
            return [None], []
        case Bounds():
            # Statistics do not include NaN.
            unbounded: list[KeyValue] = [float("nan")] if column.type in FLOATS else []
            unbounded += [None] if nulls else []
            low, high = _cut(bounds.low, ""), _cut(bounds.high, LAST_LETTER)
            return [key_value(column, low), key_value(column, high)], unbounded
        case _:
            return [], []


def _cut(bound: Any, end: str) -> Any:
    """Return a bound; in a string, `end` replaces everything from the first truncated or unreadable character on."""
    if not isinstance(bound, str) or NOT_A_TEXT not in bound:
        return bound
    return bound.partition(NOT_A_TEXT)[0] + end


def key_value(column: KeyColumn, value: Any) -> KeyValue:
    """Return a value of the log as a value of a position."""
    match value:
        case datetime():
            passed = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
            return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
        case date():
            return (value - _EPOCH_DAY).days
        case bool() | str():
            return value
        case _ if column.type in FLOATS:
            return float(value)
        case _ if column.type.startswith("decimal"):
            return Decimal(value)
        case _:
            return int(value)
