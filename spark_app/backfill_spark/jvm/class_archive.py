"""A class archive: what the JVM loads at every start, verified and laid out once (Java's class-data sharing).

Half of the time from the start of a driver to its first seal is Java reading and verifying 20,000 classes of Spark and
Delta. An archive of them is mapped into memory instead. It only ever saves time: a JVM that cannot use it, because the
Java, a jar or the class path is another one, loads the classes as before and says nothing. So a driver on a cluster says it.
`driver/class_archive_training.py` makes the archive.
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
"""Java's words would be on standard output, between the lines of the driver, and do not name the jar."""

NAMED_MAX = 3


def path_of(jars_dir: Path | None) -> Path:
    """Return where the archive of a folder of jars lies, or that of the image, whose jars are Spark's own."""
    return (jars_dir or SPARK_JARS).resolve() / NAME


def java_option(jars_dir: Path | None) -> str:
    """Return the JVM's options for the archive that is there; empty when there is none."""
    archive = path_of(jars_dir)
    return f"-XX:SharedArchiveFile={archive} {QUIET}" if archive.is_file() else ""


def remember(jars_dir: Path | None, class_path: str) -> None:
    """Keep the class path that an archive is made with, beside it: Java compares it, and does not say what differs."""
    _class_path_of(jars_dir).write_text(class_path, encoding="utf-8")


def warn_when_unused(spark: SparkSession, jars_dir: Path | None) -> None:
    """Log one line when the Java of a session runs without the archive."""
    lang = java(spark).java.lang
    pid, class_path = int(lang.ProcessHandle.current().pid()), str(lang.System.getProperty("java.class.path"))
    why = unused(pid, class_path, jars_dir)
    if why is not None:
        words = "Java does not use the class archive, so this driver and its executors start more slowly: %s"
        logging.getLogger(__name__).warning(words, why)


def unused(pid: int, class_path: str, jars_dir: Path | None) -> str | None:
    """Return why a Java process runs without the archive, as far as is known; None: it has it, or the system does not say."""
    archive = path_of(jars_dir)
    try:
        if not archive.is_file():
            return f"there is none at {archive}"
        if str(archive) in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace"):
            return None
    except OSError:
        return None
    try:
        made_with = _class_path_of(jars_dir).read_text(encoding="utf-8").split(":")
    except OSError:
        return "Java, a jar or the class path is another one than when it was made"
    return _difference(made_with, class_path.split(":"))


def _class_path_of(jars_dir: Path | None) -> Path:
    return path_of(jars_dir).with_suffix(".path")


def _difference(then: list[str], now: list[str]) -> str:
    added, gone = [one for one in now if one not in then], [one for one in then if one not in now]
    if added:
        return f"the class path has {_named(added)}, and had not when it was made"
    if gone:
        return f"the class path had {_named(gone)} when it was made, and has not"
    return (
        f"{'Java or a jar is another one' if then == now else 'the class path has another order'} than when it was made"
    )


def _named(paths: list[str]) -> str:
    more = len(paths) - NAMED_MAX
    shown = ", ".join(Path(one).name for one in paths[:NAMED_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
