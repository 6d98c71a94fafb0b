"""Our log stores, Java classes: no class of Delta or Hadoop writes a file of a log only if no other writer has.

Delta's stores for S3 and for local disks first check and then write, so two drivers may write the same version (ADRs 0007 and 0038).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from backfill_spark.jvm.own_classes import bring_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S3: Final = "s3a"
LOCAL: Final = "file"
LOG_STORES: Final = {S3: "io.delta.storage.BackfillS3LogStore", LOCAL: "io.delta.storage.BackfillLocalLogStore"}
"""Class of the log store of a scheme."""

NEIGHBOUR: Final = "io.delta.storage.LocalLogStore"
"""A class of the same package; Java defines our classes next to it."""


def spark_setting(scheme: str) -> str:
    """Return the setting of Spark's Delta for the log store of a scheme; Kernel has a separate setting (`kernel.py`)."""
    return f"spark.delta.logStore.{scheme}.impl"


def bring_log_store(spark: SparkSession, scheme: str) -> None:
    """Define the class for a scheme in the JVM of a session, unless it is already defined, or the session has no Delta."""
    name = LOG_STORES[scheme]
    bring_class(spark, name, neighbour=NEIGHBOUR, source=Path(__file__).with_name(f"{name.rpartition('.')[2]}.java"))
