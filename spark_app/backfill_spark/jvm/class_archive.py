"""A class archive: what the JVM loads at every start, verified and laid out once (Java's class-data sharing).

Half of the time from the start of a driver to its first seal is Java reading and verifying 20,000 classes of Spark and
Delta. An archive of them is mapped into memory instead. It only ever saves time: a JVM that cannot use it, because the
Java, a jar or the class path is another one, loads the classes as before and says nothing.
`driver/class_archive_training.py` makes the archive.
"""

from __future__ import annotations

from pathlib import Path

import pyspark

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
NAME = "classes.jsa"
QUIET = "-Xlog:cds*=off"


def path_of(jars_dir: Path | None) -> Path:
    """Return where the archive of a folder of jars lies, or that of the image, whose jars are Spark's own."""
    return (jars_dir or SPARK_JARS).resolve() / NAME


def java_option(jars_dir: Path | None) -> str:
    """Return the JVM's options for the archive that is there; empty when there is none."""
    archive = path_of(jars_dir)
    return f"-XX:SharedArchiveFile={archive} {QUIET}" if archive.is_file() else ""
