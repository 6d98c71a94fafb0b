"""Which files of a version may hold rows between two positions of a key, from the log alone; no Spark job.

Delta would find them too, once for each range and in a Spark job, and only where a condition is written in its own words.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from backfill_core.positions.key_order import KeyColumn, KeyOrder, KeyPosition, KeyValue
from backfill_spark.delta.log import LoggedValues, values_at
from backfill_spark.delta.properties import physical_name
from backfill_spark.delta.spark_internals import SparkDeltaLog, delta_actions
from backfill_spark.sources.delta.file_bounds import Bounds, FileBounds, OnlyNulls, bounds_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSIONS_MAX = 2
"""Versions whose files are kept: chunks of the next one start while the last ones of this one end."""

FLOATS = ("float", "double")

_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Prefix = tuple[Any, ...]
"""What the first columns of positions are compared by (`KeyColumn.sort_value`)."""


@dataclass(frozen=True, slots=True)
class Span:
    """Rows whose first columns lie between two prefixes of the same length, both included."""

    first: Prefix
    last: Prefix

    def meets(self, low: Prefix | None, high: Prefix | None) -> bool:
        """May it have a row after `low`, up to and with `high`? Both are whole; None: no bound."""
        columns = len(self.first)
        return (low is None or low[:columns] <= self.last) and (high is None or high[:columns] >= self.first)


@dataclass(frozen=True, slots=True)
class RangedFile:
    """A file of a version: where its rows may be, and its `add` action."""

    spans: tuple[Span, ...]
    action: str


class RangeFiles:
    """The files of a table, by version; several threads may ask."""

    def __init__(self, spark: SparkSession, path: str, log: SparkDeltaLog, schema: StructType) -> None:
        """Take the table; `schema` has the columns by which it is read."""
        self._spark, self._path, self._log, self._schema = spark, path, log, schema
        self._lock = threading.Lock()
        self._versions: dict[tuple[int, KeyOrder], tuple[Any, list[RangedFile]]] = {}

    def frame(self, version: int, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> DataFrame:
        """Return the rows of the files of a version that may have rows after `low`, up to and with `high`; lazy.

        Raises:
            Whatever Kernel, Delta or the storage say (`LOG_ERRORS`).
        """
        snapshot, files = self._at(version, order)
        low_key, high_key = (None if one is None else order.sort_key(one) for one in (low, high))
        actions = [file.action for file in files if any(one.meets(low_key, high_key) for one in file.spans)]
        return self._log.frame(delta_actions(self._spark, actions), snapshot)

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
        files = values_at(self._spark, self._path, version, columns=names)
        bounds = [
            bounds_of(files, at, field.dataType, partition=names[at] if field.name in partitions else None)
            for at, field in enumerate(fields)
        ]
        return [
            RangedFile(
                spans_of(order, [of_column[number] for of_column in bounds], _nullable(file, order)), file.action
            )
            for number, file in enumerate(files)
        ]


def _nullable(file: LoggedValues, order: KeyOrder) -> tuple[bool, ...]:
    """Say of each column whether the file may have nulls in it; what the log does not say may be."""
    return tuple(file.nulls[at] != 0 for at in range(len(order.columns)))


def spans_of(order: KeyOrder, bounds: Sequence[FileBounds], nullable: Sequence[bool]) -> tuple[Span, ...]:
    """Return where the rows of a file may be: by its first columns, as far as each of them has one value only.

    Args:
        order: The order.
        bounds: Of each column.
        nullable: May the column have nulls beside these values?
    """
    prefix: Prefix = ()
    for column, known, nulls in zip(order.columns, bounds, nullable, strict=True):
        match known:
            case OnlyNulls():
                low = high = column.sort_value(None)
                beside: list[Any] = []
            case Bounds():
                low, high = sorted(column.sort_value(key_value(column, one)) for one in (known.low, known.high))
                # Statistics tell of no NaN.
                beside = [column.sort_value(float("nan"))] if column.type in FLOATS else []
                beside += [column.sort_value(None)] if nulls else []
            case _:
                break
        if low != high or beside:
            spans = [(low, high), *((one, one) for one in beside)]
            return tuple(Span((*prefix, first), (*prefix, last)) for first, last in spans)
        prefix = (*prefix, low)
    return (Span(prefix, prefix),)


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
