"""What a version of a source must be before anything of it is read: pure checks of its schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql.types import StructType

from backfill_core.errors import KeyInvalidError, UnsupportedSourceFeatureError
from backfill_spark.delta.properties import PHYSICAL_NAME
from backfill_spark.rows.columns import instead

CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
RESERVED = (CHANGE_TYPE, COMMIT_VERSION, "_commit_timestamp")


def check_schema(path: str, schema: StructType, *, partitions: Iterable[str], key: Sequence[str]) -> None:
    """Refuse columns that cannot be read, or that a key names and that are not there.

    Raises:
        UnsupportedSourceFeatureError: a column has a name of the change feed, or one that Delta's filters do not find.
        KeyInvalidError: a key column is missing.
    """
    for name in schema.names:
        if name.lower() in RESERVED:
            raise UnsupportedSourceFeatureError(
                f"the source {path} has a column {name!r}, which is a name of the change feed.",
                hint="Rename the column in the source.",
            )
    for name in partitions:
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
