"""Delta Kernel's engine, with the log stores by which this project commits: each commit and each table is made through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.log_stores import s3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_STORES: Final = {
    # Kernel's own choice for local files starts ten processes (chmod, readlink) for every file it writes: half of a commit's time.
    "io.delta.kernel.logStore.file.impl": "io.delta.storage.LocalLogStore",
    f"io.delta.kernel.logStore.{s3.SCHEME}.impl": s3.LOG_STORE,
}
"""Settings of Hadoop, by the scheme of a path."""


def writing_engine(spark: SparkSession) -> tuple[Any, Any]:
    """Return an engine that may commit, and Hadoop's settings that it has, both Java's; settings of a session win over ours."""
    jvm = java(spark)
    conf: Any = jvm.org.apache.hadoop.conf.Configuration(hadoop_conf(spark))
    for name, store in LOG_STORES.items():
        conf.setIfUnset(name, store)
    return jvm.io.delta.kernel.defaults.engine.DefaultEngine.create(conf), conf
