"""Files of a version from lines of a commit, each an `add` action."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from backfill_core.file_copies.logged_statistics import LoggedStatistics
from backfill_spark.delta.source_file import LoggedFile, LoggedValues, values_of, without_statistics

NO_PARTITION: Mapping[str, str | None] = {}
"""Partition values of all files of a table without partition columns."""


def statistics_of(add: Mapping[str, Any], nulls_of: Sequence[str]) -> LoggedStatistics:
    """Return the statistics of an `add` action; without columns in `nulls_of`, perhaps only the row count."""
    text = add.get("stats")
    return LoggedStatistics.of(text) if nulls_of else LoggedStatistics.of_rows(text)


def deleted_of(add: Mapping[str, Any]) -> int:
    """Return the number of rows that the deletion vector of an `add` action hides."""
    cardinality: int = (add.get("deletionVector") or {}).get("cardinality", 0)
    return cardinality


def logged_file(line: str, nulls_of: Sequence[str]) -> LoggedFile:
    """Return a file with the null counts of some columns, given by their physical names."""
    add = json.loads(line)["add"]
    stats = statistics_of(add, nulls_of)
    return LoggedFile(
        path=add["path"],
        bytes=add["size"],
        rows=stats.rows,
        deleted=deleted_of(add),
        nulls=tuple(stats.null_count(name) for name in nulls_of),
        action=without_statistics(add),
        statistics=add.get("stats"),
        partition=add.get("partitionValues") or NO_PARTITION,
    )


def logged_values(line: str, columns: Sequence[str]) -> LoggedValues:
    """Return the facts about the values of some columns of a file, given by their physical names."""
    return values_of(json.loads(line)["add"], columns)
