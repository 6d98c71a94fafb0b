"""Division of computed columns into parts, so that they can be joined to the copied column chunks of a file.

All columns of a row group have the same number of values. So computed columns are written in parts: one part for each row group
of the source's file, with the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

Groups = tuple[int, ...]
"""Row count of each row group of a file, in order."""

LABEL = "__backfill_part"
"""Start of the name of a part's first column, which is not joined; no column of a table has such a name."""

REPEATS_MIN = 4
"""Rows for each distinct value from which a column is computed for the distinct values: two more small files must pay."""

PARTS_MAX = 32
"""Maximum parts of one Spark job: a pause waits for the end of a job."""

WHOLE_FILE = 1 << 40
"""Split size of a file with one row group; no file is larger."""

SPLITS_MAX = 256
"""Maximum splits of a file: each is a task, and most have no row group if two small row groups are next to each other."""

FILES_MAX = 1 << 20
"""Maximum files of one Spark job."""


@dataclass(frozen=True, slots=True)
class GroupBytes:
    """Place of a row group in its file."""

    first: int
    """Offset of its first byte."""

    size: int

    @property
    def middle(self) -> int:
        """Offset by which Parquet decides: a row group belongs to the split that contains it."""
        return self.first + self.size // 2


def split_bytes(groups: Sequence[GroupBytes], file_bytes: int) -> int | None:
    """Return the size of splits of a file, a power of two, of which each has at most one row group; `None` if they are too many."""
    if len(groups) == 1:
        return WHOLE_FILE
    distance = min(after.middle - before.middle for before, after in pairwise(groups))
    if distance < 1 or file_bytes // (size := 1 << (distance.bit_length() - 1)) >= SPLITS_MAX:
        return None
    return size


def label_of(file: int, first_byte: int) -> int:
    """Return the label of all rows of a split, from the index of its file and the offset of its first byte."""
    return first_byte * FILES_MAX + file


def in_order(labels: Sequence[int], file: int, groups: Groups) -> tuple[int, ...] | None:
    """Return the indexes of a file's parts in the order of its row groups, from the labels of all parts of a job.

    `None` if the file has another number of parts: its splits were not the expected ones.
    """
    parts = sorted((label, at) for at, label in enumerate(labels) if label % FILES_MAX == file)
    return tuple(at for _, at in parts) if len({label for label, _ in parts}) == len(parts) == len(groups) else None


def can_be_joined(groups: Groups, parts_max: int = PARTS_MAX) -> bool:
    """Return true if columns can be computed per row group. An empty row group cannot: Spark writes no part without rows."""
    return 0 < len(groups) <= parts_max and min(groups) > 0


def repeats(groups: Groups, distinct: Sequence[int]) -> bool:
    """Return true if a column is computed for the distinct values of its input, which are counted for each row group."""
    return sum(distinct) * REPEATS_MIN <= sum(groups)


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
