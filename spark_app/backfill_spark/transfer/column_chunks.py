"""Files with another footer over the column chunks of another one: columns are left out or renamed, or others stand beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_core.phases.accounting import check_read
from backfill_core.transfer.bounds import Path, Written
from backfill_core.transfer.grafting import fits
from backfill_core.transfer.ways import Projected
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import hadoop_conf, items, java
from backfill_spark.transfer.footers import (
    CREATED_BY,
    SCHEMAS_MAX,
    FileSchema,
    FileWords,
    Footer,
    Leaf,
    StoredColumns,
    stored_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD_SCHEMAS = ("ARROW:schema", "org.apache.spark.sql.parquet.row.metadata", "parquet.avro.schema")
"""The columns of a file in the words of its writer, some of which readers believe: wrong once a column is left out."""

ROW_GROUP_BYTES, PADDING_BYTES = 128 << 20, 8 << 20
"""Parquet's own numbers; a group is copied as it is."""


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A leaf under another name; of Java, but for the leaf."""

    leaf: Leaf
    path: Any
    type: Any


@dataclass(frozen=True, slots=True)
class _Projection:
    """What becomes of the files of one schema."""

    way: Projected
    original: FileSchema
    schema: Any
    """Java's, of the copies."""

    renamed: tuple[_Renamed, ...]
    stored: StoredColumns
    """How a copy stores its columns."""


@dataclass(frozen=True, slots=True)
class _Joined:
    """What becomes of files of one schema with computed columns of another one."""

    projection: _Projection
    computed: FileSchema
    schema: Any
    """Java's, of the copies."""

    taken: tuple[tuple[Leaf, Any], ...]
    """The leaves of a file that stay, and Java's descriptors of them in a copy."""

    descriptors: Mapping[Path, Any]
    """Those of all leaves of a copy."""

    stored: StoredColumns
    """How a copy stores its columns."""


class ChunkCopier:
    """Copies column chunks as they are, in the JVM of a session. From any thread.

    Parquet's own `ParquetRewriter` would do, but a column that it renames loses its logical type, and what is left of the
    schema that Arrow keeps in a file does not fit any more.
    """

    def __init__(self, spark: SparkSession, *, local: bool) -> None:
        """Take the session; `local`: the copies are this machine's."""
        self._jvm, self._conf, self._local = java(spark), hadoop_conf(spark), local
        self._parquet: Any = self._jvm.org.apache.parquet
        self._projections: tuple[_Projection, ...] = ()
        self._joins: tuple[_Joined, ...] = ()
        # Each name of a class and of a static method is a question to Java, whenever it is said.
        hadoop = self._parquet.hadoop
        self._file, self._hash_map = self._jvm.java.io.File, self._jvm.java.util.HashMap
        self._path, self._to_path = self._jvm.org.apache.hadoop.fs.Path, hadoop.util.HadoopOutputFile.fromPath
        self._to_local, self._file_writer = self._parquet.io.LocalOutputFile, hadoop.ParquetFileWriter
        self._create = getattr(hadoop, "ParquetFileWriter$Mode").CREATE
        self._column_path, self._chunk = hadoop.metadata.ColumnPath.get, hadoop.metadata.ColumnChunkMetaData.get

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

    def graft(self, source: Footer, target: str, way: Projected, parts: Sequence[Footer]) -> Written | None:
        """Copy the column chunks of a file as `project` does, each row group with the chunks of its part beside them.

        Args:
            source: The file.
            target: Does not exist.
            way: What becomes of the file's own columns.
            parts: One file for each row group of it, with columns that the others do not have, and the rows of the group in their order.

        Returns:
            As `project`; None: nothing was done, for a part of several row groups, or with days of another calendar, cannot be joined.

        Raises:
            AccountingError: a part has other rows than its row group.
            Whatever Parquet or the storage say (`JAVA_ERRORS`).
        """
        for rows, part in zip(source.groups, parts, strict=True):
            check_read(source.path, read=part.rows, promised=rows)
            if not fits(rows, part.groups) or part.has_old_days:
                return None
        projection = self._projection(source.schema, way)
        joined = self._joined(projection, parts[0].schema)
        blocks = items(source.java.getBlocks())
        with closing(source.file.newStream()) as stream, self._writing(target, joined.schema, source.words) as writer:
            for rows, block, part in zip(source.groups, blocks, parts, strict=True):
                writer.startBlock(rows)
                self._append_taken(writer, stream, block, joined)
                with closing(part.file.newStream()) as computed:
                    chunks = part.java.getBlocks().get(0).getColumns()
                    for leaf in part.schema.leaves:
                        descriptor = joined.descriptors[leaf.path]
                        writer.appendColumnChunk(descriptor, computed, _chunk_of(chunks, leaf), None, None, None)
                writer.endBlock()
        return source.words.written(joined.stored)

    def _append_taken(self, writer: Any, stream: Any, block: Any, joined: _Joined) -> None:
        chunks, renamed = block.getColumns(), {one.leaf.at: one for one in joined.projection.renamed}
        for leaf, descriptor in joined.taken:
            chunk = _chunk_of(chunks, leaf)
            kept = self._renamed_chunk(chunk, renamed[leaf.at]) if leaf.at in renamed else chunk
            writer.appendColumnChunk(descriptor, stream, kept, None, None, None)

    def _joined(self, projection: _Projection, computed: FileSchema) -> _Joined:
        for known in self._joins:
            if known.projection is projection and known.computed is computed:
                return known
        schema = projection.schema.union(computed.java)
        descriptors = {tuple(map(str, one.getPath())): one for one in items(schema.getColumns())}
        names = dict(projection.way.renamed)
        taken = tuple(
            (leaf, descriptors[(names.get(leaf.path[0], leaf.path[0]), *leaf.path[1:])])
            for leaf in projection.original.leaves
            if leaf.path[0] not in projection.way.pruned
        )
        found = _Joined(projection, computed, schema, taken, descriptors, stored_columns(schema))
        self._joins = (found, *self._joins)[:SCHEMAS_MAX]
        return found

    @contextmanager
    def _writing(self, target: str, schema: Any, words: FileWords) -> Iterator[Any]:
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

    def _words_of_a_copy(self, words: FileWords) -> Any:
        said = self._hash_map(words.java)
        for name in OLD_SCHEMAS:
            if name in words:
                said.remove(name)
        said.put(CREATED_BY, words.creator)
        return said

    def _writer(self, path: str, schema: Any) -> Any:
        if self._local:
            # Hadoop starts a process for each file that it makes (ADR 0002), and writes its checksums beside it.
            local = path if path.startswith("/") else str(self._path(path).toUri().getPath())
            file = self._to_local(self._file(local).toPath())
        else:
            file = self._to_path(self._path(path), self._conf)
        return self._file_writer(file, schema, self._create, ROW_GROUP_BYTES, PADDING_BYTES)

    def _projection(self, schema: FileSchema, way: Projected) -> _Projection:
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
        found = _Projection(way, schema, projected, tuple(renamed), stored_columns(projected))
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


def _chunk_of(chunks: Any, leaf: Leaf) -> Any:
    """Return the chunk of a leaf among those of a row group, which are in the order of the schema, if its writer obeyed."""
    chunk = chunks.get(leaf.at)
    if leaf.java.equals(chunk.getPath()):
        return chunk
    return next(one for one in items(chunks) if leaf.java.equals(one.getPath()))
