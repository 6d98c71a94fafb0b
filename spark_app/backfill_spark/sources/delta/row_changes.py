"""Row changes of versions: from the change feed, or, without one, from the rows of added files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from backfill_spark.delta.spark_internals import SparkDeltaLog
from backfill_spark.sources.delta.checks import CHANGE_TYPE, COMMIT_VERSION
from backfill_spark.sources.delta.log import VersionLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def change_frames(
    log: VersionLog,
    delta_log: SparkDeltaLog,
    added: Callable[[Sequence[str], int], DataFrame],
    columns: Sequence[Any],
    after: int,
    upto: int,
) -> Iterator[DataFrame]:
    """Yield the changes of the versions `(after, upto]` with some columns, one frame per run of equal metadata; lazy.

    Args:
        log: The commits.
        delta_log: The table.
        added: Returns the rows of `add` actions of a version.
        columns: Columns of a change, including its type and its version.
        after: The version before the first one.
        upto: The last version.

    Raises:
        ChangeFeedMissingError: the table has no change feed, and a commit is not append-only.
        ChangeFeedExpiredError: a version is gone.
    """
    for has_feed, first, last in log.ranges(after, upto):
        if has_feed:
            yield delta_log.changes(first, last).select(*columns)
            continue
        for version in range(first, last + 1):
            actions = log.added(version)
            if actions:
                rows = added(actions, version).withColumn(CHANGE_TYPE, F.lit("insert"))
                yield rows.withColumn(COMMIT_VERSION, F.lit(version).cast("long")).select(*columns)
