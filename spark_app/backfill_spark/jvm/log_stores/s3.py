"""The log store for S3, because no class of Delta or Hadoop writes log files with a condition.

Delta's log store for S3 first checks and then writes, so two drivers may write the same version. Hadoop can let S3 decide, with an
option for each file (ADR 0007).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backfill_spark.jvm.log_stores.compiled import PACKAGE, bring_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME: Final = "s3a"
LOG_STORE: Final = f"{PACKAGE}.BackfillS3LogStore"
SPARK_SETTING: Final = f"spark.delta.logStore.{SCHEME}.impl"
"""Setting of the log store for Spark's Delta; Kernel has a separate setting (`kernel.py`)."""


def bring_log_store(spark: SparkSession) -> None:
    """Define the class in the JVM of a session, unless it is already defined. Call it when a table on S3 is opened."""
    bring_class(spark, LOG_STORE)
