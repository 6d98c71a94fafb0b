"""Our Java classes: log stores that no class of Delta or Hadoop provides. Spark contains a Java compiler, which compiles them on use."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE: Final = "io.delta.storage"
NEIGHBOUR: Final = f"{PACKAGE}.LocalLogStore"
"""A class of the same package; Java defines our classes next to it."""

_LOCK = threading.Lock()


def bring_class(spark: SparkSession, name: str) -> None:
    """Define a class of `PACKAGE` in the JVM of a session, unless it is already defined; its source is next to this module."""
    jvm = java(spark)
    with _LOCK:
        classes: Any = jvm.java.lang.Class
        loader = classes.forName(NEIGHBOUR).getClassLoader()
        try:
            classes.forName(name, False, loader)
        except JAVA_ERRORS:
            source = Path(__file__).with_name(f"{name.rpartition('.')[2]}.java")
            compiler: Any = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(source.read_text("utf-8"))
            handles: Any = jvm.java.lang.invoke.MethodHandles
            package = handles.privateLookupIn(classes.forName(NEIGHBOUR), handles.lookup())
            package.defineClass(compiler.getBytecodes().get(name))
