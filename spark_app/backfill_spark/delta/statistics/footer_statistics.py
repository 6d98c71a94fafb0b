"""The statistics of a staged file: those of its footer, as far as they are valid for the table (`backfill_core/file_copies/bounds.py`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from backfill_core.file_copies.bounds import (
    DAY_US,
    NOT_A_TEXT,
    BoundsSource,
    Path,
    Written,
    first_believed,
    has_largest,
    teller,
)
from backfill_core.file_copies.logged_statistics import LoggedStatistics
from backfill_spark.delta.statistics.moments import read_moment

if TYPE_CHECKING:
    from backfill_spark.delta.table_layout import Layout, StatisticsColumn

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WITHOUT_BOUNDS = "binary"
"""A type that Kernel can decode for any column; its bounds are then dropped. A log has no format for bounds of bytes: Kernel would
convert them to strings."""


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """Facts about a staged file whose column chunks were copied from another file."""

    written: Written
    wide: bool = False
    """True if a deletion vector hides some of the file's rows."""

    logged: str | None = None
    """Statistics in the source's log (JSON), if the file has the same bytes as the source file."""


OURS = CopiedFile(Written((), calendar_is_known=True, knows_nan=True))
"""A file that Spark wrote for this table."""


@dataclass(slots=True)
class _Changes:
    """Changes of the statistics that Kernel read."""

    low: dict[Path, int | None] = field(default_factory=dict)
    """New bounds in microseconds since 1970-01-01; `None` drops the bound."""

    high: dict[Path, int | None] = field(default_factory=dict)
    nulls: dict[Path, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measures:
    """Statistics that are valid for all files of one schema and one writer, as far as their footers have them."""

    schema: Any
    """Kernel's schema for reading them, a `StructType`."""

    logged_schema: Any
    """Kernel's schema for the log."""

    columns: Any
    """Java list of Kernel's columns with statistics."""

    no_smallest: tuple[StatisticsColumn, ...]
    no_largest: tuple[StatisticsColumn, ...]
    """Columns without such a bound."""

    first: tuple[tuple[StatisticsColumn, int], ...]
    """Columns with the first value that is valid; a file with a smaller one is measured separately."""


def measures_of(layout: Layout, copied: CopiedFile) -> Measures | None:
    """Return the statistics of files with the same schema and writer as `copied`; `None` if each file needs its own entry in the log."""
    tellers = _tellers(layout, copied)
    if BoundsSource.LOG in tellers.values():
        return None
    other = frozenset(path for path, source in tellers.items() if source is not BoundsSource.FOOTER)
    none = [column for column in layout.columns if column.path in other]
    kept = [column for column in layout.columns if column.path not in other]
    largest = [column for column in kept if not has_largest(column.kind, knows_nan=copied.written.knows_nan)]
    firsts = [
        (column, first_believed(column.kind, calendar_is_known=copied.written.calendar_is_known)) for column in kept
    ]
    return Measures(
        layout.schema_without(other, WITHOUT_BOUNDS),
        layout.physical_schema,
        layout.statistics_columns,
        tuple(none),
        (*none, *largest),
        tuple((column, first) for column, first in firsts if first is not None),
    )


def can_be_logged(text: str) -> bool:
    """Return true if serialized statistics have no string that differs from the values in the file."""
    return NOT_A_TEXT not in text


class FooterStatistics:
    """Reads the statistics of footers with Kernel. Safe from any thread."""

    def __init__(self, kernel: Any, jvm: Any) -> None:
        """Take Kernel's Java package and the JVM."""
        self._kernel, self._jvm = kernel, jvm
        self._read = kernel.defaults.internal.parquet.ParquetStatsReader.readDataFileStatistics

    def read(self, file: Any, layout: Layout, copied: CopiedFile) -> Any:
        """Return the `DataFileStatistics` of a file.

        Args:
            file: Kernel's `InputFile`.
            layout: Layout of the table.
            copied: Facts about the file.

        Raises:
            JAVA_ERRORS: any error of Kernel or the storage.
        """
        tellers = _tellers(layout, copied)
        other = frozenset(path for path, source in tellers.items() if source is not BoundsSource.FOOTER)
        schema = layout.schema_without(other, WITHOUT_BOUNDS)
        statistics = self._read(file, schema, layout.statistics_columns)
        changes = _Changes(dict.fromkeys(other), dict.fromkeys(other))
        for column in layout.columns:
            if tellers[column.path] is BoundsSource.FOOTER:
                self._drop_unreliable(column, statistics, copied, changes)
            elif tellers[column.path] is BoundsSource.LOG:
                _take_logged(column, copied, changes)
        _drop_invalid_strings(str(statistics.serializeAsJson(schema)), layout, changes)
        return self._changed(statistics, layout, changes) if changes.low or changes.high else statistics

    def _drop_unreliable(self, column: StatisticsColumn, read: Any, copied: CopiedFile, changes: _Changes) -> None:
        """Drop bounds of a footer that are not reliable."""
        if not has_largest(column.kind, knows_nan=copied.written.knows_nan):
            changes.high[column.path] = None
        first = first_believed(column.kind, calendar_is_known=copied.written.calendar_is_known)
        if first is None or not _is_below(read.getMinValues(), column, first):
            return
        changes.low[column.path] = None
        if _is_below(read.getMaxValues(), column, first):
            changes.high[column.path] = None

    def _changed(self, read: Any, layout: Layout, changes: _Changes) -> Any:
        hash_map = self._jvm.java.util.HashMap
        low, high = hash_map(read.getMinValues()), hash_map(read.getMaxValues())
        nulls = hash_map(read.getNullCount())
        by_path = {column.path: column for column in layout.columns}
        for bounds, changed in ((low, changes.low), (high, changes.high)):
            for path, value in changed.items():
                if value is None:
                    bounds.remove(by_path[path].java)
                else:
                    bounds.put(by_path[path].java, self._moment(by_path[path], value))
        statistics = self._kernel.statistics.DataFileStatistics
        if changes.nulls:
            # Via JSON, because py4j converts a number to `Integer`, and Kernel requires `Long`.
            text = json.dumps({"numRecords": 0, "nullCount": _nested(changes.nulls)})
            nulls.putAll(statistics.deserializeFromJson(text, layout.physical_schema).get().getNullCount())
        return statistics(read.getNumRecords(), low, high, nulls, read.getTightBounds())

    def _moment(self, column: StatisticsColumn, value: int) -> Any:
        literal = self._kernel.expressions.Literal
        return literal.ofTimestamp(value) if column.kind == "timestamp" else literal.ofTimestampNtz(value)


def _tellers(layout: Layout, copied: CopiedFile) -> dict[Path, BoundsSource]:
    if copied is OURS:
        return {
            column.path: BoundsSource.NONE if column.kind == WITHOUT_BOUNDS else BoundsSource.FOOTER
            for column in layout.columns
        }
    stored, same = dict(copied.written.columns), copied.logged is not None
    return {column.path: teller(column.kind, stored.get(column.path), same_bytes=same) for column in layout.columns}


def _is_below(bounds: Any, column: StatisticsColumn, first: int) -> bool:
    literal = bounds.get(column.java)
    value = None if literal is None else literal.getValue()
    return value is not None and value < first


def _drop_invalid_strings(text: str, layout: Layout, changes: _Changes) -> None:
    """Drop strings that differ from the values in the file, because the file has invalid UTF-8."""
    if NOT_A_TEXT not in text:
        return
    statistics = json.loads(text)
    for name, changed in (("minValues", changes.low), ("maxValues", changes.high)):
        for column in layout.columns:
            value = _inside(statistics.get(name), column.path)
            if column.kind == "string" and isinstance(value, str) and NOT_A_TEXT in value:
                changed[column.path] = None


def _take_logged(column: StatisticsColumn, copied: CopiedFile, changes: _Changes) -> None:
    """Use the bounds and the null count of a timestamp column from the source's log."""
    logged = LoggedStatistics.of(copied.logged)
    first = first_believed(column.kind, calendar_is_known=copied.written.calendar_is_known)
    assert first is not None
    for values, changed in ((logged.smallest, changes.low), (logged.largest, changes.high)):
        value = _micros(_inside(values, column.path), column.kind, largest=changed is changes.high)
        changed[column.path] = None if value is None or value < first else value
    nulls = _inside(logged.nulls, column.path)
    if isinstance(nulls, int):
        changes.nulls[column.path] = nulls


def _inside(values: Any, path: Path) -> Any:
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _nested(counts: Mapping[Path, int]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, count in counts.items():
        inner = nested
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = count
    return nested


def _micros(text: Any, kind: str, *, largest: bool) -> int | None:
    """Return a bound of the log in microseconds; `None` if it is not a valid bound."""
    try:
        bound = read_moment(text, zoned=kind == "timestamp")
    except (TypeError, ValueError):
        return None
    elapsed = bound.at.replace(tzinfo=bound.at.tzinfo or UTC) - _EPOCH + (bound.error if largest else -bound.error)
    return elapsed.days * DAY_US + elapsed.seconds * 1_000_000 + elapsed.microseconds
