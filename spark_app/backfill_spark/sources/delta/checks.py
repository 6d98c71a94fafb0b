"""Checks of a source version before any read: pure functions of its schema and its metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence

from backfill_api.spec.bounds import COUNT_MAX
from backfill_core.errors import KeyInvalidError, SourceDamagedError, UnsupportedSourceFeatureError
from backfill_spark.delta.log import LoggedTable
from backfill_spark.delta.properties import PHYSICAL_NAME
from backfill_spark.ports.source import PinnedTable
from backfill_spark.rows.columns import instead
from backfill_spark.sources.delta.failures import LOG_HINT

CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
RESERVED = (CHANGE_TYPE, COMMIT_VERSION, "_commit_timestamp")


def check_schema(path: str, pinned: PinnedTable, layout: LoggedTable, *, key: Sequence[str]) -> None:
    """Reject columns that cannot be read, and a key whose columns do not exist.

    Args:
        path: The table's path.
        pinned: The version as Spark reads it.
        layout: The version as Kernel reads it.
        key: Columns of the key.

    Raises:
        SourceDamagedError: Spark and Kernel read different columns, as when a checksum file contradicts the commits. Or the log
            contains impossible sizes or counts.
        UnsupportedSourceFeatureError: a column has a name of the change feed, or a name that breaks Delta's filters.
        KeyInvalidError: a key column is missing.
    """
    _check_numbers(path, pinned)
    schema = pinned.schema
    differing = sorted({*schema.names} ^ {field["name"] for field in json.loads(layout.schema)["fields"]})
    if differing:
        raise SourceDamagedError(
            f"version {pinned.version} of {path} has the column {differing[0]!r} in its checksum file or in its commits, not in both.",
            hint=LOG_HINT,
        )
    for name in schema.names:
        if name.lower() in RESERVED:
            raise UnsupportedSourceFeatureError(
                f"the source {path} has a column {name!r}, which is a name of the change feed.",
                hint="Rename the column in the source.",
            )
    for name in pinned.partitions:
        # Filters would drop its files.
        if name.strip("`") != name and PHYSICAL_NAME in schema[name].metadata:
            raise UnsupportedSourceFeatureError(
                f"the source {path} is partitioned by {name!r}, and Delta's filters lose the rows of this column: "
                "its name begins or ends with a backtick, in a table with column mapping.",
                hint="Rename the column in the source.",
            )
    for column in key:
        if column not in schema.names:
            raise KeyInvalidError(
                f"spec.source.delta.key names {column!r}, which the source does not have.",
                hint=instead(column, schema.names),
            )


def _check_numbers(path: str, pinned: PinnedTable) -> None:
    """Reject impossible sizes and counts, because any writer may write to a log."""
    for what, numbers in (
        ("size", pinned.bytes),
        ("row count", pinned.rows),
        ("count of deleted rows", pinned.deleted),
    ):
        if min(numbers, default=0) < 0 or sum(numbers) > COUNT_MAX:
            raise SourceDamagedError(
                f"version {pinned.version} of {path} has files with a {what} between {min(numbers):,} and {max(numbers):,}.",
                hint=LOG_HINT,
            )
