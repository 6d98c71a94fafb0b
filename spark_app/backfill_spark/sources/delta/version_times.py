"""The version of a table as of a time; the log has the times of all versions that can still be read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from backfill_core.positions.start_time import LoggedVersion, check_not_in_future, start_version
from backfill_spark.delta.log import LOG_ERRORS, version_at_time
from backfill_spark.sources.delta.failures import explain_look

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELD = "spec.source.delta.timestamp"


def version_at(spark: SparkSession, path: str, wanted_ms: int) -> int:
    """Return the newest version that was committed at a time or before it.

    Raises:
        InvalidSpecError: the time is in the future, or before the first version.
        SnapshotExpiredError: the log no longer has the version.
        BackfillError: the log cannot be read.
    """
    check_not_in_future(wanted_ms, now_ms=round(time.time() * 1000), field=FIELD)
    try:
        version, timestamp_ms = version_at_time(spark, path, wanted_ms)
    except LOG_ERRORS as error:
        raise explain_look(error, spark, path=path) from error
    return start_version(wanted_ms, LoggedVersion(version, timestamp_ms), path=path, field=FIELD)
