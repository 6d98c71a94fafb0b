"""Bulk transfer of Java objects: each call from Python into the JVM costs a tenth of a millisecond, and a table may have 100,000 files."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from backfill_spark.jvm.gateway import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def java_function(spark: SparkSession, owner: str, name: str) -> Any:
    """Return a public Java method as a `java.util.function.Function`: a static method with one argument, or a getter; without overloads."""
    jvm = java(spark)
    # This reflection finds the same classes as py4j itself, also classes that Spark loaded later.
    reflection = jvm.py4j.reflection.ReflectionUtil
    (method,) = (method for method in reflection.classForName(owner).getMethods() if method.getName() == name)
    handles = jvm.java.lang.invoke
    function = reflection.classForName("java.util.function.Function")
    return handles.MethodHandleProxies.asInterfaceInstance(
        function, handles.MethodHandles.publicLookup().unreflect(method)
    )


def java_lines(spark: SparkSession, lines: Sequence[str]) -> Any:
    """Return a `java.util.stream.Stream` of strings, none of which contains a line feed."""
    jvm = java(spark)
    given = jvm.java.io.ByteArrayInputStream(bytearray("\n".join(lines), "utf-8"))
    return jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(given, "UTF-8")).lines()


def text_of(spark: SparkSession, lines: Any) -> str:
    """Return the strings of a `java.util.Collection`, each followed by a line feed.

    They are transferred as Base64, because py4j processes each character of a string with escapes, and each byte of an array, in Python.
    """
    jvm = java(spark)
    out = jvm.java.io.ByteArrayOutputStream()
    coded = jvm.java.util.Base64.getEncoder().wrap(out)
    jvm.org.apache.commons.io.IOUtils.writeLines(lines, "\n", coded, "UTF-8")
    coded.close()
    return base64.b64decode(out.toString("ISO-8859-1")).decode()
