"""Names of Java packages that are resolved without a call to the JVM are packages, and their classes are found in them."""

import pytest
from py4j.java_gateway import JavaClass, JavaPackage
from py4j.protocol import Py4JJavaError

from backfill_spark.jvm.gateway import PACKAGES, java


def at(place, name):
    for part in name.split("."):
        place = getattr(place, part)
    return place


def test_each_package_exists_before_the_jvm_is_asked(spark):
    """Each call to the JVM costs time at the start."""
    for package in PACKAGES:
        place = java(spark)
        for part in package.split("."):
            assert part in vars(place), package
            place = vars(place)[part]
        assert place._fqn == package  # noqa: SLF001 - py4j's only name of it


def test_no_package_is_a_class(spark):
    """A class that is treated as a package cannot be called."""
    find = java(spark).py4j.reflection.ReflectionUtil.classForName
    for package in PACKAGES:
        parts = package.split(".")
        for length in range(1, len(parts) + 1):
            with pytest.raises(Py4JJavaError, match="ClassNotFoundException"):
                find(".".join(parts[:length]))


@pytest.mark.parametrize("name", ["java.util.ArrayList", "io.delta.kernel.Table", "org.apache.hadoop.fs.Path"])
def test_classes_are_found_in_packages(spark, name):
    """A prepared package must behave like one that the JVM resolved."""
    assert isinstance(at(java(spark), name), JavaClass)
    assert at(java(spark), name)._fqn == name  # noqa: SLF001 - py4j's only name of it
    assert at(java(spark), name) is at(java(spark), name)


def test_an_unknown_class_is_not_kept(spark):
    """The driver compiles some classes after it has looked for them."""
    assert isinstance(java(spark).java.util.NoSuchClass, JavaPackage)
    assert "NoSuchClass" not in vars(java(spark).java.util)


def test_unlisted_names_are_resolved_by_the_jvm(spark):
    """The list is a shortcut, not a limit."""
    assert isinstance(at(java(spark), "org.apache.spark.launcher"), JavaPackage)
    assert isinstance(java(spark).PythonUtils, JavaClass)
