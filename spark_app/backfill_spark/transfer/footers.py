"""What the footer of a Parquet file says, and files with another footer over the same column chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from backfill_core.phases.accounting import check_read
from backfill_core.transfer.bounds import Path, Stored, Written
from backfill_core.transfer.grafting import Groups, fits
from backfill_core.transfer.ways import Projected
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.failures import NO_KEY
from backfill_spark.jvm.gateway import hadoop_conf, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_ENCRYPTED = "UNENCRYPTED"
JAVA_LIBRARY = "parquet-mr version "
StoredColumns = tuple[tuple[Path, Stored], ...]
OLD_SCHEMAS = ("ARROW:schema", "org.apache.spark.sql.parquet.row.metadata", "parquet.avro.schema")
"""The columns of a file in the words of its writer, some of which readers believe: wrong once a column is left out."""

OLD_CALENDAR = ("org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96")
WRITER = "org.apache.spark.version"
"""What readers ask for when they wonder which calendar the days of a file are of; it is said once for all columns."""

CREATED_BY = "backfill.createdBy"
"""Who wrote the chunks of a file that has another footer: that field of a footer is the library's own."""

SCHEMAS_MAX = 4
"""Of files that are looked at by turns: those of the source, and their copies."""

ROW_GROUP_BYTES, PADDING_BYTES = 128 << 20, 8 << 20
"""Parquet's own numbers; a group is copied as it is."""


@dataclass(frozen=True, slots=True)
class Footer:
    """Of one file."""

    path: str

    rows: int
    columns: int
    """Top-level ones."""

    has_int96: bool
    """Has it times in the old form, of which no footer has statistics?"""

    has: Callable[[str], bool]
    """Is there a top-level column of this name?"""

    groups: Callable[[], Groups]
    """Rows of each row group."""

    leaves: Callable[[], tuple[Path, ...]]
    """Of all columns."""

    has_old_days: Callable[[], bool]
    """Are its days of the calendar that Spark had before its version 3?"""

    written: Callable[[], Written]
    """How its values were written."""

    file: Any
    """Java's, and what it says of the file; for `Footers` alone."""

    metadata: Any


@dataclass(frozen=True, slots=True)
class _Projection:
    """What becomes of the files of one schema; of Java, but for the way."""

    way: Projected
    original: Any
    schema: Any
    renamed: Mapping[str, Any]
    """Columns under another name by the path that they had, leaves only."""

    stored: StoredColumns
    """How a file that is projected stores its columns."""


@dataclass(frozen=True, slots=True)
class _Joined:
    """What becomes of files of one schema with computed columns of another one; of Java."""

    projection: _Projection
    computed: Any
    schema: Any
    descriptors: Mapping[str, Any]
    """Of leaves by their path."""

    stored: StoredColumns
    """How a file with both stores its columns."""


class Footers:
    """Reads and replaces footers, in the JVM of a session. From any thread.

    Parquet's own `ParquetRewriter` would do, but a column that it renames loses its logical type, and what is left of the
    schema that Arrow keeps in a file does not fit any more.
    """

    def __init__(self, spark: SparkSession, *, local: bool) -> None:
        """Take the session; `local`: the files are this machine's."""
        self._jvm, self._conf, self._local = java(spark), hadoop_conf(spark), local
        self._parquet: Any = self._jvm.org.apache.parquet
        self._known: _Projection | None = None
        self._known_join: _Joined | None = None
        self._known_columns: tuple[tuple[Any, tuple[tuple[Path, ...], StoredColumns]], ...] = ()
        # Without them each reader would parse Hadoop's settings again, which takes longer than all else that it does.
        self._options = self._parquet.HadoopReadOptions.builder(self._conf).build()

    def read(self, path: str) -> Footer | None:
        """Read a file's footer; a file that was cut off has none. None: the file is encrypted, with or without a key that is known.

        Raises:
            Whatever Parquet or the storage say (`JAVA_ERRORS`).
        """
        file = self._input(path)
        try:
            reader = self._reader(file)
        except JAVA_ERRORS as error:
            if is_a(error, NO_KEY):
                return None
            raise
        try:
            footer = reader.getFooter()
            metadata: Any = footer.getFileMetaData()
            if str(metadata.getEncryptionType()) != NOT_ENCRYPTED:
                return None
            schema = metadata.getSchema()
            return Footer(
                path=path,
                rows=int(reader.getRecordCount()),
                columns=schema.getFieldCount(),
                has_int96=" int96 " in str(schema.toString()),
                has=schema.containsField,
                groups=partial(_groups, footer),
                leaves=partial(self._leaves, schema),
                has_old_days=partial(_has_old_days, metadata),
                written=partial(self._written, metadata),
                file=file,
                metadata=footer,
            )
        finally:
            reader.close()

    def _leaves(self, schema: Any) -> tuple[Path, ...]:
        return self._columns_of(schema)[0]

    def _written(self, metadata: Any) -> Written:
        return _written_by(metadata, self._columns_of(metadata.getSchema())[1])

    def _columns_of(self, schema: Any) -> tuple[tuple[Path, ...], StoredColumns]:
        """Return the leaves of one schema, and how those in no list are stored.

        Files of a table mostly have the same, and each question to Java costs.
        """
        for known, columns in self._known_columns:
            if known.equals(schema):
                return columns
        leaves = tuple(tuple(map(str, path)) for path in _items(schema.getPaths()))
        found = leaves, tuple(_stored(schema))
        self._known_columns = ((schema, found), *self._known_columns)[:SCHEMAS_MAX]
        return found

    def project(self, source: Footer, target: str, way: Projected) -> Written:
        """Copy the column chunks of a file into one that does not exist, without those and under the names that `way` says.

        Returns:
            How the values of the copy were written; it is not read for that.

        Raises:
            Whatever Parquet or the storage say (`JAVA_ERRORS`).
        """
        metadata: Any = source.metadata.getFileMetaData()
        projection = self._projection(metadata.getSchema(), way)
        with closing(source.file.newStream()) as stream, self._writing(target, projection.schema, metadata) as writer:
            for block in _items(source.metadata.getBlocks()):
                writer.appendRowGroup(stream, self._renamed_block(block, projection) if way.renamed else block, True)
        return _written_by(metadata, projection.stored)

    def graft(self, source: Footer, target: str, way: Projected, parts: Sequence[str]) -> Written | None:
        """Copy the column chunks of a file as `project` does, each row group with the chunks of its part beside them.

        Args:
            source: The file.
            target: Does not exist.
            way: What becomes of the file's own columns.
            parts: One file for each row group, with columns that the others do not have, and the rows of the group in their order.

        Returns:
            As `project`; None: nothing was done, for a part of several row groups, or with days of another calendar, cannot be joined.

        Raises:
            AccountingError: a part has other rows than its row group.
            Whatever Parquet or the storage say (`JAVA_ERRORS`).
        """
        opened = [self._opened(part) for part in parts]
        blocks = _items(source.metadata.getBlocks())
        for block, (_, found) in zip(blocks, opened, strict=True):
            rows, groups = int(block.getRowCount()), _groups(found)
            check_read(source.path, read=sum(groups), promised=rows)
            if not fits(rows, groups) or _has_old_days(found.getFileMetaData()):
                return None
        metadata: Any = source.metadata.getFileMetaData()
        projection = self._projection(metadata.getSchema(), way)
        joined = self._joined(projection, opened[0][1].getFileMetaData().getSchema())
        with closing(source.file.newStream()) as stream, self._writing(target, joined.schema, metadata) as writer:
            for block, (part, found) in zip(blocks, opened, strict=True):
                writer.startBlock(block.getRowCount())
                for chunk in _items(block.getColumns()):
                    path = str(chunk.getPath().toDotString())
                    if path.partition(".")[0] not in way.pruned:
                        column = projection.renamed.get(path)
                        kept = chunk if column is None else self._renamed_chunk(chunk, column)
                        self._append(writer, stream, kept, joined)
                with closing(part.newStream()) as computed:
                    for chunk in _items(found.getBlocks().get(0).getColumns()):
                        self._append(writer, computed, chunk, joined)
                writer.endBlock()
        return _written_by(metadata, joined.stored)

    def _append(self, writer: Any, stream: Any, chunk: Any, joined: _Joined) -> None:
        descriptor = joined.descriptors[str(chunk.getPath().toDotString())]
        writer.appendColumnChunk(descriptor, stream, chunk, None, None, None)

    def _joined(self, projection: _Projection, computed: Any) -> _Joined:
        known = self._known_join
        if known is None or known.projection is not projection or not known.computed.equals(computed):
            schema = projection.schema.union(computed)
            descriptors = {".".join(one.getPath()): one for one in schema.getColumns()}
            known = self._known_join = _Joined(projection, computed, schema, descriptors, tuple(_stored(schema)))
        return known

    @contextmanager
    def _writing(self, target: str, schema: Any, metadata: Any) -> Iterator[Any]:
        """Yield a writer of a file with the words of another one, but for those about its columns."""
        writer = self._writer(target, schema)
        try:
            writer.start()
            yield writer
            words = self._jvm.java.util.HashMap(metadata.getKeyValueMetaData())
            for name in OLD_SCHEMAS:
                words.remove(name)
            words.putIfAbsent(CREATED_BY, str(metadata.getCreatedBy()))
            writer.end(words)
        except BaseException:
            with suppress(*JAVA_ERRORS):
                writer.close()
            raise

    def _opened(self, path: str) -> tuple[Any, Any]:
        """Return a file and its footer, both Java's."""
        file = self._input(path)
        reader = self._reader(file)
        try:
            return file, reader.getFooter()
        finally:
            reader.close()

    def _reader(self, file: Any) -> Any:
        return self._parquet.hadoop.ParquetFileReader.open(file, self._options)

    def _input(self, path: str) -> Any:
        return self._parquet.hadoop.util.HadoopInputFile.fromPath(self._jvm.org.apache.hadoop.fs.Path(path), self._conf)

    def _writer(self, path: str, schema: Any) -> Any:
        hadoop = self._parquet.hadoop
        if self._local:
            # Hadoop starts a process for each file that it makes (ADR 0014), and writes its checksums beside it.
            local = str(self._jvm.org.apache.hadoop.fs.Path(path).toUri().getPath())
            file = self._parquet.io.LocalOutputFile(self._jvm.java.io.File(local).toPath())
        else:
            file = hadoop.util.HadoopOutputFile.fromPath(self._jvm.org.apache.hadoop.fs.Path(path), self._conf)
        create = getattr(hadoop, "ParquetFileWriter$Mode").CREATE
        return hadoop.ParquetFileWriter(file, schema, create, ROW_GROUP_BYTES, PADDING_BYTES)

    def _projection(self, schema: Any, way: Projected) -> _Projection:
        """Return what becomes of files of one schema: those of a table mostly have the same, and each question to Java costs."""
        known = self._known
        if known is None or known.way != way or not known.original.equals(schema):
            projected = self._schema(schema, frozenset(way.pruned), dict(way.renamed))
            columns = {".".join(one.getPath()): one for one in projected.getColumns()}
            renamed = {
                path: columns[_renamed_path(path, dict(way.renamed))]
                for path in (".".join(one.getPath()) for one in schema.getColumns())
                if path.partition(".")[0] in dict(way.renamed)
            }
            known = self._known = _Projection(way, schema, projected, renamed, tuple(_stored(projected)))
        return known

    def _renamed_block(self, block: Any, projection: _Projection) -> Any:
        """Return what is said of a row group, under the names that its columns get."""
        result = self._parquet.hadoop.metadata.BlockMetaData()
        result.setRowCount(block.getRowCount())
        for chunk in _items(block.getColumns()):
            column = projection.renamed.get(str(chunk.getPath().toDotString()))
            result.addColumn(chunk if column is None else self._renamed_chunk(chunk, column))
        return result

    def _schema(self, schema: Any, pruned: frozenset[str], renamed: dict[str, str]) -> Any:
        fields = self._jvm.java.util.ArrayList()
        for field in schema.getFields():
            name = str(field.getName())
            if name not in pruned:
                fields.add(self._renamed_field(field, renamed[name]) if name in renamed else field)
        return self._parquet.schema.MessageType(schema.getName(), fields)

    def _renamed_field(self, field: Any, name: str) -> Any:
        """Return a column under another name, with all else that it has."""
        types, repetition = self._parquet.schema.Types, field.getRepetition()
        if field.isPrimitive():
            primitive = field.asPrimitiveType()
            built = types.primitive(primitive.getPrimitiveTypeName(), repetition)
            built = built.length(primitive.getTypeLength()) if primitive.getTypeLength() else built
        else:
            built = types.buildGroup(repetition)
            for child in field.asGroupType().getFields():
                built = built.addField(child)
        annotation, number = field.getLogicalTypeAnnotation(), field.getId()
        built = built if annotation is None else getattr(built, "as")(annotation)
        return (built if number is None else built.id(number.intValue())).named(name)

    def _renamed_chunk(self, chunk: Any, column: Any) -> Any:
        """Return what is said of a chunk, for its column under another name."""
        metadata = self._parquet.hadoop.metadata
        return metadata.ColumnChunkMetaData.get(
            metadata.ColumnPath.get(column.getPath()),
            column.getPrimitiveType(),
            chunk.getCodec(),
            chunk.getEncodingStats(),
            chunk.getEncodings(),
            chunk.getStatistics(),
            chunk.getFirstDataPageOffset(),
            chunk.getDictionaryPageOffset(),
            chunk.getValueCount(),
            chunk.getTotalSize(),
            chunk.getTotalUncompressedSize(),
        )


def _stored(schema: Any) -> Iterator[tuple[Path, Stored]]:
    for column in _items(schema.getColumns()):
        if not column.getMaxRepetitionLevel():
            kind = column.getPrimitiveType()
            logical = kind.getLogicalTypeAnnotation()
            name = str(kind.getPrimitiveTypeName())
            path = tuple(str(one) for one in column.getPath())
            yield path, Stored(name, "" if logical is None else str(logical.toString()))


def _written_by(metadata: Any, columns: StoredColumns) -> Written:
    """Return how the values of a file, and of those that have its words and its chunks, were written."""
    words = metadata.getKeyValueMetaData()
    by_spark = words.containsKey(WRITER) and not _has_old_days(metadata)
    # Since its version 3 Spark has a library that writes no bounds where a NaN is; other engines use Spark's words, too.
    by_library = str(words.get(CREATED_BY) or metadata.getCreatedBy()).startswith(JAVA_LIBRARY)
    return Written(columns, by_spark, by_spark and by_library)


def _groups(footer: Any) -> Groups:
    return tuple(int(block.getRowCount()) for block in _items(footer.getBlocks()))


def _items(listed: Any) -> list[Any]:
    """Return the items of a Java list: an iterator of Java's ends by an exception, which takes pyspark milliseconds to read."""
    return [listed.get(at) for at in range(listed.size())]


def _has_old_days(metadata: Any) -> bool:
    words = metadata.getKeyValueMetaData()
    return any(words.containsKey(name) for name in OLD_CALENDAR) or str(words.get(WRITER) or "3") < "3"


def _renamed_path(path: str, renamed: Mapping[str, str]) -> str:
    top, dot, below = path.partition(".")
    return f"{renamed[top]}{dot}{below}"
