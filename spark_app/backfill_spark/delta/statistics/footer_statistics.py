"""The statistics of a staged file: its footer's, as far as they are in the terms of the table (`backfill_core/transfer/bounds.py`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from backfill_core.transfer.bounds import (
    DAY_US,
    NOT_A_TEXT,
    Path,
    Teller,
    Written,
    first_believed,
    has_largest,
    teller,
)
from backfill_core.transfer.logged_statistics import LoggedStatistics
from backfill_spark.delta.statistics.moments import read_moment

if TYPE_CHECKING:
    from backfill_spark.delta.table_layout import Layout, StatisticsColumn

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WITHOUT_BOUNDS = "binary"
"""A type that Kernel decodes of any column; what it says is left out. Of bytes a log has no form of bounds: Kernel would make texts of them."""


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """What is known of a staged file whose column chunks others wrote."""

    written: Written
    wide: bool = False
    """Does a deletion vector hide some of its rows?"""

    logged: str | None = None
    """Statistics of the source's log, where the file has the same bytes; JSON."""


OURS = CopiedFile(Written((), calendar_is_known=True, knows_nan=True))
"""A file that Spark wrote for this table."""


@dataclass(slots=True)
class _Changes:
    """What becomes of the statistics that Kernel read."""

    low: dict[Path, int | None] = field(default_factory=dict)
    """Bounds that change; None: it goes. Microseconds since 1970-01-01."""

    high: dict[Path, int | None] = field(default_factory=dict)
    nulls: dict[Path, int] = field(default_factory=dict)


class FooterStatistics:
    """Reads them by Kernel. From any thread."""

    def __init__(self, kernel: Any, jvm: Any) -> None:
        """Take Java's: Kernel's package and the JVM."""
        self._kernel, self._jvm = kernel, jvm
        self._read = kernel.defaults.internal.parquet.ParquetStatsReader.readDataFileStatistics

    def read(self, file: Any, layout: Layout, copied: CopiedFile) -> Any:
        """Return the `DataFileStatistics` of a file.

        Args:
            file: Kernel's `InputFile`.
            layout: Of the table.
            copied: What is known of it.

        Raises:
            Whatever Kernel or the storage say (`JAVA_ERRORS`).
        """
        tellers = _tellers(layout, copied)
        other = frozenset(path for path, one in tellers.items() if one is not Teller.FOOTER)
        schema = layout.schema_without(other, WITHOUT_BOUNDS)
        found = self._read(file, schema, layout.statistics_columns)
        changes = _Changes(dict.fromkeys(other), dict.fromkeys(other))
        for column in layout.columns:
            if tellers[column.path] is Teller.FOOTER:
                self._judge(column, found, copied, changes)
            elif tellers[column.path] is Teller.LOG:
                _take_logged(column, copied, changes)
        _judge_texts(str(found.serializeAsJson(schema)), layout, changes)
        return self._changed(found, layout, changes) if changes.low or changes.high else found

    def _judge(self, column: StatisticsColumn, found: Any, copied: CopiedFile, changes: _Changes) -> None:
        """Drop bounds of a footer that are not believed."""
        if not has_largest(column.kind, knows_nan=copied.written.knows_nan):
            changes.high[column.path] = None
        first = first_believed(column.kind, calendar_is_known=copied.written.calendar_is_known)
        if first is None or not _is_below(found.getMinValues(), column, first):
            return
        changes.low[column.path] = None
        if _is_below(found.getMaxValues(), column, first):
            changes.high[column.path] = None

    def _changed(self, found: Any, layout: Layout, changes: _Changes) -> Any:
        hash_map = self._jvm.java.util.HashMap
        low, high = hash_map(found.getMinValues()), hash_map(found.getMaxValues())
        nulls = hash_map(found.getNullCount())
        by_path = {one.path: one for one in layout.columns}
        for bounds, changed in ((low, changes.low), (high, changes.high)):
            for path, value in changed.items():
                if value is None:
                    bounds.remove(by_path[path].java)
                else:
                    bounds.put(by_path[path].java, self._moment(by_path[path], value))
        statistics = self._kernel.statistics.DataFileStatistics
        if changes.nulls:
            # py4j makes an `Integer` of a number, and Kernel wants a `Long`.
            told = json.dumps({"numRecords": 0, "nullCount": _nested(changes.nulls)})
            nulls.putAll(statistics.deserializeFromJson(told, layout.physical_schema).get().getNullCount())
        return statistics(found.getNumRecords(), low, high, nulls, found.getTightBounds())

    def _moment(self, column: StatisticsColumn, value: int) -> Any:
        literal = self._kernel.expressions.Literal
        return literal.ofTimestamp(value) if column.kind == "timestamp" else literal.ofTimestampNtz(value)


def _tellers(layout: Layout, copied: CopiedFile) -> dict[Path, Teller]:
    if copied is OURS:
        return {one.path: Teller.NONE if one.kind == WITHOUT_BOUNDS else Teller.FOOTER for one in layout.columns}
    stored, same = dict(copied.written.columns), copied.logged is not None
    return {one.path: teller(one.kind, stored.get(one.path), same_bytes=same) for one in layout.columns}


def _is_below(bounds: Any, column: StatisticsColumn, first: int) -> bool:
    literal = bounds.get(column.java)
    value = None if literal is None else literal.getValue()
    return value is not None and value < first


def _judge_texts(text: str, layout: Layout, changes: _Changes) -> None:
    """Drop texts that are not what is in the file."""
    if NOT_A_TEXT not in text:
        return
    told = json.loads(text)
    for name, changed in (("minValues", changes.low), ("maxValues", changes.high)):
        for column in layout.columns:
            value = _inside(told.get(name), column.path)
            if column.kind == "string" and isinstance(value, str) and NOT_A_TEXT in value:
                changed[column.path] = None


def _take_logged(column: StatisticsColumn, copied: CopiedFile, changes: _Changes) -> None:
    """Take over what the source's log says of a column of moments."""
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
    found: dict[str, Any] = {}
    for path, count in counts.items():
        inner = found
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = count
    return found


def _micros(text: Any, kind: str, *, largest: bool) -> int | None:
    """Return a bound of the log in microseconds; `None` if it is none that holds."""
    try:
        found = read_moment(text, zoned=kind == "timestamp")
    except (TypeError, ValueError):
        return None
    passed = found.at.replace(tzinfo=found.at.tzinfo or UTC) - _EPOCH + (found.error if largest else -found.error)
    return passed.days * DAY_US + passed.seconds * 1_000_000 + passed.microseconds
