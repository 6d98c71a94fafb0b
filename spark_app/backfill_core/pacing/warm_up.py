"""Decides what a Java that has just started prepares in the background, so that the first rows of a job are committed sooner."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

ROWS_MIN: Final = 500_000
"""A shorter job ends before a prepared write would save time."""

_PLAIN = re.compile(r"`?[\w .]+`?")
"""A column that is copied or renamed."""

_CASES = re.compile(r"\b(upper|ucase|lower|lcase|initcap)\s*\(", re.IGNORECASE)


class WarmUp(Enum):
    """One preparation. It changes no table, and a failure changes nothing."""

    CASE_TABLES = auto()
    """Load Spark's table of letter cases, which its first `upper` computes for 1,114,112 characters: two seconds of a core."""

    FIRST_WRITE = auto()
    """Write a few generated rows as Parquet. The first write of a Java loads and compiles a second of code."""


def warm_ups(select: Sequence[str], where: str | None, *, rows: int, by_file: bool) -> frozenset[WarmUp]:
    """Return the preparations that a job needs.

    Args:
        select: Expressions of the transform; empty if it keeps all columns.
        where: Filter of the transform.
        rows: Rows of the source that the job reads.
        by_file: True if whole files are read, so that files with unchanged columns are copied without Spark.
    """
    expressions = [*select, *(() if where is None else (where,))]
    computes = where is not None or not all(_PLAIN.fullmatch(text) for text in select)
    chosen = {WarmUp.CASE_TABLES} if any(map(_CASES.search, expressions)) else set[WarmUp]()
    if rows >= ROWS_MIN and (computes or not by_file):
        chosen.add(WarmUp.FIRST_WRITE)
    return frozenset(chosen)
