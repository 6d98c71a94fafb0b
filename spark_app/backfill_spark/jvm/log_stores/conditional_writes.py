"""Checks that a store without atomic renames, such as S3, lets only one writer write each version of the log.

S3 rejects a PUT with `If-None-Match` if the object exists, and our log store sends that condition (`java_classes.py`). A store that does
not support the condition ignores it, and two drivers would write the same version (ADR 0007).
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from backfill_core.errors import UnsupportedTargetFeatureError
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import hadoop_conf, java, java_context
from backfill_spark.jvm.log_stores.java_classes import LOG_STORES, S3, spark_setting
from backfill_spark.jvm.log_stores.refusals import PAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_conditional_writes(spark: SparkSession, files: Any, folder: str) -> None:
    """Reject a store that would let two writers create the same file; schemes other than `s3a` are not checked.

    Args:
        spark: The session.
        files: Hadoop's file system of the folder.
        folder: Folder in which a probe file may be created and removed.

    Raises:
        UnsupportedTargetFeatureError: the store ignores the condition, or the session's own Delta does not send one.
        JAVA_ERRORS: any other error of the store.
    """
    if str(files.getScheme()) != S3:
        return
    if str(java_context(spark).getConf().get(spark_setting(S3), "")) != LOG_STORES[S3]:
        raise UnsupportedTargetFeatureError(
            f"{folder}: the Delta of this session writes the log on S3 without a condition, so two writers could write the same version.",
            hint=f"Let the job open a separate session: job.run() without a session, or `backfill run` ({PAGE}).",
        )
    jvm = java(spark)
    store = getattr(jvm.io.delta.storage, LOG_STORES[S3].rpartition(".")[2])(hadoop_conf(spark))
    probe: Any = jvm.org.apache.hadoop.fs.Path(f"{folder}/_probe-{secrets.token_hex(8)}")
    try:
        try:
            _write(store, jvm, probe, spark)
        except JAVA_ERRORS as error:
            if not is_a(error, "AWSUnsupportedFeatureException"):
                raise
            raise UnsupportedTargetFeatureError(
                f"{folder}: the store has no PUT with If-None-Match, so two writers could write the same version of the log.",
                hint=f"Use a store with conditional writes ({PAGE}).",
            ) from error
        try:
            _write(store, jvm, probe, spark)
        except JAVA_ERRORS as error:
            if not is_a(error, "FileAlreadyExistsException"):
                raise
        else:
            raise UnsupportedTargetFeatureError(
                f"{folder}: the store accepts a PUT with If-None-Match and replaces an existing object, so two writers could write the same "
                "version of the log.",
                hint=f"Use a store with conditional writes ({PAGE}).",
            )
    finally:
        with suppress(*JAVA_ERRORS):
            files.delete(probe, False)


def _write(store: Any, jvm: Any, path: Any, spark: SparkSession) -> None:
    store.write(path, jvm.java.util.ArrayList().iterator(), False, hadoop_conf(spark))
