"""Defines our own Java classes in the JVM of a session. Spark contains a Java compiler, which compiles a class when it is first needed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCK = threading.Lock()


def bring_class(spark: SparkSession, name: str, *, neighbour: str, source: Path) -> Any | None:
    """Define a class and its nested classes, unless they are already defined; return its Java class.

    Args:
        spark: The session.
        name: Full name of the class.
        neighbour: A class of the same package; Java defines ours next to it, with the same loader.
        source: File of the class.

    Returns:
        The class; `None` if the session has no such neighbour.

    Raises:
        JAVA_ERRORS: the class cannot be compiled: a class that it uses is missing.
    """
    jvm = java(spark)
    with _LOCK:
        classes: Any = jvm.java.lang.Class
        # The jars of a caller's session may be known only to the loader that Spark sets for its threads.
        ours = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        try:
            next_to = classes.forName(neighbour, False, ours)
        except JAVA_ERRORS as error:
            if is_a(error, "ClassNotFoundException"):
                return None
            raise
        loader = next_to.getClassLoader()
        try:
            return classes.forName(name, False, loader)
        except JAVA_ERRORS:
            compiler: Any = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(source.read_text("utf-8"))
            handles: Any = jvm.java.lang.invoke.MethodHandles
            package, compiled = handles.privateLookupIn(next_to, handles.lookup()), compiler.getBytecodes()
            # Nested classes first, each after those that stand below it in the file: Java looks up the ones that a class uses.
            for each in sorted(map(str, compiled.keySet().toArray()), reverse=True):
                package.defineClass(compiled.get(each))
            return classes.forName(name, False, loader)
