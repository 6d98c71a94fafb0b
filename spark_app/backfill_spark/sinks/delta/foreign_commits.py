"""What others committed to a table: the commits that change rows and are not of one job."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from backfill_core.errors import ForeignCommit
from backfill_spark.delta.log import lines_of
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.sinks.delta.failures import explain_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def commits_of_others(
    spark: SparkSession, path: str, after: int, upto: int, app_id: str, *, friends: str | None = None
) -> tuple[ForeignCommit, ...]:
    """Return the commits of the versions `(after, upto]` that change rows or columns and are not of a job.

    Args:
        spark: The session.
        path: The table's.
        after: Version before the first that is looked at.
        upto: The last one.
        app_id: Of the job's transactions, which its seals and its MERGEs carry.
        friends: How application ids begin that do not count either.

    Raises:
        BackfillError: a commit cannot be read; says whether it may be later.
    """
    jvm = java(spark)
    conf = hadoop_conf(spark)
    found = []
    for version in range(after + 1, upto + 1):
        file = jvm.org.apache.hadoop.fs.Path(f"{path}/_delta_log/{version:020d}.json")
        try:
            stream = file.getFileSystem(conf).open(file)
            try:
                text = str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        except JAVA_ERRORS as error:
            raise explain_target(error, path=path, doing=f"the look at version {version}") from error
        one = foreign(version, lines_of(text), app_id, friends)
        found += [] if one is None else [one]
    return tuple(found)


def foreign(version: int, lines: Iterable[str], app_id: str, friends: str | None = None) -> ForeignCommit | None:
    """Return what a commit is when it is not of the job and changes rows or columns, else None."""
    changes, operation, engine = False, "", ""
    for line in lines:
        action: dict[str, Any] = json.loads(line) if line.strip() else {}
        app = str(action.get("txn", {}).get("appId", ""))
        if app and (app == app_id or (friends is not None and app.startswith(friends))):
            return None
        # An OPTIMIZE marks its files as no change of data.
        moved = [action.get(kind, {}).get("dataChange") for kind in ("add", "remove")]
        changes = changes or any(moved) or "cdc" in action or "metaData" in action
        info = action.get("commitInfo", {})
        operation, engine = info.get("operation", operation), info.get("engineInfo", engine)
    return ForeignCommit(version, str(operation), str(engine)) if changes else None
