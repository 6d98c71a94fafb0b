"""Our only Java classes: log stores, because no class of Delta or Hadoop writes a file of a log only if no other writer has.

Delta's stores for S3 and for local disks first check and then write, so two drivers may write the same version. Spark contains a
Java compiler, which compiles a class when it is first needed (ADRs 0007 and 0038).
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S3: Final = "s3a"
LOCAL: Final = "file"
LOG_STORES: Final = {S3: "io.delta.storage.BackfillS3LogStore", LOCAL: "io.delta.storage.BackfillLocalLogStore"}
"""Class of the log store of a scheme."""

NEIGHBOUR: Final = "io.delta.storage.LocalLogStore"
"""A class of the same package; Java defines our classes next to it."""

_LOCK = threading.Lock()


def spark_setting(scheme: str) -> str:
    """Return the setting of Spark's Delta for the log store of a scheme; Kernel has a separate setting (`kernel.py`)."""
    return f"spark.delta.logStore.{scheme}.impl"


def bring_log_store(spark: SparkSession, scheme: str) -> None:
    """Define the class for a scheme in the JVM of a session, unless it is already defined, or the session has no Delta."""
    jvm, name = java(spark), LOG_STORES[scheme]
    with _LOCK:
        classes: Any = jvm.java.lang.Class
        # The jars of a caller's session may be known only to the loader that Spark sets for its threads.
        ours = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        try:
            neighbour = classes.forName(NEIGHBOUR, False, ours)
        except JAVA_ERRORS as error:
            if is_a(error, "ClassNotFoundException"):
                return
            raise
        loader = neighbour.getClassLoader()
        try:
            classes.forName(name, False, loader)
        except JAVA_ERRORS:
            compiler: Any = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(Path(__file__).with_name(f"{name.rpartition('.')[2]}.java").read_text("utf-8"))
            handles: Any = jvm.java.lang.invoke.MethodHandles
            package = handles.privateLookupIn(neighbour, handles.lookup())
            package.defineClass(compiler.getBytecodes().get(name))
