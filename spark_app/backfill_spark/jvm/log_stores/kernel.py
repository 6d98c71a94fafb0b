"""Log stores for commits of Delta Kernel, also for those that create a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.log_stores import s3
from backfill_spark.jvm.log_stores.compiled import PACKAGE, bring_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_SETTING: Final = "io.delta.kernel.logStore.file.impl"
LOCAL: Final = f"{PACKAGE}.LocalLogStore"
FAST_LOCAL: Final = f"{PACKAGE}.BackfillLocalLogStore"
LOG_STORES: Final = {
    # Kernel's default for local files starts ten processes (chmod, readlink) for every file that it writes: half of a commit's time.
    LOCAL_SETTING: LOCAL,
    f"io.delta.kernel.logStore.{s3.SCHEME}.impl": s3.LOG_STORE,
}
"""Settings of Hadoop, by the scheme of a path."""

LONG_LOG: Final = 1_000
"""Versions from which a local log is listed by `FAST_LOCAL`. Its compilation costs more than the listings of a shorter log."""


def kernel_settings(spark: SparkSession) -> Any:
    """Return a Hadoop configuration (Java) for a Kernel engine that may commit; settings of the session take precedence over ours."""
    conf: Any = java(spark).org.apache.hadoop.conf.Configuration(hadoop_conf(spark))
    for name, store in LOG_STORES.items():
        conf.setIfUnset(name, store)
    return conf


def list_long_logs(spark: SparkSession, conf: Any, *, newest: int) -> None:
    """Let engines with a configuration of `kernel_settings` list a long local log without reading the attributes of older files.

    Hadoop reads the attributes of every file of the folder, for each commit: 3 s for 100,000 commits. A session's own setting stays.

    Args:
        spark: The session.
        conf: The configuration; it is changed, and its engines use the change at once.
        newest: Newest version of the log.
    """
    if newest >= LONG_LOG and str(conf.get(LOCAL_SETTING)) == LOCAL:
        bring_class(spark, FAST_LOCAL)
        conf.set(LOCAL_SETTING, FAST_LOCAL)
