"""The folder of Spark's event log, checked before Spark's context starts, which would end if it cannot write there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark import SparkConf

from backfill_core.protocol.strategy import JobWarning
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.failures import describe_error
from backfill_spark.jvm.gateway import start_java

ENABLED: Final = "spark.eventLog.enabled"
FOLDER: Final = "spark.eventLog.dir"
REFUSED: Final = "spark.backfill.eventLogRefused"
"""Setting of a session without the log that its spec requests: the reason."""

FEW_TRIES: Final = {"fs.s3a.attempts.maximum": "2", "fs.s3a.retry.limit": "2"}
"""A store that is away delays the start by seconds, not by minutes."""


def refused_log(settings: Mapping[str, str], conf: SparkConf) -> dict[str, str]:
    """Return the settings that switch off an event log whose folder cannot be written; empty if it can, or without a log.

    Args:
        settings: Settings of the session.
        conf: The same settings; Java starts with them if it does not run yet.
    """
    folder = settings.get(FOLDER)
    if settings.get(ENABLED, "").lower() != "true" or folder is None:
        return {}
    try:
        _write(start_java(conf), folder, conf)
    except JAVA_ERRORS as error:
        return {ENABLED: "false", REFUSED: f"{folder}: {describe_error(error)}"}
    return {}


def refused_log_warnings(setting: Callable[[str, str], str | None]) -> tuple[JobWarning, ...]:
    """Return the warning of a session without its event log; empty for other sessions.

    Args:
        setting: Returns a setting of the session by name, or the given default.
    """
    reason = setting(REFUSED, "")
    if not reason:
        return ()
    effect = "this attempt writes no event log; correct the folder or its permissions, then restart the attempt"
    return (JobWarning("EventLogRefused", f"spec.spark.eventLog.path: cannot write to {reason}; {effect}"),)


def _write(java: Any, folder: str, conf: SparkConf) -> None:
    """Create the folder if it is missing, and a file in it, which is deleted."""
    spark_conf = java.org.apache.spark.SparkConf()
    for name, value in conf.getAll():
        spark_conf.set(name, value)
    hadoop_conf = java.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(spark_conf)
    for name, value in FEW_TRIES.items():
        hadoop_conf.set(name, value)
    uri = java.org.apache.spark.util.Utils.resolveURI(folder)
    files = java.org.apache.hadoop.fs.FileSystem.newInstance(uri, hadoop_conf)
    try:
        path = java.org.apache.hadoop.fs.Path(uri)
        files.mkdirs(path)
        tried = java.org.apache.hadoop.fs.Path(path, f".backfill-{uuid.uuid4().hex}")
        files.create(tried).close()
        files.delete(tried, False)
    finally:
        files.close()
