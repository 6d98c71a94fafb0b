"""Computes columns once for each distinct value of their input, where the files store these values in dictionaries.

A dictionary of a Parquet column has each value of a row group once, and the data pages have the number of each row's value. A row-wise
column that is computed from one other column has the same numbers; only its dictionary differs. So Spark computes it for the few
values of the dictionary, and the numbers are copied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backfill_core.file_copies.computed_parts import repeats
from backfill_spark.file_copies.footers import Footer
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.own_classes import bring_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS: Final = "org.apache.parquet.hadoop.BackfillDictionaries"
NEIGHBOUR: Final = "org.apache.parquet.hadoop.ParquetFileWriter"

VALUES_MAX = 100_000
"""Maximum values that files share: one task of Spark computes them, and they are kept in memory."""

KEPT_MAX = 10_000
"""Maximum values that are kept for later files."""

OutputFile = Callable[[str], Any]
"""Returns Parquet's output file of a path or URI, a Java object."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """The dictionaries of one column of a file."""

    footer: Footer
    java: Any


@dataclass(frozen=True, slots=True)
class SharedValues:
    """The distinct values of some files. Thread-safe once `read` has ended."""

    java: Any
    members: list[int]
    """Indexes of the files."""

    @property
    def is_small(self) -> bool:
        """True if the values and their columns may stay in memory for later files."""
        return int(self.java.size()) <= KEPT_MAX

    def write(self, path: str, output: OutputFile) -> None:
        """Write the values as the rows of a file, with the schema and the metadata of their files."""
        self.java.write(output(path))

    def read(self, computed: Footer) -> None:
        """Read a label and columns that were computed for these rows."""
        self.java.read(computed.file, computed.names[0])

    def take(self, file: Distinct) -> bool:
        """Let another file use the columns that were read; return false if one of its values, its schema or its metadata differs."""
        return bool(self.java.take(file.java))


class Dictionaries:
    """Reads dictionaries, and writes columns that were computed from them. Thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        """Bring the Java class; without it, no file has dictionaries."""
        brought, self._conf = _brought(spark), hadoop_conf(spark)
        self._options = java(spark).org.apache.parquet.HadoopReadOptions.builder
        ours: Any = java(spark).org.apache.parquet.hadoop.BackfillDictionaries
        self._ours = None if brought is None else ours

    def of(self, footer: Footer, inputs: Collection[str]) -> Distinct | None:
        """Return the dictionaries of a file's only input column; `None` if it has none, or if few values repeat.

        Args:
            footer: The file.
            inputs: Physical names of the columns from which columns are computed; one that the file lacks is null.

        Raises:
            JAVA_ERRORS: the storage failed, or the file is damaged.
        """
        # Spark finds columns of files in any case, unless the session forbids it.
        folded = {name.lower() for name in inputs}
        read = [name for name in footer.names if name.lower() in folded]
        if self._ours is None or len(read) != 1:
            return None
        # Options have the codecs, of which only one thread may use each.
        opened = self._ours.open(footer.file, self._options(self._conf).build(), read[0])
        if opened is None or not repeats(footer.groups, [int(opened.size(at)) for at in range(len(footer.groups))]):
            return None
        return Distinct(footer, opened)

    def shared(self, files: Sequence[Distinct], most: int = VALUES_MAX) -> list[SharedValues]:
        """Return the values of files; files share them if they follow each other, and have the same schema and metadata."""
        assert self._ours is not None or not files  # it opened them
        found = list[SharedValues]()
        for at, file in enumerate(files):
            if not found or not found[-1].java.add(file.java, most):
                java = self._ours.values()
                java.add(file.java, most)
                found.append(SharedValues(java, []))
            found[-1].members.append(at)
        return found

    def write_columns(self, values: Distinct, computed: Footer, folder: str, output: OutputFile) -> list[str] | None:
        """Write columns for all rows of a file, one file for each row group; return their names, or `None` if that is not possible.

        Args:
            values: The dictionaries of the file, whose `SharedValues` are read.
            computed: A label and the columns, for these values.
            folder: Path or URI of the folder.
            output: Returns the files of Parquet.

        Raises:
            JAVA_ERRORS: the storage failed, or the file is damaged.
        """
        names = [f"{at}.parquet" for at in range(len(values.footer.groups))]
        for at, name in enumerate(names):
            if not values.java.writeColumns(at, output(f"{folder}/{name}"), computed.metadata.java):
                return None
        return names


def _brought(spark: SparkSession) -> Any | None:
    """Bring the class; return what opens dictionaries, or `None`."""
    try:
        return bring_class(
            spark, CLASS, neighbour=NEIGHBOUR, source=Path(__file__).with_name("BackfillDictionaries.java")
        )
    except JAVA_ERRORS as error:
        logging.getLogger(__name__).warning("columns are computed for each row: %s", first_line(error))
        return None
