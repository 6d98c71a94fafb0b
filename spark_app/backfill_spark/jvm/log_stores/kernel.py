"""Log stores for commits of Delta Kernel, also for those that create a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.log_stores import s3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_STORES: Final = {
    # Kernel's default for local files starts ten processes (chmod, readlink) for every file that it writes: half of a commit's time.
    "io.delta.kernel.logStore.file.impl": "io.delta.storage.LocalLogStore",
    f"io.delta.kernel.logStore.{s3.SCHEME}.impl": s3.LOG_STORE,
}
"""Settings of Hadoop, by the scheme of a path."""


def kernel_settings(spark: SparkSession) -> Any:
    """Return a Hadoop configuration (Java) for a Kernel engine that may commit; settings of the session take precedence over ours."""
    conf: Any = java(spark).org.apache.hadoop.conf.Configuration(hadoop_conf(spark))
    for name, store in LOG_STORES.items():
        conf.setIfUnset(name, store)
    return conf
