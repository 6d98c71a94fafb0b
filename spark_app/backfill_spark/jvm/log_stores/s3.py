"""The log store for S3: our only Java class, because no class of Delta or Hadoop writes log files with a condition.

Delta's log store for S3 first checks and then writes, so two drivers may write the same version. Hadoop can let S3 decide, with an
option for each file. Spark contains a Java compiler, which compiles the class when a table on S3 is opened (ADR 0007).
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME: Final = "s3a"
LOG_STORE: Final = "io.delta.storage.BackfillS3LogStore"
SOURCE: Final = Path(__file__).with_name("BackfillS3LogStore.java")
NEIGHBOUR: Final = "io.delta.storage.LocalLogStore"
"""A class of the same package; Java defines our class next to it."""

SPARK_SETTING: Final = f"spark.delta.logStore.{SCHEME}.impl"
"""Setting of the log store for Spark's Delta; Kernel has a separate setting (`kernel.py`)."""

_LOCK = threading.Lock()


def bring_log_store(spark: SparkSession) -> None:
    """Define the class in the JVM of a session, unless it is already defined."""
    jvm = java(spark)
    with _LOCK:
        classes: Any = jvm.java.lang.Class
        loader = classes.forName(NEIGHBOUR).getClassLoader()
        try:
            classes.forName(LOG_STORE, False, loader)
        except JAVA_ERRORS:
            compiler: Any = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(SOURCE.read_text("utf-8"))
            handles: Any = jvm.java.lang.invoke.MethodHandles
            package = handles.privateLookupIn(classes.forName(NEIGHBOUR), handles.lookup())
            package.defineClass(compiler.getBytecodes().get(LOG_STORE))
