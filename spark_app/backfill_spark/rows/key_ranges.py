"""Column conditions for rows between two key positions, in the order that `positions.key_order` defines.

Conditions are never null. Each also contains a simple comparison of the first column, so that engines can skip files.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_core.positions.key_order import KeyColumn, KeyOrder, KeyPosition, KeyValue
from backfill_core.positions.vnode_positions import Completed, KeyBound, KeySpace, NotStarted, Span, UpTo
from backfill_spark.delta.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


DAY_US = 86_400_000_000


# ------------------------------------------------------------------ values
def literal(column: KeyColumn, value: KeyValue) -> Column:
    """Return a key value as a Spark literal of the column's type."""
    if value is None:
        return F.lit(None).cast(column.type)
    match column.type:
        case "date":
            return F.date_from_unix_date(F.lit(int(value)).cast("int"))
        case "timestamp":
            return F.timestamp_micros(F.lit(int(value)).cast("bigint"))
        case "timestamp_ntz":
            return F.lit(column.format_value(value)).cast("timestamp_ntz")
        case "boolean" | "string" | "binary":
            return F.lit(value)
        case "float" | "double":
            return F.lit(float(value)).cast(column.type)
        case _:
            return F.lit(str(value)).cast(column.type)


def stored_value(column: KeyColumn) -> Column:
    """Return the expression whose collected value `value_of` converts into a value of a position."""
    value = F.col(quoted(column.name))
    match column.type:
        case "date":
            return F.unix_date(value)
        case "timestamp":
            return F.unix_micros(value)
        case "timestamp_ntz":
            # By its fields: a cast to `timestamp` would depend on the session's time zone.
            seconds = F.hour(value) * 3600 + F.minute(value) * 60
            micros = (F.date_part(F.lit("SECOND"), value) * 1_000_000).cast("bigint")
            return F.unix_date(value.cast("date")).cast("bigint") * DAY_US + seconds.cast("bigint") * 1_000_000 + micros
        case _:
            return value


def value_of(collected: Any) -> KeyValue:
    """Return a collected result of `stored_value` as a value of a position."""
    return bytes(collected) if isinstance(collected, bytearray) else collected  # type: ignore[no-any-return]


# ------------------------------------------------------------------ conditions
def _true_or_false(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))


def _after(column: KeyColumn, value: KeyValue) -> Column:
    """Return the condition that a row's value sorts after `value` in the column's order; NULL is the largest value."""
    stored = F.col(quoted(column.name))
    if column.descending:
        return stored.isNotNull() if value is None else _true_or_false(stored < literal(column, value))
    return F.lit(False) if value is None else stored.isNull() | _true_or_false(stored > literal(column, value))


def _equal(column: KeyColumn, value: KeyValue) -> Column:
    stored = F.col(quoted(column.name))
    return stored.isNull() if value is None else _true_or_false(stored == literal(column, value))


def beyond(order: KeyOrder, position: KeyPosition) -> Column:
    """Return the condition that a row sorts after a position."""
    condition = F.lit(False)
    for column, value in reversed([*zip(order.columns, position, strict=True)]):
        condition = _after(column, value) | (_equal(column, value) & condition)
    return condition & _first_from(order.columns[0], position[0])


def upto(order: KeyOrder, position: KeyPosition) -> Column:
    """Return the condition that a row is at a position or before it."""
    return ~beyond(order, position) & _first_upto(order.columns[0], position[0])


def _first_from(column: KeyColumn, value: KeyValue) -> Column:
    """Return the bound that `beyond` implies for the first column, as a comparison that file statistics can evaluate."""
    stored = F.col(quoted(column.name))
    if column.descending:
        return F.lit(True) if value is None else _true_or_false(stored <= literal(column, value))
    return stored.isNull() if value is None else stored.isNull() | _true_or_false(stored >= literal(column, value))


def _first_upto(column: KeyColumn, value: KeyValue) -> Column:
    stored = F.col(quoted(column.name))
    if column.descending:
        return stored.isNull() if value is None else stored.isNull() | _true_or_false(stored >= literal(column, value))
    return F.lit(True) if value is None else _true_or_false(stored <= literal(column, value))


def between(order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> Column:
    """Return the condition that a row is after `low` and not after `high`; a bound that is `None` does not apply."""
    bounds = [] if low is None else [beyond(order, low)]
    bounds += [] if high is None else [upto(order, high)]
    return reduce(Column.__and__, bounds, F.lit(True))


def vnode(space: KeySpace) -> Column:
    """Return the vnode of a row, computed from its distribution columns only (R-ARR-16)."""
    columns = [F.col(quoted(name)) for name in space.distribution]
    return F.pmod(F.xxhash64(*columns), F.lit(space.vnodes))


def of_vnodes(space: KeySpace, spans: Iterable[Span]) -> Column:
    """Return the condition that a row belongs to one of these vnodes."""
    chosen = sorted(spans)
    if chosen == [(0, space.vnodes)]:
        return F.lit(True)
    number = vnode(space)
    return reduce(Column.__or__, ((number >= first) & (number < stop) for first, stop in chosen), F.lit(False))


def within(bound: KeyBound) -> Column:
    """Return the condition that a row is not after the position of its vnode (R-ARR-13).

    Every row of a completed vnode satisfies it (R-ARR-21).
    """
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
    """Return the position of row number `count`; `None` if no more rows follow. Runs a job.

    Args:
        rows: Rows in any order.
        order: Columns of `rows`.
        count: Number of rows, at least 1.
    """
    names = [f"c{at}" for at in range(len(order.columns))]
    columns = [*zip(order.columns, names, strict=True)]
    values = rows.select(*(F.col(quoted(column.name)).alias(name) for column, name in columns))
    # Two rows at most: row number `count`, and the next one.
    ends = values.orderBy(*(_sorting(column, name) for column, name in columns)).limit(count + 1).offset(count - 1)
    collected = ends.select(*(stored_value(KeyColumn(name, column.type)) for column, name in columns)).collect()
    return tuple(value_of(value) for value in collected[0]) if len(collected) > 1 else None


def _sorting(column: KeyColumn, name: str) -> Column:
    """Return Spark's sort order: NULL last if ascending, first if descending."""
    return F.col(name).desc_nulls_first() if column.descending else F.col(name).asc_nulls_last()
