"""What a version of a source must be before anything of it is read: pure checks of its schema."""

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
    """Refuse columns that cannot be read, or that a key names and that are not there.

    Args:
        path: The table's.
        pinned: As Spark reads its log.
        layout: As Kernel reads it.
        key: Columns of the key.

    Raises:
        SourceDamagedError: Spark and Kernel read other columns; a checksum file may contradict the commits. Or sizes and
            counts of the log are no sizes and counts.
        UnsupportedSourceFeatureError: a column has a name of the change feed, or one that Delta's filters do not find.
        KeyInvalidError: a key column is missing.
    """
    _check_numbers(path, pinned)
    schema = pinned.schema
    strange = sorted({*schema.names} ^ {field["name"] for field in json.loads(layout.schema)["fields"]})
    if strange:
        raise SourceDamagedError(
            f"version {pinned.version} of {path} has the column {strange[0]!r} in its checksum file or in its commits, not in both.",
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
                f"the source {path} is partitioned by {name!r}, and Delta's filters lose the rows of such a name: "
                "it begins or ends with a backtick, in a table with column mapping.",
                hint="Rename the column in the source.",
            )
    for column in key:
        if column not in schema.names:
            raise KeyInvalidError(
                f"spec.source.delta.key names {column!r}, which the source does not have.",
                hint=instead(column, schema.names),
            )


def _check_numbers(path: str, pinned: PinnedTable) -> None:
    """Refuse sizes and counts that no table has; a log is a text of any writer."""
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
