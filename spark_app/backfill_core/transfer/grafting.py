"""Which rows of a file are computed together, so that what is computed can be joined to the file's own column chunks.

A row group has as many values of each column. So computed columns are written in parts: one for each row group of the source's
file, with a row group of the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

Groups = tuple[int, ...]
"""Rows of each row group of a file, in their order."""

PARTS_MAX = 32
"""Parts of one Spark job: a task holds a writer of each open."""


def starts(groups: Groups) -> tuple[int, ...]:
    """Return the place in the file of the first row of each row group."""
    return (0, *accumulate(groups[:-1]))


def can_be_joined(groups: Groups, parts_max: int = PARTS_MAX) -> bool:
    """May columns of a file with such row groups be computed apart? An empty group has no row that could tell of it."""
    return 0 < len(groups) <= parts_max and min(groups) > 0


def rounds(files: Sequence[Groups], parts_max: int = PARTS_MAX) -> Iterator[tuple[int, ...]]:
    """Yield the indexes of files that are computed in one Spark job; the files are `can_be_joined`."""
    chosen: list[int] = []
    parts = 0
    for at, groups in enumerate(files):
        if parts + len(groups) > parts_max:
            yield tuple(chosen)
            chosen, parts = [], 0
        chosen.append(at)
        parts += len(groups)
    if chosen:
        yield tuple(chosen)


def fits(rows: int, part: Groups) -> bool:
    """Is a part one row group of as many rows as its row group of the source's file has?

    A part that became too large for one row group does not fit; its file is decoded.
    """
    return part == (rows,)
