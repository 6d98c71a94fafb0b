"""Bulk transfer of Java objects: each call from Python into the JVM costs a tenth of a millisecond, and a table may have 100,000 files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_spark.jvm.gateway import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


BUFFER_BYTES = 2**20
"""Size of Java's buffer, which is written at once."""


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


class TextExchange:
    """Transfers strings from Java by a temporary file, because py4j processes each character of a string with escapes in Python.

    The file has no name, and only the strings of one call.
    """

    def __init__(self, spark: SparkSession) -> None:
        """Create the file; Java runs on this machine.

        Raises:
            OSError: the temporary folder has no space.
            JAVA_ERRORS: the same for Java.
        """
        jvm = java(spark)
        self._write_lines = jvm.org.apache.commons.io.IOUtils.writeLines
        self._file, name = tempfile.mkstemp(prefix="backfill-exchange-")
        try:
            stream = jvm.java.io.FileOutputStream(name)
        finally:
            Path(name).unlink()
        self._channel, self._out = stream.getChannel(), jvm.java.io.BufferedOutputStream(stream, BUFFER_BYTES)

    def text_of(self, lines: Any) -> str:
        """Return the strings of a `java.util.Collection`, each followed by a line feed."""
        self._channel.truncate(0)
        self._write_lines(lines, "\n", self._out, "UTF-8")
        self._out.flush()
        size = os.fstat(self._file).st_size
        text = bytearray()
        while len(text) < size:
            text += os.pread(self._file, size - len(text), len(text))
        return text.decode()

    def close(self) -> None:
        """Remove the file."""
        os.close(self._file)
        self._out.close()
