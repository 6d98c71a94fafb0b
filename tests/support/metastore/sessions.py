"""A session on a Hive metastore in the Java process of the suite, next to its session without one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from backfill_spark.jvm.gateway import java, java_context

HADOOP = "spark.hadoop."


@contextmanager
def session_on(spark: SparkSession, conf: Mapping[str, str]):
    """Yield a session whose catalog is the one of `conf`; until the end, each new session of the process has it.

    Spark chooses the catalog's kind by settings of the context, when a session's shared state is made. A separate process would
    take ten seconds more.
    """
    context = java_context(spark).sc()
    options = context.conf()
    before = {name: options.get(name) if options.contains(name) else None for name in conf}
    for name, value in conf.items():
        options.set(name, value)
        if name.startswith(HADOOP):
            context.hadoopConfiguration().set(name.removeprefix(HADOOP), value)
    try:
        # Without a shared state of an existing session it makes a new one.
        own = java(spark).org.apache.spark.sql.classic.SparkSession(context, java(spark).java.util.HashMap())
        yield SparkSession(spark.sparkContext, own)
    finally:
        for name, old in before.items():
            options.remove(name) if old is None else options.set(name, old)
