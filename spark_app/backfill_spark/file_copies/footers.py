"""Parquet footers. Facts of a schema are read once and cached, because each JVM call is slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from backfill_core.file_copies.bounds import Path, Stored, Written
from backfill_core.file_copies.computed_parts import GroupBytes, Groups
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
"""Metadata key by which readers decide the calendar of a file's days, for all columns together."""

CREATED_BY = "backfill.createdBy"
"""Metadata key for the writer of copied chunks, because Parquet overwrites `created_by` in a new footer."""

SCHEMAS_MAX = 4
"""Number of cached schemas: work alternates between the files of the source and their copies."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column."""

    at: int
    """Its index in the schema, and the index of its chunk in a row group."""

    path: Path
    java: Any
    """Its path as a Java object."""


@dataclass(frozen=True, slots=True)
class FileSchema:
    """Facts of a schema. Files of a table mostly share one schema, and each JVM call is slow."""

    java: Any
    names: tuple[str, ...]
    """Names of top-level columns, in their order."""

    leaves: tuple[Leaf, ...]
    stored: StoredColumns
    """Physical types of the columns outside of lists."""

    has_int96: bool


class FooterMetadata:
    """Key-value metadata of a file's footer."""

    def __init__(self, metadata: Any) -> None:
        """Read all metadata with one JVM call."""
        self.java: Any = metadata.getKeyValueMetaData()
        self._metadata, self._text = metadata, str(self.java.toString())

    def __contains__(self, name: str) -> bool:
        """Return True if a key exists; calls into the JVM only if it may exist."""
        return name in self._text and bool(self.java.containsKey(name))

    @cached_property
    def has_old_days(self) -> bool:
        """See `Footer.has_old_days`."""
        return any(name in self for name in OLD_CALENDAR) or str(self._spark or "3") < "3"

    @cached_property
    def creator(self) -> str:
        """Library that wrote the chunks."""
        return str(self.java.get(CREATED_BY) if CREATED_BY in self else self._metadata.getCreatedBy())

    @cached_property
    def _spark(self) -> str | None:
        return self.java.get(WRITER) if WRITER in self else None

    def written(self, columns: StoredColumns) -> Written:
        """Return facts about the writer of a file with this metadata."""
        by_spark = self._spark is not None and not self.has_old_days
        # The Parquet library of Spark 3 and later writes no bounds for chunks with NaN. Other engines copy Spark's metadata keys.
        return Written(columns, by_spark, by_spark and self.creator.startswith(JAVA_LIBRARY))


class Footer:
    """Footer of one file; not thread-safe. `file` and `java` are Java objects: the file, and its footer."""

    def __init__(self, path: str, schema: FileSchema, rows: int, *, file: Any, java: Any, metadata: Any) -> None:
        """Store the results of `Footers.read`; the last three are Java objects."""
        self.path, self.schema, self.rows = path, schema, rows
        self.file, self.java, self._metadata = file, java, metadata

    @property
    def size_bytes(self) -> int:
        """Size of the file in its file system."""
        return int(self.file.getLength())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of top-level columns."""
        return self.schema.names

    @property
    def has_int96(self) -> bool:
        """True if the file has INT96 timestamps, for which footers contain no statistics."""
        return self.schema.has_int96

    @property
    def leaves(self) -> tuple[Path, ...]:
        """Paths of all primitive columns."""
        return tuple(leaf.path for leaf in self.schema.leaves)

    @cached_property
    def groups(self) -> Groups:
        """Number of rows of each row group."""
        return tuple(int(block.getRowCount()) for block in items(self.java.getBlocks()))

    @property
    def places(self) -> tuple[GroupBytes, ...]:
        """Places of its row groups."""
        blocks = items(self.java.getBlocks())
        return tuple(GroupBytes(int(block.getStartingPos()), int(block.getCompressedSize())) for block in blocks)

    @property
    def label(self) -> int | None:
        """The value of its first column if all its rows have the same number there; `None` otherwise."""
        if not self.rows:
            return None
        chunks = [block.getColumns().get(0).getStatistics() for block in items(self.java.getBlocks())]
        if not all(chunk.hasNonNullValue() for chunk in chunks):
            return None
        values = {int(value) for chunk in chunks for value in (chunk.genericGetMin(), chunk.genericGetMax())}
        return values.pop() if len(values) == 1 else None

    @cached_property
    def metadata(self) -> FooterMetadata:
        """Key-value metadata of the footer."""
        return FooterMetadata(self._metadata)

    @property
    def has_old_days(self) -> bool:
        """True if its days use the calendar of Spark 2 and earlier."""
        return self.metadata.has_old_days

    @property
    def written(self) -> Written:
        """Facts about the writer of its values."""
        return self.metadata.written(self.schema.stored)


class Footers:
    """Reader of footers, in the JVM of a session. Thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        """Prepare the reader options of the session."""
        jvm, self._conf = java(spark), hadoop_conf(spark)
        parquet: Any = jvm.org.apache.parquet
        self._schemas: tuple[FileSchema, ...] = ()
        # Without options, each reader parses Hadoop's configuration again, which takes most of its time.
        self._options = parquet.HadoopReadOptions.builder
        self.options: Any = self._options(self._conf).build()
        # Resolved once: each reference to a class or a static method is a call into the JVM.
        self._path, self._from_path = jvm.org.apache.hadoop.fs.Path, parquet.hadoop.util.HadoopInputFile.fromPath
        self._open, self._column_path = parquet.hadoop.ParquetFileReader.open, parquet.hadoop.metadata.ColumnPath.get

    def read(self, path: str) -> Footer | None:
        """Read a file's footer; `None` if the file is encrypted, even if its key is known.

        Raises:
            JAVA_ERRORS: Parquet or the storage failed; also for a truncated file, which has no footer.
        """
        file = self._from_path(self._path(path), self._conf)
        try:
            reader = self._open(file, self.options)
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
        schema = self.schema_of(metadata)
        return Footer(path, schema, rows, file=file, java=footer, metadata=metadata)

    def separates(self, footer: Footer, split_bytes: int) -> bool:
        """Return whether splits of a file contain its row groups one by one, in their order, by Parquet's own rule.

        Parquet decides by raw fields of the footer, which some writers fill wrongly; `Footer.places` cannot show them.

        Raises:
            JAVA_ERRORS: the storage failed.
        """
        before = 0
        for rows, place in zip(footer.groups, footer.places, strict=True):
            first = place.middle // split_bytes * split_bytes
            options = self._options(self._conf).withRange(first, first + split_bytes).build()
            with closing(self._open(footer.file, options)) as reader:
                found = [int(block.getRowIndexOffset()) for block in items(reader.getFooter().getBlocks())]
            if found != [before]:
                return False
            before += rows
        return True

    def schema_of(self, metadata: Any) -> FileSchema:
        """Return the schema in a footer's metadata, a Java object."""
        schema = metadata.getSchema()
        for cached in self._schemas:
            if cached.java.equals(schema):
                return cached
        names = tuple(str(field.getName()) for field in items(schema.getFields()))
        paths = [column.getPath() for column in items(schema.getColumns())]
        leaves = tuple(Leaf(at, tuple(map(str, path)), self._column_path(path)) for at, path in enumerate(paths))
        facts = FileSchema(schema, names, leaves, stored_columns(schema), " int96 " in str(schema.toString()))
        self._schemas = (facts, *self._schemas)[:SCHEMAS_MAX]
        return facts


def stored_columns(schema: Any) -> StoredColumns:
    """Return the physical types of the columns of a Java schema that are outside of lists."""
    return tuple(_stored(schema))


def _stored(schema: Any) -> Iterator[tuple[Path, Stored]]:
    for column in items(schema.getColumns()):
        if not column.getMaxRepetitionLevel():
            kind = column.getPrimitiveType()
            logical = kind.getLogicalTypeAnnotation()
            name = str(kind.getPrimitiveTypeName())
            path = tuple(str(name) for name in column.getPath())
            yield path, Stored(name, "" if logical is None else str(logical.toString()))
