"""Which files of a version may hold rows between two positions of a key, from the log alone; no Spark job.

Delta would find them too, once for each range and in a Spark job, and only where a condition is written in its own words.
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

from backfill_core.positions.key_order import KeyColumn, KeyOrder, KeyPosition, KeyValue
from backfill_core.transfer.bounds import NOT_A_TEXT
from backfill_spark.delta.log import LoggedValues, values_at
from backfill_spark.delta.properties import physical_name
from backfill_spark.delta.spark_internals import SparkDeltaLog, delta_actions
from backfill_spark.delta.statistics.column_bounds import Bounds, FileBounds, OnlyNulls, bounds_of
from backfill_spark.sources.delta.file_access import FileAccess
from backfill_spark.sources.delta.range_rows import FLOATS, Edges, cut_files, whole_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS_MAX = 2
"""Versions whose files are kept: chunks of the next one start while the last ones of this one end."""

LAST_LETTER = "\U0010ffff"

_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SortKey = tuple[Any, ...]
"""What positions, or the first columns of them, are compared by (`KeyColumn.sort_value`)."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows after one position, up to and with another one; None: no bound."""

    low: SortKey | None
    high: SortKey | None
    exhausted: int
    """After so many columns `low` is the last row: NULL is the largest value in all that follow."""

    @classmethod
    def of(cls, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> KeyRange:
        """Return the range of two positions."""
        exhausted = len(order.columns)
        while (
            low is not None and exhausted and low[exhausted - 1] is None and not order.columns[exhausted - 1].descending
        ):
            exhausted -= 1
        low_key, high_key = (None if one is None else order.sort_key(one) for one in (low, high))
        return cls(low_key, high_key, exhausted)


@dataclass(frozen=True, slots=True)
class Span:
    """Rows whose first columns lie between two sort keys of the same length, both included."""

    first: SortKey
    last: SortKey

    def meets(self, wanted: KeyRange) -> bool:
        """May it have a row of a range?"""
        columns = len(self.first)
        if wanted.high is not None and wanted.high[:columns] < self.first:
            return False
        if wanted.low is None:
            return True
        low = wanted.low[:columns]
        return low < self.last or (low == self.last and columns < wanted.exhausted)

    def lies_in(self, wanted: KeyRange) -> bool:
        """Is every row of it in a range?"""
        return self.begins_in(wanted) and self.ends_in(wanted)

    def begins_in(self, wanted: KeyRange) -> bool:
        """Is no row of it before a range?"""
        return wanted.low is None or wanted.low[: len(self.first)] < self.first

    def ends_in(self, wanted: KeyRange) -> bool:
        """Is no row of it after a range?"""
        if wanted.high is None:
            return True
        columns = len(self.last)
        high = wanted.high[:columns]
        return self.last < high or (self.last == high and columns == len(wanted.high))


@dataclass(frozen=True, slots=True)
class RangedFile:
    """A file of a version: where its rows may be, and its `add` action."""

    spans: tuple[Span, ...]
    """The first one has its rows but for NULL and NaN of the first column."""

    last: KeyPosition | None
    """No row of the first span is behind it; None: the log does not say."""

    action: str
    rows: int | None = None
    """Without deleted ones; `None` if the log does not record it."""
    has_nulls: bool = True
    """May the first column have nulls beside other values?"""

    def is_read(self, wanted: KeyRange) -> bool:
        """May it have a row of a range?"""
        return any(one.meets(wanted) for one in self.spans)

    def edges(self, wanted: KeyRange) -> Edges:
        """Return what the log says of its rows outside of a range."""
        rows = self.spans[0]
        return Edges(
            whole=all(span.lies_in(wanted) for span in self.spans),
            begins=rows.begins_in(wanted),
            ends=rows.ends_in(wanted),
            has_nulls=self.has_nulls,
        )


class RangeFiles:
    """The files of a table, by version; several threads may ask."""

    def __init__(self, spark: SparkSession, log: SparkDeltaLog, schema: StructType, access: FileAccess) -> None:
        """Take the table; `schema` has the columns by which it is read, `access` its path."""
        self._spark, self._log, self._schema, self._access = spark, log, schema, access
        self._lock = threading.Lock()
        self._versions: dict[tuple[int, KeyOrder], tuple[Any, list[RangedFile]]] = {}

    def frame(self, version: int, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> DataFrame:
        """Return the rows of a version after `low`, up to and with `high`; lazy.

        Raises:
            Whatever Kernel, Delta or the storage say (`LOG_ERRORS`).
        """
        snapshot, files = self._at(version, order)
        wanted = KeyRange.of(order, low, high)
        groups: dict[Edges, list[str]] = {}
        for file in files:
            if file.is_read(wanted):
                groups.setdefault(file.edges(wanted), []).append(file.action)

        def rows(actions: Sequence[str]) -> DataFrame:
            return self._log.frame(delta_actions(self._spark, actions), snapshot)

        found = [
            whole_files(rows(actions), order, low, high)
            if edges.whole
            else cut_files(rows(actions), order, low, high, edges)
            for edges, actions in groups.items()
        ]
        return reduce(DataFrame.unionAll, found) if found else rows([])

    def files(self, version: int, order: KeyOrder) -> list[RangedFile]:
        """Return the files of a version in the order of their paths.

        Raises:
            Whatever Kernel, Delta or the storage say (`LOG_ERRORS`).
        """
        return self._at(version, order)[1]

    def _at(self, version: int, order: KeyOrder) -> tuple[Any, list[RangedFile]]:
        with self._lock:
            found = self._versions.get((version, order))
            if found is None:
                snapshot = self._log.at(version)
                found = snapshot, self._list(version, order, self._log.partitions(snapshot))
                self._versions = {**dict(list(self._versions.items())[1 - VERSIONS_MAX :]), (version, order): found}
            return found

    def _list(self, version: int, order: KeyOrder, partitions: Sequence[str]) -> list[RangedFile]:
        fields = [self._schema[column.name] for column in order.columns]
        names = [physical_name(field) for field in fields]
        files = values_at(self._spark, self._access.source, version, columns=names)
        self._access.check_listed(version, files)
        bounds = [
            bounds_of(files, at, field.dataType, partition=names[at] if field.name in partitions else None)
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
    """Say of each column whether the file may have nulls in it; what the log does not say may be."""
    return tuple(file.nulls[at] != 0 for at in range(len(order.columns)))


def ranged_file(order: KeyOrder, bounds: Sequence[FileBounds], nullable: Sequence[bool], action: str) -> RangedFile:
    """Return where the rows of a file may be, by its first columns up to one of which nothing is known.

    A row lies between the first values of all columns and the last values of all columns. NULL and NaN of the first column, which may
    be far from its other values, have a span of their own.

    Args:
        order: The order.
        bounds: Of each column.
        nullable: May the column have nulls beside these values?
        action: Of the file.
    """
    first: SortKey = ()
    last: SortKey = ()
    position: KeyPosition | None = ()
    beside: list[Any] = []
    for at, (column, known, nulls) in enumerate(zip(order.columns, bounds, nullable, strict=True)):
        values, others = _values(column, known, nulls)
        if not values:
            # NULL is behind every value, where the column goes up.
            rest = order.columns[at:]
            position = None if any(one.descending for one in rest) else (*(position or ()), *(None for _ in rest))
            break
        beside, values = (others, values) if at == 0 else (beside, [*values, *others])
        keys = {column.sort_value(one): one for one in values}
        first, last = (*first, min(keys)), (*last, max(keys))
        position = (*(position or ()), keys[max(keys)])
    apart = (order.columns[0].sort_value(one) for one in beside)
    spans = (Span(first, last), *(Span((one, *first[1:]), (one, *last[1:])) for one in apart))
    return RangedFile(spans, position, action, has_nulls=nullable[0])


def _values(column: KeyColumn, known: FileBounds, nulls: bool) -> tuple[list[KeyValue], list[KeyValue]]:
    """Return the values that bound those of a column, and those that may be beside; none where nothing is known."""
    match known:
        case OnlyNulls():
            return [None], []
        case Bounds():
            # Statistics tell of no NaN.
            beside: list[KeyValue] = [float("nan")] if column.type in FLOATS else []
            beside += [None] if nulls else []
            low, high = _cut(known.low, ""), _cut(known.high, LAST_LETTER)
            return [key_value(column, low), key_value(column, high)], beside
        case _:
            return [], []


def _cut(bound: Any, end: str) -> Any:
    """Return a bound; of a text what was cut, or is no text, becomes `end`: it stands for smaller and for larger letters."""
    if not isinstance(bound, str) or NOT_A_TEXT not in bound:
        return bound
    return bound.partition(NOT_A_TEXT)[0] + end


def key_value(column: KeyColumn, value: Any) -> KeyValue:
    """Return a value of the log as one of a position."""
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
