"""What the footer of a Parquet file says, and files with another footer over the same column chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from backfill_core.phases.accounting import check_read
from backfill_core.transfer.bounds import Path, Stored, Written
from backfill_core.transfer.grafting import Groups, fits
from backfill_core.transfer.ways import Projected
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.failures import NO_KEY
from backfill_spark.jvm.gateway import hadoop_conf, items, java

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
class _Leaf:
    """A column that is no group."""

    at: int
    """Its place in the schema, and that of its chunk in a row group."""

    path: Path
    java: Any
    """Java's path of it."""


@dataclass(frozen=True, slots=True)
class _Schema:
    """What is known of the files of one schema: those of a table mostly have the same, and each question to Java costs."""

    java: Any
    names: tuple[str, ...]
    """Of top-level columns, in their order."""

    leaves: tuple[_Leaf, ...]
    stored: StoredColumns
    """How those in no list are stored."""

    has_int96: bool


class _Words:
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
    """Of one file; for one thread."""

    def __init__(self, path: str, file: Any, java: Any, metadata: Any, schema: _Schema) -> None:
        """Take what `Footers` read, the most of it Java's."""
        self.path, self.file, self.java, self.schema = path, file, java, schema
        self._metadata = metadata

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
        return _groups(self.java)

    @property
    def rows(self) -> int:
        """Of the file."""
        return sum(self.groups)

    @cached_property
    def words(self) -> _Words:
        """Of its writer."""
        return _Words(self._metadata)

    @property
    def has_old_days(self) -> bool:
        """Are its days of the calendar that Spark had before its version 3?"""
        return self.words.has_old_days

    @property
    def written(self) -> Written:
        """How its values were written."""
        return self.words.written(self.schema.stored)


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A leaf under another name; of Java, but for the leaf."""

    leaf: _Leaf
    path: Any
    type: Any


@dataclass(frozen=True, slots=True)
class _Projection:
    """What becomes of the files of one schema."""

    way: Projected
    original: _Schema
    schema: Any
    """Java's, of the copies."""

    renamed: tuple[_Renamed, ...]
    stored: StoredColumns
    """How a copy stores its columns."""


@dataclass(frozen=True, slots=True)
class _Joined:
    """What becomes of files of one schema with computed columns of another one."""

    projection: _Projection
    computed: Any
    """Java's schema of them."""

    schema: Any
    taken: tuple[tuple[_Leaf, Any], ...]
    """The leaves of a file that stay, and Java's descriptors of them in a copy."""

    descriptors: Mapping[Path, Any]
    """Those of all leaves of a copy."""

    stored: StoredColumns
    """How a copy stores its columns."""


class Footers:
    """Reads and replaces footers, in the JVM of a session. From any thread.

    Parquet's own `ParquetRewriter` would do, but a column that it renames loses its logical type, and what is left of the
    schema that Arrow keeps in a file does not fit any more.
    """

    def __init__(self, spark: SparkSession, *, local: bool) -> None:
        """Take the session; `local`: the files are this machine's."""
        self._jvm, self._conf, self._local = java(spark), hadoop_conf(spark), local
        self._parquet: Any = self._jvm.org.apache.parquet
        self._projections: tuple[_Projection, ...] = ()
        self._joins: tuple[_Joined, ...] = ()
        self._schemas: tuple[_Schema, ...] = ()
        # Without them each reader would parse Hadoop's settings again, which takes longer than all else that it does.
        self._options = self._parquet.HadoopReadOptions.builder(self._conf).build()
        # Each name of a class and of a static method is a question to Java, whenever it is said.
        hadoop = self._parquet.hadoop
        self._path, self._from_path = self._jvm.org.apache.hadoop.fs.Path, hadoop.util.HadoopInputFile.fromPath
        self._open, self._file_writer = hadoop.ParquetFileReader.open, hadoop.ParquetFileWriter
        self._create = getattr(hadoop, "ParquetFileWriter$Mode").CREATE
        self._to_path, self._to_local = hadoop.util.HadoopOutputFile.fromPath, self._parquet.io.LocalOutputFile
        self._file, self._hash_map = self._jvm.java.io.File, self._jvm.java.util.HashMap
        self._column_path, self._chunk = hadoop.metadata.ColumnPath.get, hadoop.metadata.ColumnChunkMetaData.get

    def read(self, path: str) -> Footer | None:
        """Read a file's footer; a file that was cut off has none. None: the file is encrypted, with or without a key that is known.

        Raises:
            Whatever Parquet or the storage say (`JAVA_ERRORS`).
        """
        try:
            file, footer = self._opened(path)
        except JAVA_ERRORS as error:
            if is_a(error, NO_KEY):
                return None
            raise
        metadata = footer.getFileMetaData()
        if str(metadata.getEncryptionType().toString()) != NOT_ENCRYPTED:
            return None
        return Footer(path, file, footer, metadata, self._schema_of(metadata.getSchema()))

    def _schema_of(self, schema: Any) -> _Schema:
        for known in self._schemas:
            if known.java.equals(schema):
                return known
        names = tuple(str(one.getName()) for one in items(schema.getFields()))
        paths = [tuple(map(str, path)) for path in items(schema.getPaths())]
        leaves = tuple(
            _Leaf(at, path, self._column_path(one.getPath()))
            for at, (path, one) in enumerate(zip(paths, items(schema.getColumns()), strict=True))
        )
        found = _Schema(schema, names, leaves, tuple(_stored(schema)), " int96 " in str(schema.toString()))
        self._schemas = (found, *self._schemas)[:SCHEMAS_MAX]
        return found

    def project(self, source: Footer, target: str, way: Projected) -> Written:
        """Copy the column chunks of a file into one that does not exist, without those and under the names that `way` says.

        Returns:
            How the values of the copy were written; it is not read for that.

        Raises:
            Whatever Parquet or the storage say (`JAVA_ERRORS`).
        """
        projection = self._projection(source.schema, way)
        with (
            closing(source.file.newStream()) as stream,
            self._writing(target, projection.schema, source.words) as writer,
        ):
            for block in items(source.java.getBlocks()):
                writer.appendRowGroup(stream, self._with_renamed(block, projection), True)
        return source.words.written(projection.stored)

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
        for rows, (_, found) in zip(source.groups, opened, strict=True):
            groups = _groups(found)
            check_read(source.path, read=sum(groups), promised=rows)
            if not fits(rows, groups) or _Words(found.getFileMetaData()).has_old_days:
                return None
        projection = self._projection(source.schema, way)
        joined = self._joined(projection, opened[0][1].getFileMetaData().getSchema())
        blocks = items(source.java.getBlocks())
        with closing(source.file.newStream()) as stream, self._writing(target, joined.schema, source.words) as writer:
            for rows, block, (part, found) in zip(source.groups, blocks, opened, strict=True):
                writer.startBlock(rows)
                self._append_taken(writer, stream, block, joined)
                with closing(part.newStream()) as computed:
                    for chunk in items(found.getBlocks().get(0).getColumns()):
                        path = tuple(map(str, chunk.getPath().toArray()))
                        writer.appendColumnChunk(joined.descriptors[path], computed, chunk, None, None, None)
                writer.endBlock()
        return source.words.written(joined.stored)

    def _append_taken(self, writer: Any, stream: Any, block: Any, joined: _Joined) -> None:
        chunks, renamed = block.getColumns(), {one.leaf: one for one in joined.projection.renamed}
        for leaf, descriptor in joined.taken:
            chunk = _chunk_of(chunks, leaf)
            kept = self._renamed_chunk(chunk, renamed[leaf]) if leaf in renamed else chunk
            writer.appendColumnChunk(descriptor, stream, kept, None, None, None)

    def _joined(self, projection: _Projection, computed: Any) -> _Joined:
        for known in self._joins:
            if known.projection is projection and known.computed.equals(computed):
                return known
        schema = projection.schema.union(computed)
        descriptors = {tuple(map(str, one.getPath())): one for one in items(schema.getColumns())}
        names = dict(projection.way.renamed)
        taken = tuple(
            (leaf, descriptors[(names.get(leaf.path[0], leaf.path[0]), *leaf.path[1:])])
            for leaf in projection.original.leaves
            if leaf.path[0] not in projection.way.pruned
        )
        found = _Joined(projection, computed, schema, taken, descriptors, tuple(_stored(schema)))
        self._joins = (found, *self._joins)[:SCHEMAS_MAX]
        return found

    @contextmanager
    def _writing(self, target: str, schema: Any, words: _Words) -> Iterator[Any]:
        """Yield a writer of a file with the words of another one, but for those about its columns."""
        writer = self._writer(target, schema)
        try:
            writer.start()
            yield writer
            writer.end(self._words_of_a_copy(words))
        except BaseException:
            with suppress(*JAVA_ERRORS):
                writer.close()
            raise

    def _words_of_a_copy(self, words: _Words) -> Any:
        said = self._hash_map(words.java)
        for name in OLD_SCHEMAS:
            if name in words:
                said.remove(name)
        said.put(CREATED_BY, words.creator)
        return said

    def _opened(self, path: str) -> tuple[Any, Any]:
        """Return a file and its footer, both Java's."""
        file = self._from_path(self._path(path), self._conf)
        reader = self._open(file, self._options)
        try:
            return file, reader.getFooter()
        finally:
            reader.close()

    def _writer(self, path: str, schema: Any) -> Any:
        if self._local:
            # Hadoop starts a process for each file that it makes (ADR 0014), and writes its checksums beside it.
            local = path if path.startswith("/") else str(self._path(path).toUri().getPath())
            file = self._to_local(self._file(local).toPath())
        else:
            file = self._to_path(self._path(path), self._conf)
        return self._file_writer(file, schema, self._create, ROW_GROUP_BYTES, PADDING_BYTES)

    def _projection(self, schema: _Schema, way: Projected) -> _Projection:
        for known in self._projections:
            if known.original is schema and known.way == way:
                return known
        names = dict(way.renamed)
        projected = self._schema(schema.java, frozenset(way.pruned), names)
        columns = {tuple(map(str, one.getPath())): one for one in items(projected.getColumns())}
        renamed = []
        for leaf in schema.leaves:
            if leaf.path[0] in names:
                column = columns[(names[leaf.path[0]], *leaf.path[1:])]
                renamed.append(_Renamed(leaf, self._column_path(column.getPath()), column.getPrimitiveType()))
        found = _Projection(way, schema, projected, tuple(renamed), tuple(_stored(projected)))
        self._projections = (found, *self._projections)[:SCHEMAS_MAX]
        return found

    def _with_renamed(self, block: Any, projection: _Projection) -> Any:
        """Return what is said of a row group, with what is said of renamed chunks behind it: of two of one name the last one counts."""
        if projection.renamed:
            chunks = block.getColumns()
            added = [self._renamed_chunk(_chunk_of(chunks, one.leaf), one) for one in projection.renamed]
            for chunk in added:
                block.addColumn(chunk)
        return block

    def _schema(self, schema: Any, pruned: frozenset[str], renamed: dict[str, str]) -> Any:
        fields = self._jvm.java.util.ArrayList()
        for field in items(schema.getFields()):
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
            for child in items(field.asGroupType().getFields()):
                built = built.addField(child)
        annotation, number = field.getLogicalTypeAnnotation(), field.getId()
        built = built if annotation is None else getattr(built, "as")(annotation)
        return (built if number is None else built.id(number.intValue())).named(name)

    def _renamed_chunk(self, chunk: Any, renamed: _Renamed) -> Any:
        """Return what is said of a chunk, for its column under another name."""
        return self._chunk(
            renamed.path,
            renamed.type,
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


def _chunk_of(chunks: Any, leaf: _Leaf) -> Any:
    """Return the chunk of a leaf among those of a row group, which are in the order of the schema, if its writer obeyed."""
    chunk = chunks.get(leaf.at)
    if leaf.java.equals(chunk.getPath()):
        return chunk
    return next(one for one in items(chunks) if leaf.java.equals(one.getPath()))


def _stored(schema: Any) -> Iterator[tuple[Path, Stored]]:
    for column in items(schema.getColumns()):
        if not column.getMaxRepetitionLevel():
            kind = column.getPrimitiveType()
            logical = kind.getLogicalTypeAnnotation()
            name = str(kind.getPrimitiveTypeName())
            path = tuple(str(one) for one in column.getPath())
            yield path, Stored(name, "" if logical is None else str(logical.toString()))


def _groups(footer: Any) -> Groups:
    return tuple(int(block.getRowCount()) for block in items(footer.getBlocks()))
