"""A class archive: the classes that the JVM loads at every start, verified and laid out once (Java's class-data sharing).

Half of the time from the start of a driver to its first seal, Java reads and verifies 20,000 classes of Spark and
Delta. An archive is mapped into memory instead. It only saves time. If Java, a jar or the class path changed, the JVM cannot
use the archive: it loads the classes as before, without a message. So a driver on a cluster logs that.
`driver/class_archive_training.py` creates the archive.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from backfill_spark.jvm.gateway import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
NAME = "classes.jsa"
QUIET = "-Xlog:cds*=off"
"""Turns off Java's messages: they would be on standard output, between the lines of the driver, and they do not name the jar."""

NAMED_MAX = 3


def path_of(jars_dir: Path | None) -> Path:
    """Return the path of the archive for a folder of jars; by default for the image, whose jars are in Spark's folder."""
    return (jars_dir or SPARK_JARS).resolve() / NAME


def java_option(jars_dir: Path | None) -> str:
    """Return the JVM options for an existing archive; empty if there is none."""
    archive = path_of(jars_dir)
    return f"-XX:SharedArchiveFile={archive} {QUIET}" if archive.is_file() else ""


def remember(jars_dir: Path | None, class_path: str) -> None:
    """Store the class path of an archive next to the archive, because Java compares it but does not report the difference."""
    _class_path_of(jars_dir).write_text(class_path, encoding="utf-8")


def warn_when_unused(spark: SparkSession, jars_dir: Path | None) -> None:
    """Log one line if the Java of a session runs without the archive."""
    lang = java(spark).java.lang
    pid, class_path = int(lang.ProcessHandle.current().pid()), str(lang.System.getProperty("java.class.path"))
    why = unused(pid, class_path, jars_dir)
    if why is not None:
        message = "Java does not use the class archive, so this driver and its executors start more slowly: %s"
        logging.getLogger(__name__).warning(message, why)


def unused(pid: int, class_path: str, jars_dir: Path | None) -> str | None:
    """Return why a Java process runs without the archive; `None` if it uses the archive or the system does not show that."""
    archive = path_of(jars_dir)
    try:
        if not archive.is_file():
            return f"there is no archive at {archive}"
        if str(archive) in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace"):
            return None
    except OSError:
        return None
    try:
        made_with = _class_path_of(jars_dir).read_text(encoding="utf-8").split(":")
    except OSError:
        return "Java, a jar or the class path changed after the archive was made"
    return _difference(made_with, class_path.split(":"))


def _class_path_of(jars_dir: Path | None) -> Path:
    return path_of(jars_dir).with_suffix(".path")


def _difference(then: list[str], now: list[str]) -> str:
    added, removed = [path for path in now if path not in then], [path for path in then if path not in now]
    if added:
        return f"{_named(added)} was added to the class path after the archive was made"
    if removed:
        return f"{_named(removed)} was removed from the class path after the archive was made"
    return f"{'Java or a jar' if then == now else 'the order of the class path'} changed after the archive was made"


def _named(paths: list[str]) -> str:
    more = len(paths) - NAMED_MAX
    shown = ", ".join(Path(path).name for path in paths[:NAMED_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
