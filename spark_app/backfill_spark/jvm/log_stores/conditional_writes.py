"""One writer of each version of the log, where a store has no rename that fails: on S3 the store itself must decide.

S3 refuses a PUT with `If-None-Match` where something is there, and our log store asks for it (`s3.py`). A store that does
not know the condition ignores it, and two drivers would write the same version (ADR 0007).
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from backfill_core.errors import UnsupportedTargetFeatureError
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import hadoop_conf, java, java_context
from backfill_spark.jvm.log_stores.refusals import PAGE
from backfill_spark.jvm.log_stores.s3 import LOG_STORE, SCHEME, SPARK_SETTING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_conditional_writes(spark: SparkSession, files: Any, folder: str) -> None:
    """Refuse a store that would let two writers make the same file; schemes other than `s3a` are not asked.

    Args:
        spark: The session.
        files: Hadoop's file system of the folder.
        folder: Where a file may be made and removed again.

    Raises:
        UnsupportedTargetFeatureError: the store ignores the condition, or the session's own Delta does not give one.
        Whatever the store says (`JAVA_ERRORS`).
    """
    if str(files.getScheme()) != SCHEME:
        return
    if str(java_context(spark).getConf().get(SPARK_SETTING, "")) != LOG_STORE:
        raise UnsupportedTargetFeatureError(
            f"{folder}: the Delta of this session writes the log on S3 without a condition, so two writers could make one version.",
            hint=f"Let the job open a session of its own: job.run() without a session, or `backfill run` ({PAGE}).",
        )
    jvm = java(spark)
    store = getattr(jvm.io.delta.storage, LOG_STORE.rpartition(".")[2])(hadoop_conf(spark))
    probe: Any = jvm.org.apache.hadoop.fs.Path(f"{folder}/_probe-{secrets.token_hex(8)}")
    try:
        _write(store, jvm, probe, spark)
        try:
            _write(store, jvm, probe, spark)
        except JAVA_ERRORS as error:
            if not is_a(error, "FileAlreadyExistsException"):
                raise
        else:
            raise UnsupportedTargetFeatureError(
                f"{folder}: the store takes a PUT with If-None-Match and replaces what is there, so two writers could make one version of the log.",
                hint=f"Use a store with conditional writes ({PAGE}).",
            )
    finally:
        with suppress(*JAVA_ERRORS):
            files.delete(probe, False)


def _write(store: Any, jvm: Any, path: Any, spark: SparkSession) -> None:
    store.write(path, jvm.java.util.ArrayList().iterator(), False, hadoop_conf(spark))
