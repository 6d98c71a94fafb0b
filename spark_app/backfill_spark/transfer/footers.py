"""What the footer of a Parquet file says. Of what Java is asked, most is asked once for all files of one schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from backfill_core.transfer.bounds import Path, Stored, Written
from backfill_core.transfer.grafting import Groups
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.failures import NO_KEY
from backfill_spark.jvm.gateway import hadoop_conf, items, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_ENCRYPTED = "UNENCRYPTED"
JAVA_LIBRARY = "parquet-mr version "
StoredColumns = tuple[tuple[Path, Stored], ...]
OLD_CALENDAR = ("org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96")
WRITER = "org.apache.spark.version"
"""What readers ask for when they wonder which calendar the days of a file are of; it is said once for all columns."""

CREATED_BY = "backfill.createdBy"
"""Who wrote the chunks of a file that has another footer: that field of a footer is the library's own."""

SCHEMAS_MAX = 4
"""Of files that are looked at by turns: those of the source, and their copies."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column that is no group."""

    at: int
    """Its place in the schema, and that of its chunk in a row group."""

    path: Path
    java: Any
    """Java's path of it."""


@dataclass(frozen=True, slots=True)
class FileSchema:
    """What is known of the files of one schema: those of a table mostly have the same, and each question to Java costs."""

    java: Any
    names: tuple[str, ...]
    """Of top-level columns, in their order."""

    leaves: tuple[Leaf, ...]
    stored: StoredColumns
    """How those in no list are stored."""

    has_int96: bool


class FileWords:
    """The words that the writer of a file left in its footer."""

    def __init__(self, metadata: Any) -> None:
        """Ask for all of them at once."""
        self.java: Any = metadata.getKeyValueMetaData()
        self._metadata, self._text = metadata, str(self.java.toString())

    def __contains__(self, name: str) -> bool:
        """Is there one of this name? Java is asked only where it may be."""
        return name in self._text and bool(self.java.containsKey(name))

    @cached_property
    def has_old_days(self) -> bool:
        """See `Footer.has_old_days`."""
        return any(name in self for name in OLD_CALENDAR) or str(self._spark or "3") < "3"

    @cached_property
    def creator(self) -> str:
        """The library that wrote the chunks."""
        return str(self.java.get(CREATED_BY) if CREATED_BY in self else self._metadata.getCreatedBy())

    @cached_property
    def _spark(self) -> str | None:
        return self.java.get(WRITER) if WRITER in self else None

    def written(self, columns: StoredColumns) -> Written:
        """Return how the values of a file that has these words were written."""
        by_spark = self._spark is not None and not self.has_old_days
        # Since its version 3 Spark has a library that writes no bounds where a NaN is; other engines use Spark's words, too.
        return Written(columns, by_spark, by_spark and self.creator.startswith(JAVA_LIBRARY))


class Footer:
    """Of one file; for one thread. `file` and `java` are Java's: the file itself, and the whole of its footer."""

    def __init__(self, path: str, schema: FileSchema, rows: int, *, file: Any, java: Any, metadata: Any) -> None:
        """Take what `Footers` read; the last three are Java's."""
        self.path, self.schema, self.rows = path, schema, rows
        self.file, self.java, self._metadata = file, java, metadata

    @property
    def size_bytes(self) -> int:
        """Of the file, as its file system has it."""
        return int(self.file.getLength())

    @property
    def names(self) -> tuple[str, ...]:
        """Top-level columns."""
        return self.schema.names

    @property
    def has_int96(self) -> bool:
        """Has it times in the old form, of which no footer has statistics?"""
        return self.schema.has_int96

    @property
    def leaves(self) -> tuple[Path, ...]:
        """All columns."""
        return tuple(one.path for one in self.schema.leaves)

    @cached_property
    def groups(self) -> Groups:
        """Rows of each row group."""
        return tuple(int(block.getRowCount()) for block in items(self.java.getBlocks()))

    @cached_property
    def words(self) -> FileWords:
        """Of its writer."""
        return FileWords(self._metadata)

    @property
    def has_old_days(self) -> bool:
        """Are its days of the calendar that Spark had before its version 3?"""
        return self.words.has_old_days

    @property
    def written(self) -> Written:
        """How its values were written."""
        return self.words.written(self.schema.stored)


class Footers:
    """Reads them, in the JVM of a session. From any thread."""

    def __init__(self, spark: SparkSession) -> None:
        """Take the session."""
        jvm, self._conf = java(spark), hadoop_conf(spark)
        parquet: Any = jvm.org.apache.parquet
        self._schemas: tuple[FileSchema, ...] = ()
        # Without them each reader would parse Hadoop's settings again, which takes longer than all else that it does.
        self._options = parquet.HadoopReadOptions.builder(self._conf).build()
        # Each name of a class and of a static method is a question to Java, whenever it is said.
        self._path, self._from_path = jvm.org.apache.hadoop.fs.Path, parquet.hadoop.util.HadoopInputFile.fromPath
        self._open, self._column_path = parquet.hadoop.ParquetFileReader.open, parquet.hadoop.metadata.ColumnPath.get

    def read(self, path: str) -> Footer | None:
        """Read a file's footer; a file that was cut off has none. None: the file is encrypted, with or without a key that is known.

        Raises:
            Whatever Parquet or the storage say (`JAVA_ERRORS`).
        """
        file = self._from_path(self._path(path), self._conf)
        try:
            reader = self._open(file, self._options)
        except JAVA_ERRORS as error:
            if is_a(error, NO_KEY):
                return None
            raise
        try:
            footer, rows = reader.getFooter(), int(reader.getRecordCount())
        finally:
            reader.close()
        metadata = footer.getFileMetaData()
        if str(metadata.getEncryptionType().toString()) != NOT_ENCRYPTED:
            return None
        schema = self._schema_of(metadata.getSchema())
        return Footer(path, schema, rows, file=file, java=footer, metadata=metadata)

    def _schema_of(self, schema: Any) -> FileSchema:
        for known in self._schemas:
            if known.java.equals(schema):
                return known
        names = tuple(str(one.getName()) for one in items(schema.getFields()))
        paths = [one.getPath() for one in items(schema.getColumns())]
        leaves = tuple(Leaf(at, tuple(map(str, path)), self._column_path(path)) for at, path in enumerate(paths))
        found = FileSchema(schema, names, leaves, stored_columns(schema), " int96 " in str(schema.toString()))
        self._schemas = (found, *self._schemas)[:SCHEMAS_MAX]
        return found


def stored_columns(schema: Any) -> StoredColumns:
    """Return how files of a schema, Java's, store the columns that are in no list."""
    return tuple(_stored(schema))


def _stored(schema: Any) -> Iterator[tuple[Path, Stored]]:
    for column in items(schema.getColumns()):
        if not column.getMaxRepetitionLevel():
            kind = column.getPrimitiveType()
            logical = kind.getLogicalTypeAnnotation()
            name = str(kind.getPrimitiveTypeName())
            path = tuple(str(one) for one in column.getPath())
            yield path, Stored(name, "" if logical is None else str(logical.toString()))
