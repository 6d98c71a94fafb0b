"""Many Java objects in one call: each call from Python into the JVM costs a tenth of a millisecond, and a table has 100,000 files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


def static_method(spark: SparkSession, owner: str, name: str) -> Any:
    """Return a public static Java method of one argument as a `java.util.function.Function`; it has no overloads."""
    jvm: Any = spark._jvm
    java = (
        jvm.py4j.reflection.ReflectionUtil
    )  # finds classes where py4j itself does, also those that Spark loaded later
    (method,) = (one for one in java.classForName(owner).getMethods() if one.getName() == name)
    handles = jvm.java.lang.invoke
    function = java.classForName("java.util.function.Function")
    return handles.MethodHandleProxies.asInterfaceInstance(
        function, handles.MethodHandles.publicLookup().unreflect(method)
    )


def delta_actions(spark: SparkSession, lines: Sequence[str]) -> Any:
    """Return a `java.util.List` of Delta's actions, one for each line of JSON as a commit has it, in their order."""
    jvm: Any = spark._jvm
    text = jvm.java.io.BufferedReader(jvm.java.io.StringReader("\n".join(lines)))
    parse = static_method(spark, "org.apache.spark.sql.delta.actions.Action", "fromJson")
    return text.lines().map(parse).toList()
