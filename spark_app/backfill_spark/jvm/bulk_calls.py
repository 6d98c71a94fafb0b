"""Many Java objects in one call: each call from Python into the JVM costs a tenth of a millisecond, and a table has 100,000 files."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from backfill_spark.jvm.gateway import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def java_function(spark: SparkSession, owner: str, name: str) -> Any:
    """Return a public Java method as a `java.util.function.Function`: a static one of one argument, or a getter. It has no overloads."""
    jvm = java(spark)
    # It finds classes where py4j itself does, also those that Spark loaded later.
    found = jvm.py4j.reflection.ReflectionUtil
    (method,) = (one for one in found.classForName(owner).getMethods() if one.getName() == name)
    handles = jvm.java.lang.invoke
    function = found.classForName("java.util.function.Function")
    return handles.MethodHandleProxies.asInterfaceInstance(
        function, handles.MethodHandles.publicLookup().unreflect(method)
    )


def java_lines(spark: SparkSession, lines: Sequence[str]) -> Any:
    """Return a `java.util.stream.Stream` of texts, none of which has a line feed."""
    jvm = java(spark)
    given = jvm.java.io.ByteArrayInputStream(bytearray("\n".join(lines), "utf-8"))
    return jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(given, "UTF-8")).lines()


def text_of(spark: SparkSession, lines: Any) -> str:
    """Return Java's strings of a `java.util.Collection`, each with a line feed after it.

    As Base64: py4j looks at each character of a string with escapes, and at each byte of an array, in Python.
    """
    jvm = java(spark)
    out = jvm.java.io.ByteArrayOutputStream()
    coded = jvm.java.util.Base64.getEncoder().wrap(out)
    jvm.org.apache.commons.io.IOUtils.writeLines(lines, "\n", coded, "UTF-8")
    coded.close()
    return base64.b64decode(out.toString("ISO-8859-1")).decode()
