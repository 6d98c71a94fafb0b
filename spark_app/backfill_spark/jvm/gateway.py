"""The only access to Spark's Java side, which pyspark hides in private attributes. Java objects have the type `Any`."""

# ruff: noqa: SLF001 - only this file uses pyspark's private attributes

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass, JavaPackage
from pyspark import SparkConf, SparkContext

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PINNED_THREADS = (
    "Unset PYSPARK_PIN_THREAD, so that each Python thread has a separate Java thread, and build the session again."
)
"""Hint for a session that shares Java threads between Python threads, which mixes up job groups and active sessions."""

PACKAGES = (
    "io.delta.kernel.data",
    "io.delta.kernel.defaults.engine.hadoopio",
    "io.delta.kernel.defaults.internal.parquet",
    "io.delta.kernel.expressions",
    "io.delta.kernel.internal.actions",
    "io.delta.kernel.internal.data",
    "io.delta.kernel.internal.deletionvectors",
    "io.delta.kernel.internal.util",
    "io.delta.kernel.types",
    "io.delta.kernel.utils",
    "io.delta.tables",
    "java.io",
    "java.lang.invoke",
    "java.net",
    "java.util",
    "java.util.zip",
    "org.apache.commons.io",
    "org.apache.commons.io.output",
    "org.apache.hadoop.fs.permission",
    "org.apache.parquet.hadoop.rewrite",
    "org.apache.parquet.hadoop.util",
    "org.apache.spark.sql.catalyst.trees",
    "org.apache.spark.sql.classic",
    "org.apache.spark.sql.delta",
    "org.apache.spark.sql.delta.commands.cdc",
    "org.apache.spark.sql.internal",
    "org.apache.spark.util",
    "py4j.reflection",
    "scala.jdk.javaapi",
)
"""Packages that the driver and pyspark look up often; pyspark looks up `py4j.reflection` 14 times for each Java error."""

CLASSES = (
    "PythonUtils",
    "functions",
    "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.functions",
)
"""Names by which pyspark looks up classes for each expression and each frame; for the short ones the JVM searches many packages."""


def java(spark: SparkSession) -> Any:
    """Return Java's packages and classes by name."""
    return spark._jvm


def start_java(conf: SparkConf) -> Any:
    """Start the JVM of the next session if it does not run yet; return its packages and classes by name."""
    SparkContext._ensure_initialized(conf=conf)
    return SparkContext._jvm


def java_session(spark: SparkSession) -> Any:
    """Return Spark's own session."""
    return spark._jsparkSession


def java_context(spark: SparkSession) -> Any:
    """Return Spark's own context."""
    return spark.sparkContext._jsc


def activate(spark: SparkSession) -> None:
    """Make a session the active session of this thread. Each thread of the driver does so before it uses Spark.

    Delta and Spark's parser use the settings of the thread's active session. Otherwise they use the default session, which
    may belong to the caller. Java stores the active session per thread, and each Python thread has a separate Java thread.
    """
    java(spark).org.apache.spark.sql.classic.SparkSession.setActiveSession(java_session(spark))


@contextmanager
def activated(spark: SparkSession, *, afterwards: SparkSession) -> Iterator[None]:
    """Make a session the active session of this thread inside the block, and another one after it."""
    activate(spark)
    try:
        yield
    finally:
        activate(afterwards)


def belongs_to(spark: SparkSession, dataset: Any) -> bool:
    """Return True if a Java Dataset is analysed and executed in this session."""
    return bool(dataset.sparkSession().equals(java_session(spark)))


def java_frame(frame: DataFrame) -> Any:
    """Return Spark's own frame."""
    return frame._jdf


def java_column(column: Column) -> Any:
    """Return Spark's own column."""
    return column._jc


def hadoop_conf(spark: SparkSession) -> Any:
    """Return the Hadoop configuration of a session."""
    return java_context(spark).hadoopConfiguration()


def python_gateway(spark: SparkSession | None = None) -> Any:
    """Return py4j's gateway to the JVM of a session or of this process; `None` if there is none."""
    return SparkContext._gateway if spark is None else getattr(getattr(spark, "_sc", None), "_gateway", None)


def observed(observation: Any) -> Any:
    """Return Spark's own observation."""
    return observation._jo


def items(listed: Any) -> list[Any]:
    """Return the items of a Java list by index: a Java iterator ends with an exception, which takes pyspark milliseconds to read."""
    return [listed.get(index) for index in range(listed.size())]


class _KnownPackage(JavaPackage):  # type: ignore[misc]
    """A package that queries the JVM once for each of its classes."""

    def __getattr__(self, name: str) -> Any:
        """Return a class, and keep it; a package may still become a class, which the JVM loads later."""
        member = super().__getattr__(name)
        if isinstance(member, JavaClass):
            setattr(self, name, member)
        return member


def know_packages(spark: SparkSession) -> None:
    """Cache `CLASSES`, `PACKAGES` and their parent packages in Python, for the life of the session's JVM; other classes at their first use.

    py4j queries the JVM for each part of a dotted name at each use. The JVM searches every jar for a class `io`, then for a
    class `io` in each package that pyspark has imported. That takes 5 ms for the first part of a well-known package.
    """
    view = java(spark)
    for name in CLASSES:
        vars(view).setdefault(name, getattr(view, name))
    for package in PACKAGES:
        place, name = view, ""
        for part in package.split("."):
            name = f"{name}.{part}".lstrip(".")
            place = vars(place).setdefault(part, _KnownPackage(name, view._gateway_client, view._id))
