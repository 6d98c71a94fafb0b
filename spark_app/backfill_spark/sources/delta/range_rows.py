"""Rows of the files of a key range. If a file's statistics exclude one of its rows, the job fails instead of losing the row.

Statistics decide from which files a range is read. Each row of these files is compared with the range, on each side:

the file's statistics                        a row outside of the range
------------------------------------------   ---------------------------------------------------------------------------
may lie outside of the range on this side    belongs to another range, which reads the file too
end inside of the range                      no range would read it, or an earlier one has read it: `OUTSIDE`
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_core.errors import SourceDamagedError
from backfill_core.positions.key_order import KeyOrder, KeyPosition
from backfill_spark.delta.types import quoted
from backfill_spark.jvm.errors import RAISED_BY_US, without_values
from backfill_spark.rows.key_ranges import between, beyond, upto

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OUTSIDE = f"{RAISED_BY_US}statistics exclude a row of "
FLOATS = ("float", "double")

_FILE = re.compile(re.escape(OUTSIDE) + r"(\S+)")


@dataclass(frozen=True, slots=True)
class Edges:
    """Position of a file relative to a range, by its statistics."""

    whole: bool
    """True if all rows are in the range."""

    begins: bool
    """True if all rows are after the range's first position, except NULL and NaN of the first column."""

    ends: bool
    """True if all rows are before the range's end, except NULL and NaN of the first column."""

    has_nulls: bool
    """True if the first column may have nulls in addition to other values."""


def whole_files(rows: DataFrame, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> DataFrame:
    """Return the rows of files that are inside a range; their order columns raise an error in a row outside of it.

    This is a projection, because a filter costs more. A transform without an order column does not compute them.
    """
    if low is None and high is None:
        return rows
    inside = between(order, low, high)
    columns = {column.name: F.col(quoted(column.name)) for column in order.columns}
    return rows.withColumns({name: F.when(inside, column).otherwise(_raised()) for name, column in columns.items()})


def cut_files(
    rows: DataFrame, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None, edges: Edges
) -> DataFrame:
    """Return the rows of files that are in a range; raises an error in a row that contradicts the statistics."""
    begins = [] if low is None else [beyond(order, low)]
    ends = [] if high is None else [upto(order, high)]
    filters = ([] if edges.begins else begins) + ([] if edges.ends else ends)
    checks = (begins if edges.begins else []) + (ends if edges.ends else [])
    kept = rows.where(_all(filters)) if filters else rows
    if not checks:
        return kept
    first = F.col(quoted(order.columns[0].name))
    apart = [first.isNull()] if edges.has_nulls else []
    apart += [F.isnan(first)] if order.columns[0].type in FLOATS else []
    checked = F.when(_all(checks), F.lit(True))
    for condition in apart:
        checked = checked.when(condition, F.lit(False))
    return kept.where(checked.otherwise(_raised()))


def _all(conditions: Sequence[Column]) -> Column:
    return reduce(Column.__and__, conditions)


def _raised() -> Column:
    return F.raise_error(F.concat(F.lit(OUTSIDE), F.input_file_name()))


def explain_outside(text: str) -> SourceDamagedError | None:
    """Return the error for an exception's message; `None` if its cause is not a row that the statistics exclude."""
    match = _FILE.search(text)
    if match is None:
        return None
    return outside(f"The statistics of {without_values(match[1])} exclude a row that the file has")


def outside(what: str) -> SourceDamagedError:
    """Return the error for statistics that exclude rows."""
    return SourceDamagedError(
        f"{what}: an order by statistics would lose such rows, or read them twice.",
        hint="Rewrite the file (OPTIMIZE, or REORG TABLE), or use a strategy without an order.",
    )
