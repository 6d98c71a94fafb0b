"""Cuts of a table's rows in the order of a key, and the read amplification that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from backfill_core.errors import InvalidSpecError
from backfill_core.positions.key_order import KeyColumn, KeyOrder, KeyPosition
from backfill_core.positions.key_scan import KeyCut, KeyScan
from backfill_core.positions.vnode_positions import KeySpace
from backfill_spark.ports.source import PinnedTable
from backfill_spark.rows.change_cuts import ordered_type
from backfill_spark.rows.columns import instead
from backfill_spark.rows.key_ranges import stored_value, value_of
from backfill_spark.sources.delta.range_files import KeyRange, RangedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHUNK_ROWS = 1_000_000
"""Rows per chunk for the read amplification; about the size of a chunk at full speed."""

CUTS_MAX = 2000
SAMPLE_ROWS = 10_000
LOOKS_MAX = 1_000_000
"""Largest number of comparisons of a file with a chunk; with more, a sample of the files is used."""

TEXT_MAX = 256
"""Largest number of characters of a string in a cut. A truncated string is smaller, and any cut is valid."""


def key_line(
    space: KeySpace, pinned: PinnedTable, files: Sequence[RangedFile], read: Callable[[], DataFrame], *, cut_rows: int
) -> KeyScan:
    """Return cuts at the ends of files; if the log lacks statistics, from a sample of the rows that `read` returns."""
    rows = [total - deleted for total, deleted in zip(pinned.rows, pinned.deleted, strict=True)]
    line = line_by_files(space, files, rows, cut_rows=cut_rows)
    return line or line_by_sample(space, read(), sum(rows), files=len(rows), cut_rows=cut_rows)


def new_line(space: KeySpace, files: Sequence[RangedFile], *, cut_rows: int) -> KeyScan | None:
    """Return cuts of another version at the ends of its files; `None` if the log does not record their rows or values."""
    rows = [file.rows for file in files if file.rows is not None]
    return line_by_files(space, files, rows, cut_rows=cut_rows) if len(rows) == len(files) else None


def line_by_files(
    space: KeySpace, files: Sequence[RangedFile], rows: Sequence[int], *, cut_rows: int
) -> KeyScan | None:
    """Return cuts at the last positions of files in the log; `None` if the log lacks them for more than half of the rows.

    Args:
        space: The order.
        files: Files of one version.
        rows: Live rows of each file.
        cut_rows: Approximate number of rows between two cuts.
    """
    total = sum(rows)
    ends = [(file.last, count) for file, count in zip(files, rows, strict=True) if file.last is not None]
    if 2 * sum(count for _, count in ends) < total:
        return None
    step = max(cut_rows, total // CUTS_MAX)
    cuts: list[KeyCut] = []
    waiting = 0
    for last, count in sorted(
        ((_short(end), count) for end, count in ends), key=lambda item: space.order.sort_key(item[0])
    ):
        waiting += count
        if waiting < step or not space.order.fits(last):
            continue
        if cuts and cuts[-1].position == last:
            cuts[-1] = KeyCut(last, cuts[-1].rows + waiting)
        else:
            cuts.append(KeyCut(last, waiting))
        waiting = 0
    rest = waiting + total - sum(count for _, count in ends)
    if cuts and not rest:
        # The last chunk has no end, so a cut at the last row would create an empty chunk.
        rest = cuts.pop().rows
    return KeyScan(space, tuple(cuts), rest, read_amplification(space.order, files, cuts))


def read_amplification(order: KeyOrder, files: Sequence[RangedFile], cuts: Sequence[KeyCut]) -> float:
    """Return how often chunks of about a million rows read a file, on average; 1.0 if each file is read once."""
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


def line_by_sample(space: KeySpace, rows: DataFrame, total: int, *, files: int, cut_rows: int) -> KeyScan:
    """Return cuts at the quantiles of a sample; without statistics, each chunk may read all files.

    Reads the columns of the order once.
    """
    columns = space.order.columns
    positions = rows.select(*(stored_value(column).alias(f"c{at}") for at, column in enumerate(columns)))
    fraction = min(1.0, SAMPLE_ROWS / max(total, 1))
    sampled = positions.sample(fraction, seed=1) if fraction < 1 else positions
    collected = [tuple(value_of(value) for value in row) for row in sampled.limit(2 * SAMPLE_ROWS).collect()]
    ordered = sorted(collected, key=space.order.sort_key)
    pieces = min(CUTS_MAX, max(1, total // cut_rows), max(1, len(ordered)))
    edges = [ordered[len(ordered) * at // pieces - 1] for at in range(1, pieces)]
    cuts: list[KeyCut] = []
    for edge in edges:
        if space.order.fits(edge) and not (cuts and cuts[-1].position == edge):
            cuts.append(KeyCut(edge, total // pieces))
    chunks = max(1, -(-total // CHUNK_ROWS))
    return KeyScan(
        space, tuple(cuts), max(0, total - sum(cut.rows for cut in cuts)), float(chunks) if files > 1 else 1.0
    )


def key_order(schema: StructType, columns: Sequence[tuple[str, bool]], *, field: str) -> KeyOrder:
    """Return an order by columns of a table, each a pair of name and `descending`.

    Raises:
        InvalidSpecError: a column does not exist, or its type has no order; `field` of the spec names it.
    """
    ordered = []
    for name, descending in columns:
        if name not in schema.names:
            raise InvalidSpecError(
                f"{field} names {name!r}, which the source does not have.", hint=instead(name, schema.names)
            )
        kind = schema[name].dataType
        spelled = ordered_type(kind)
        if spelled is None:
            raise InvalidSpecError(
                f"{field} names {name!r}, whose type {kind.simpleString()} has no order that every engine agrees on.",
                hint="Order by numbers, strings without collation, dates, timestamps or binaries, or use another strategy.",
            )
        ordered.append(KeyColumn(name, spelled, descending))
    return KeyOrder(tuple(ordered))
