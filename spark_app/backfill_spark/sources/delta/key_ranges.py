"""Rows of a Delta table in the order of a key: where to cut, what that costs, and the rows between two positions at any version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType, StructType

from backfill_core.errors import InvalidSpecError
from backfill_core.positions.key_order import KeyColumn, KeyOrder, KeyPosition, has_order
from backfill_core.positions.vnode_positions import KeySpace
from backfill_core.protocol.strategy import KeyCut, KeyLine
from backfill_spark.ports.source import PinnedTable
from backfill_spark.rows.columns import instead
from backfill_spark.rows.key_ranges import stored_value, value_of
from backfill_spark.sources.delta.file_bounds import Bounds, FileBounds, OnlyNulls
from backfill_spark.sources.delta.range_files import key_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CUTS_MAX = 2000
CUT_ROWS_MIN = 50_000
"""Rows between two cuts, about: chunks are made of whole steps from cut to cut."""

CHUNK_ROWS = 1_000_000
"""Rows of the chunks whose read amplification is told: about as many as one has at full speed."""

SAMPLE_ROWS = 10_000
TEXT_MAX = 256
"""Characters of a text in a cut."""


def key_order(schema: StructType, columns: Sequence[tuple[str, bool]], *, field: str) -> KeyOrder:
    """Return an order by columns of a table, each with: is it descending?

    Raises:
        InvalidSpecError: there is no such column, or its type has no order; `field` of the spec names it.
    """
    found = []
    for name, descending in columns:
        if name not in schema.names:
            raise InvalidSpecError(
                f"{field} names {name!r}, which the source does not have.", hint=instead(name, schema.names)
            )
        kind = schema[name].dataType
        plain = not isinstance(kind, StringType) or kind.isUTF8BinaryCollation()
        spelled = kind.simpleString() if kind.typeName() == "decimal" else kind.typeName()
        if not plain or not has_order(spelled):
            raise InvalidSpecError(
                f"{field} names {name!r}, whose type {kind.simpleString()} has no order that every engine agrees on.",
                hint="Order by numbers, plain texts, dates, timestamps or binaries, or use another strategy.",
            )
        found.append(KeyColumn(name, spelled, descending))
    return KeyOrder(tuple(found))


# ------------------------------------------------------------------ cuts
@dataclass(frozen=True, slots=True)
class _File:
    """What is known of a file: its live rows, and the first and last value of the first column in the order of reading."""

    rows: int
    first: Any
    last: Any


def key_line(
    space: KeySpace, pinned: PinnedTable, bounds: Sequence[FileBounds], read: Callable[[], DataFrame], *, cut_rows: int
) -> KeyLine:
    """Return cuts by statistics, or by a sample of the rows that `read` returns where the log says too little."""
    rows = [there - gone for there, gone in zip(pinned.rows, pinned.deleted, strict=True)]
    line = line_by_statistics(space, bounds, rows, cut_rows=cut_rows)
    return line or line_by_sample(space, read(), sum(rows), files=len(rows), cut_rows=cut_rows)


def line_by_statistics(
    space: KeySpace, bounds: Sequence[FileBounds], rows: Sequence[int], *, cut_rows: int
) -> KeyLine | None:
    """Return cuts where files end, as the log says; None where it says too little, or cannot say what a position needs.

    Args:
        space: The order; positions have a value of its first column, and the largest there is of the others.
        bounds: Of the first column, file by file.
        rows: Live rows of each file.
        cut_rows: Rows between two cuts, about.
    """
    first, *others = space.order.columns
    known = [isinstance(one, Bounds | OnlyNulls) for one in bounds]
    if any(one.descending for one in others) or not all(known):
        return None
    files = _files(first, bounds, rows)
    cuts: list[KeyCut] = []
    waiting = 0
    for file in sorted(files, key=lambda one: first.sort_value(one.last)):
        waiting += file.rows
        position: KeyPosition = (file.last, *(None for _ in others))
        if waiting >= cut_rows and file.last is not None and not (cuts and cuts[-1].position == position):
            cuts.append(KeyCut(position, waiting))
            waiting = 0
    return KeyLine(space, tuple(cuts), waiting, _amplification(first, files, cuts))


def _files(column: KeyColumn, bounds: Iterable[FileBounds], rows: Sequence[int]) -> list[_File]:
    files = []
    for one, count in zip(bounds, rows, strict=True):
        if isinstance(one, Bounds):
            low, high = _short(key_value(column, one.low)), _short(key_value(column, one.high))
            files.append(_File(count, high, low) if column.descending else _File(count, low, high))
        else:
            files.append(_File(count, None, None))
    return files


def _short(value: Any) -> Any:
    """Cut a long text: that makes it smaller, so that rows behind it are in the next range; any cut is right."""
    return value[:TEXT_MAX] if isinstance(value, str) else value


def _amplification(column: KeyColumn, files: Sequence[_File], cuts: Sequence[KeyCut]) -> float:
    """Return how often a file is touched by chunks of a million rows, in the mean."""
    edges: list[Any] = []
    waiting = 0
    for cut in cuts:
        waiting += cut.rows
        if waiting >= CHUNK_ROWS:
            edges.append(column.sort_value(cut.position[0]))
            waiting = 0
    touched = 0
    for file in files:
        first, last = column.sort_value(file.first), column.sort_value(file.last)
        # A chunk ends with its edge: a file that goes beyond it is touched by the next one too.
        touched += 1 + sum(first <= edge < last for edge in edges)
    return touched / len(files) if files else 1.0


def line_by_sample(space: KeySpace, rows: DataFrame, total: int, *, files: int, cut_rows: int) -> KeyLine:
    """Return cuts at the quantiles of a sample: nothing is known of files, so that each chunk may touch all of them.

    Reads the columns of the order once.
    """
    columns = space.order.columns
    positions = rows.select(*(stored_value(column).alias(f"c{at}") for at, column in enumerate(columns)))
    fraction = min(1.0, SAMPLE_ROWS / max(total, 1))
    sampled = positions.sample(fraction, seed=1) if fraction < 1 else positions
    found = [tuple(value_of(value) for value in row) for row in sampled.limit(2 * SAMPLE_ROWS).collect()]
    ordered = sorted(found, key=space.order.sort_key)
    pieces = min(CUTS_MAX, max(1, total // cut_rows), max(1, len(ordered)))
    edges = [ordered[len(ordered) * at // pieces - 1] for at in range(1, pieces)]
    cuts: list[KeyCut] = []
    for edge in edges:
        if space.order.fits(edge) and not (cuts and cuts[-1].position == edge):
            cuts.append(KeyCut(edge, total // pieces))
    chunks = max(1, -(-total // CHUNK_ROWS))
    return KeyLine(
        space, tuple(cuts), max(0, total - sum(cut.rows for cut in cuts)), float(chunks) if files > 1 else 1.0
    )
