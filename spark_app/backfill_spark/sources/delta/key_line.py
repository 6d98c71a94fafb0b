"""The rows of a table in the order of a key: where they may be cut, and how often files are read then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType, StructType

from backfill_core.errors import InvalidSpecError
from backfill_core.positions.key_line import KeyCut, KeyLine
from backfill_core.positions.key_order import KeyColumn, KeyOrder, KeyPosition, has_order
from backfill_core.positions.vnode_positions import KeySpace
from backfill_spark.ports.source import PinnedTable
from backfill_spark.rows.columns import instead
from backfill_spark.rows.key_ranges import stored_value, value_of
from backfill_spark.sources.delta.range_files import KeyRange, RangedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHUNK_ROWS = 1_000_000
"""Rows of the chunks whose read amplification is told: about as many as one has at full speed."""

CUTS_MAX = 2000
SAMPLE_ROWS = 10_000
LOOKS_MAX = 1_000_000
"""Files and chunks that are compared, at most: of more files some stand for all."""

TEXT_MAX = 256
"""Characters of a text in a cut: what is left out makes it smaller, and any cut is right."""


def key_line(
    space: KeySpace, pinned: PinnedTable, files: Sequence[RangedFile], read: Callable[[], DataFrame], *, cut_rows: int
) -> KeyLine:
    """Return cuts at the ends of files, or by a sample of the rows that `read` returns where the log says too little."""
    rows = [there - gone for there, gone in zip(pinned.rows, pinned.deleted, strict=True)]
    line = line_by_files(space, files, rows, cut_rows=cut_rows)
    return line or line_by_sample(space, read(), sum(rows), files=len(rows), cut_rows=cut_rows)


def new_line(space: KeySpace, files: Sequence[RangedFile], *, cut_rows: int) -> KeyLine | None:
    """Return cuts of another version at the ends of its files; `None` if the log does not record their rows or values."""
    rows = [file.rows for file in files if file.rows is not None]
    return line_by_files(space, files, rows, cut_rows=cut_rows) if len(rows) == len(files) else None


def line_by_files(
    space: KeySpace, files: Sequence[RangedFile], rows: Sequence[int], *, cut_rows: int
) -> KeyLine | None:
    """Return cuts where files end, as the log says; None where it does not say it of half of the rows.

    Args:
        space: The order.
        files: Of one version.
        rows: Live rows of each file.
        cut_rows: Rows between two cuts, about.
    """
    total = sum(rows)
    known = [(file.last, count) for file, count in zip(files, rows, strict=True) if file.last is not None]
    if 2 * sum(count for _, count in known) < total:
        return None
    step = max(cut_rows, total // CUTS_MAX)
    cuts: list[KeyCut] = []
    waiting = 0
    for last, count in sorted(
        ((_short(one), count) for one, count in known), key=lambda one: space.order.sort_key(one[0])
    ):
        waiting += count
        if waiting < step or not space.order.fits(last):
            continue
        if cuts and cuts[-1].position == last:
            cuts[-1] = KeyCut(last, cuts[-1].rows + waiting)
        else:
            cuts.append(KeyCut(last, waiting))
        waiting = 0
    rest = waiting + total - sum(count for _, count in known)
    if cuts and not rest:
        # The last chunk has no end: behind the last row there is nothing to be read.
        rest = cuts.pop().rows
    return KeyLine(space, tuple(cuts), rest, read_amplification(space.order, files, cuts))


def read_amplification(order: KeyOrder, files: Sequence[RangedFile], cuts: Sequence[KeyCut]) -> float:
    """Return how often a file is read by chunks of about a million rows, in the mean; 1.0 where each is read once."""
    ends: list[KeyPosition | None] = [None]
    waiting = 0
    for cut in cuts:
        waiting += cut.rows
        if waiting >= CHUNK_ROWS:
            ends.append(cut.position)
            waiting = 0
    chunks = [KeyRange.of(order, low, high) for low, high in pairwise([*ends, None])]
    some = files[:: max(1, len(files) * len(chunks) // LOOKS_MAX)]
    touched = sum(file.is_read(chunk) for file in some for chunk in chunks)
    return max(1.0, touched / len(some)) if some else 1.0


def _short(position: KeyPosition) -> KeyPosition:
    def cut(value: Any) -> Any:
        return value[:TEXT_MAX] if isinstance(value, str) else value

    return tuple(cut(value) for value in position)


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
