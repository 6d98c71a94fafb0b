"""How files of a table's log are made on S3: by a class of ours in the JVM, the only one, because no class there does it.

Delta's own store for S3 looks and then writes, so two drivers may make one version. Hadoop can ask S3 to decide, by an option that
must be given for each file. Spark has a compiler for Java on board, which makes the class when a table on S3 is opened (ADR 0007).
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
"""A class of the same package, next to which Java defines ours."""

SPARK_SETTING: Final = f"spark.delta.logStore.{SCHEME}.impl"
"""By which Spark's Delta takes it; Kernel has a setting of its own (`kernel.py`)."""

_LOCK = threading.Lock()


def bring_log_store(spark: SparkSession) -> None:
    """Have the class in the JVM of a session; does nothing when it is there."""
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
            beside = handles.privateLookupIn(classes.forName(NEIGHBOUR), handles.lookup())
            beside.defineClass(compiler.getBytecodes().get(LOG_STORE))
