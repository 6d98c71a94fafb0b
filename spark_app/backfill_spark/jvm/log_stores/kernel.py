"""Log stores for commits of Delta Kernel, also for those that create a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.log_stores.java_classes import LOCAL, LOG_STORES, bring_log_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def kernel_settings(spark: SparkSession) -> Any:
    """Return a Hadoop configuration (Java) for a Kernel engine that may commit; settings of the session take precedence over ours."""
    bring_log_store(spark, LOCAL)
    conf: Any = java(spark).org.apache.hadoop.conf.Configuration(hadoop_conf(spark))
    for scheme, store in LOG_STORES.items():
        conf.setIfUnset(f"io.delta.kernel.logStore.{scheme}.impl", store)
    return conf
