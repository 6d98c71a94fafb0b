"""Java packages that Python knows by name, so that the JVM need not look through 350 jars for a class of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = (
    "io.delta.kernel.data",
    "io.delta.kernel.defaults.engine.hadoopio",
    "io.delta.kernel.defaults.internal.parquet",
    "io.delta.kernel.expressions",
    "io.delta.kernel.internal.actions",
    "io.delta.kernel.internal.data",
    "io.delta.kernel.internal.util",
    "io.delta.kernel.utils",
    "io.delta.tables",
    "java.io",
    "java.lang.invoke",
    "java.net",
    "java.util",
    "org.apache.commons.io",
    "org.apache.hadoop.fs.permission",
    "org.apache.parquet.hadoop.util",
    "org.apache.spark.sql.catalyst.trees",
    "org.apache.spark.sql.classic",
    "org.apache.spark.sql.delta",
    "org.apache.spark.sql.internal",
    "org.apache.spark.util",
    "py4j.reflection",
    "scala.jdk.javaapi",
)
"""What the driver and pyspark ask for again and again. pyspark asks for `py4j.reflection` 14 times for each Java error."""


def know_packages(spark: SparkSession) -> None:
    """Have `PACKAGES` and those above them answered in Python, for the life of the session's JVM.

    py4j asks the JVM about each part of a dotted name, each time it is said. The JVM looks for a class `io`, then for a
    class `io` in each package that pyspark has imported, in every jar: 5 ms for the first part, for a package that
    everybody knows to be one.
    """
    view: Any = spark._jvm
    for package in PACKAGES:
        place, name = view, ""
        for part in package.split("."):
            name = f"{name}.{part}".lstrip(".")
            place = vars(place).setdefault(part, JavaPackage(name, view._gateway_client, view._id))
