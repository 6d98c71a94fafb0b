"""Rows between two positions of a key, as conditions on columns: in the order that `positions.key_order` tells.

Conditions are never null. Each also says something plain of the first column, by which an engine finds the files that it need not read.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_core.positions.key_order import KeyColumn, KeyOrder, KeyPosition, KeyValue
from backfill_core.positions.vnode_positions import Completed, KeyBound, KeySpace, NotStarted, Span, UpTo
from backfill_spark.rows.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


DAY_US = 86_400_000_000


# ------------------------------------------------------------------ values
def literal(column: KeyColumn, value: KeyValue) -> Column:
    """Return a value of a column as Spark has it."""
    if value is None:
        return F.lit(None).cast(column.type)
    match column.type:
        case "date":
            return F.date_from_unix_date(F.lit(int(value)).cast("int"))
        case "timestamp":
            return F.timestamp_micros(F.lit(int(value)).cast("bigint"))
        case "timestamp_ntz":
            return F.lit(column.words(value)).cast("timestamp_ntz")
        case "boolean" | "string" | "binary":
            return F.lit(value)
        case "float" | "double":
            return F.lit(float(value)).cast(column.type)
        case _:
            return F.lit(str(value)).cast(column.type)


def stored_value(column: KeyColumn) -> Column:
    """Return the column of a row as `value_of` reads it from a collected row."""
    found = F.col(quoted(column.name))
    match column.type:
        case "date":
            return F.unix_date(found)
        case "timestamp":
            return F.unix_micros(found)
        case "timestamp_ntz":
            # By its fields: a cast to `timestamp` would depend on the session's time zone.
            seconds = F.hour(found) * 3600 + F.minute(found) * 60
            micros = (F.date_part(F.lit("SECOND"), found) * 1_000_000).cast("bigint")
            return F.unix_date(found.cast("date")).cast("bigint") * DAY_US + seconds.cast("bigint") * 1_000_000 + micros
        case _:
            return found


def value_of(found: Any) -> KeyValue:
    """Return what `stored_value` yielded as a value of a position."""
    return bytes(found) if isinstance(found, bytearray) else found  # type: ignore[no-any-return]


# ------------------------------------------------------------------ conditions
def _true_or_false(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))


def _after(column: KeyColumn, value: KeyValue) -> Column:
    """Is a row's value behind one in the order of its column? NULL is the largest value."""
    found = F.col(quoted(column.name))
    if column.descending:
        return found.isNotNull() if value is None else _true_or_false(found < literal(column, value))
    return F.lit(False) if value is None else found.isNull() | _true_or_false(found > literal(column, value))


def _equal(column: KeyColumn, value: KeyValue) -> Column:
    found = F.col(quoted(column.name))
    return found.isNull() if value is None else _true_or_false(found == literal(column, value))


def beyond(order: KeyOrder, position: KeyPosition) -> Column:
    """Is a row behind a position?"""
    condition = F.lit(False)
    for column, value in reversed([*zip(order.columns, position, strict=True)]):
        condition = _after(column, value) | (_equal(column, value) & condition)
    return condition & _first_from(order.columns[0], position[0])


def upto(order: KeyOrder, position: KeyPosition) -> Column:
    """Is a row at a position or before it?"""
    return ~beyond(order, position) & _first_upto(order.columns[0], position[0])


def _first_from(column: KeyColumn, value: KeyValue) -> Column:
    """Say of the first column what follows from being behind a position, in words that statistics of files answer."""
    found = F.col(quoted(column.name))
    if column.descending:
        return F.lit(True) if value is None else _true_or_false(found <= literal(column, value))
    return found.isNull() if value is None else found.isNull() | _true_or_false(found >= literal(column, value))


def _first_upto(column: KeyColumn, value: KeyValue) -> Column:
    found = F.col(quoted(column.name))
    if column.descending:
        return found.isNull() if value is None else found.isNull() | _true_or_false(found >= literal(column, value))
    return F.lit(True) if value is None else _true_or_false(found <= literal(column, value))


def between(order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> Column:
    """Is a row behind `low`, and at `high` or before it? None: from the first row, to the last."""
    bounds = [] if low is None else [beyond(order, low)]
    bounds += [] if high is None else [upto(order, high)]
    return reduce(Column.__and__, bounds, F.lit(True))


def vnode(space: KeySpace) -> Column:
    """Return the vnode of a row: of its distribution columns alone (R-ARR-16)."""
    columns = [F.col(quoted(name)) for name in space.distribution]
    return F.pmod(F.xxhash64(*columns), F.lit(space.vnodes))


def of_vnodes(space: KeySpace, spans: Iterable[Span]) -> Column:
    """Is a row of one of these vnodes?"""
    chosen = sorted(spans)
    if chosen == [(0, space.vnodes)]:
        return F.lit(True)
    number = vnode(space)
    return reduce(Column.__or__, ((number >= first) & (number < stop) for first, stop in chosen), F.lit(False))


def within(bound: KeyBound) -> Column:
    """Is a row at the position of its vnode or before it (R-ARR-13)? All of a completed one are (R-ARR-21)."""
    space = bound.space
    condition = F.lit(False)
    for reached, spans in bound.positions.groups().items():
        match reached:
            case NotStarted():
                pass
            case Completed():
                condition = condition | of_vnodes(space, spans)
            case UpTo(position=position):
                condition = condition | (of_vnodes(space, spans) & upto(space.order, position))
    return condition


# ------------------------------------------------------------------ the first rows
def nth_position(rows: DataFrame, order: KeyOrder, count: int) -> KeyPosition | None:
    """Return the position of the last one of the first rows; None: there are no more rows than these. Runs a job.

    Args:
        rows: In any order.
        order: Columns of `rows`.
        count: How many rows, at least 1.
    """
    names = [f"c{at}" for at in range(len(order.columns))]
    columns = [*zip(order.columns, names, strict=True)]
    values = rows.select(*(F.col(quoted(column.name)).alias(name) for column, name in columns))
    # Two rows at most: the last one, and one that is left.
    ends = values.orderBy(*(_sorting(column, name) for column, name in columns)).limit(count + 1).offset(count - 1)
    found = ends.select(*(stored_value(KeyColumn(name, column.type)) for column, name in columns)).collect()
    return tuple(value_of(value) for value in found[0]) if len(found) > 1 else None


def _sorting(column: KeyColumn, name: str) -> Column:
    """Return the sorting of Spark: NULL last where it goes up, first where it goes down."""
    return F.col(name).desc_nulls_first() if column.descending else F.col(name).asc_nulls_last()
