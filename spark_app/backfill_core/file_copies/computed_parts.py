"""Division of computed columns into parts, so that they can be joined to the copied column chunks of a file.

All columns of a row group have the same number of values. So computed columns are written in parts: one part for each row group
of the source's file, with the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

Groups = tuple[int, ...]
"""Row count of each row group of a file, in order."""

PARTS_MAX = 32
"""Maximum parts of one Spark job: a task keeps one open writer for each part."""


def starts(groups: Groups) -> tuple[int, ...]:
    """Return the index in the file of the first row of each row group."""
    return (0, *accumulate(groups[:-1]))


def can_be_joined(groups: Groups, parts_max: int = PARTS_MAX) -> bool:
    """Return true if columns can be computed per row group. An empty row group cannot: Spark writes no part without rows."""
    return 0 < len(groups) <= parts_max and min(groups) > 0


def rounds(files: Sequence[Groups], parts_max: int = PARTS_MAX) -> Iterator[tuple[int, ...]]:
    """Yield the indexes of files that one Spark job computes; every file satisfies `can_be_joined`."""
    chosen: list[int] = []
    parts = 0
    for index, groups in enumerate(files):
        if parts + len(groups) > parts_max:
            yield tuple(chosen)
            chosen, parts = [], 0
        chosen.append(index)
        parts += len(groups)
    if chosen:
        yield tuple(chosen)


def fits(rows: int, part: Groups) -> bool:
    """Return true if a part is one row group with the rows of its row group in the source's file.

    If a part became too large for one row group, its file is decoded.
    """
    return part == (rows,)
