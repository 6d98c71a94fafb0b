"""Copies of Parquet column chunks under a new footer: columns are left out or renamed, or computed columns are joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_core.file_copies.bounds import Path, Written
from backfill_core.file_copies.computed_parts import LABEL, fits
from backfill_core.file_copies.copy_modes import Projected
from backfill_core.phases.accounting import check_read
from backfill_spark.file_copies.footers import (
    CREATED_BY,
    SCHEMAS_MAX,
    FileSchema,
    Footer,
    FooterMetadata,
    Leaf,
    StoredColumns,
    stored_columns,
)
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import hadoop_conf, items, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD_SCHEMAS = ("ARROW:schema", "org.apache.spark.sql.parquet.row.metadata", "parquet.avro.schema")
"""Footer metadata with the schema of the writer, which some readers use; wrong once a column is left out."""

ROW_GROUP_BYTES, PADDING_BYTES = 128 << 20, 8 << 20
"""Parquet's defaults; row groups are copied unchanged."""


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A leaf column under its new name; path and type are Java objects."""

    leaf: Leaf
    path: Any
    type: Any


@dataclass(frozen=True, slots=True)
class _Projection:
    """Projection of all files with one schema."""

    mode: Projected
    original: FileSchema
    schema: Any
    """Java schema of the copies."""

    renamed: tuple[_Renamed, ...]
    stored: StoredColumns
    """Physical types of a copy's columns."""


@dataclass(frozen=True, slots=True)
class _Joined:
    """Projection of all files with one schema, joined with computed columns of another schema."""

    projection: _Projection
    computed: FileSchema
    schema: Any
    """Java schema of the copies."""

    taken: tuple[tuple[Leaf, Any], ...]
    """The copied leaves of a file, with their Java descriptors in a copy."""

    descriptors: Mapping[Path, Any]
    """Java descriptors of all leaves of a copy."""

    stored: StoredColumns
    """Physical types of a copy's columns."""


class ChunkCopier:
    """Copies column chunks unchanged, in the JVM of a session. Thread-safe.

    Parquet's `ParquetRewriter` is not used: columns that it renames lose their logical type, and it keeps Arrow's schema in the
    footer, which no longer fits.
    """

    def __init__(self, spark: SparkSession, *, local: bool) -> None:
        """Store the session; `local` is True if the copies are local files."""
        self._jvm, self._conf, self._local = java(spark), hadoop_conf(spark), local
        self._parquet: Any = self._jvm.org.apache.parquet
        self._projections: tuple[_Projection, ...] = ()
        self._joins: tuple[_Joined, ...] = ()
        # Resolved once: each reference to a class or a static method is a call into the JVM.
        hadoop = self._parquet.hadoop
        self._file, self._hash_map = self._jvm.java.io.File, self._jvm.java.util.HashMap
        self._path, self._to_path = self._jvm.org.apache.hadoop.fs.Path, hadoop.util.HadoopOutputFile.fromPath
        self._to_local, self._file_writer = self._parquet.io.LocalOutputFile, hadoop.ParquetFileWriter
        self._create = getattr(hadoop, "ParquetFileWriter$Mode").CREATE
        self._column_path, self._chunk = hadoop.metadata.ColumnPath.get, hadoop.metadata.ColumnChunkMetaData.get

    def project(self, source: Footer, target: str, mode: Projected) -> Written:
        """Copy the column chunks of a file into a new file; `way` defines the columns left out and the new names.

        Returns:
            Facts about the writer of the values; the copy is not read for them.

        Raises:
            JAVA_ERRORS: Parquet or the storage failed.
        """
        projection = self._projection(source.schema, mode)
        with (
            closing(source.file.newStream()) as stream,
            self._writing(target, projection.schema, source.metadata) as writer,
        ):
            for rows, block in zip(source.groups, items(source.java.getBlocks()), strict=True):
                if rows:  # Parquet writes no row group without rows; Arrow does
                    writer.appendRowGroup(stream, self._with_renamed(block, projection), True)
        return source.metadata.written(projection.stored)

    def join_computed(self, source: Footer, target: str, mode: Projected, parts: Sequence[Footer]) -> Written | None:
        """Copy the column chunks of a file like `project`, and join the chunks of a part to each row group.

        Args:
            source: The file.
            target: The new file; must not exist.
            mode: Projection of the file's own columns.
            parts: One file per row group, with the group's rows in their order; a label perhaps, and then the computed columns.

        Returns:
            Like `project`; `None` if a part has several row groups or days of another calendar. Then nothing is written.

        Raises:
            AccountingError: the number of rows of a part differs from its row group.
            JAVA_ERRORS: Parquet or the storage failed.
        """
        for rows, part in zip(source.groups, parts, strict=True):
            check_read(source.path, read=part.rows, promised=rows)
            if not fits(rows, part.groups) or part.has_old_days:
                return None
        projection = self._projection(source.schema, mode)
        joined = self._joined(projection, parts[0].schema)
        blocks = items(source.java.getBlocks())
        with (
            closing(source.file.newStream()) as stream,
            self._writing(target, joined.schema, source.metadata) as writer,
        ):
            for rows, block, part in zip(source.groups, blocks, parts, strict=True):
                writer.startBlock(rows)
                self._append_taken(writer, stream, block, joined)
                with closing(part.file.newStream()) as computed:
                    chunks = part.java.getBlocks().get(0).getColumns()
                    for leaf in _computed(part.schema):
                        descriptor = joined.descriptors[leaf.path]
                        writer.appendColumnChunk(descriptor, computed, _chunk_of(chunks, leaf), None, None, None)
                writer.endBlock()
        return source.metadata.written(joined.stored)

    def _append_taken(self, writer: Any, stream: Any, block: Any, joined: _Joined) -> None:
        chunks, renamed = block.getColumns(), {column.leaf.at: column for column in joined.projection.renamed}
        for leaf, descriptor in joined.taken:
            chunk = _chunk_of(chunks, leaf)
            kept = self._renamed_chunk(chunk, renamed[leaf.at]) if leaf.at in renamed else chunk
            writer.appendColumnChunk(descriptor, stream, kept, None, None, None)

    def _joined(self, projection: _Projection, computed: FileSchema) -> _Joined:
        for cached in self._joins:
            if cached.projection is projection and cached.computed is computed:
                return cached
        labels = frozenset(name for name in computed.names if name.startswith(LABEL))
        schema = projection.schema.union(self._schema(computed.java, labels, {}))
        descriptors = {tuple(map(str, column.getPath())): column for column in items(schema.getColumns())}
        names = dict(projection.mode.renamed)
        taken = tuple(
            (leaf, descriptors[(names.get(leaf.path[0], leaf.path[0]), *leaf.path[1:])])
            for leaf in projection.original.leaves
            if leaf.path[0] not in projection.mode.pruned
        )
        joined = _Joined(projection, computed, schema, taken, descriptors, stored_columns(schema))
        self._joins = (joined, *self._joins)[:SCHEMAS_MAX]
        return joined

    @contextmanager
    def _writing(self, target: str, schema: Any, metadata: FooterMetadata) -> Iterator[Any]:
        """Yield a writer of a file that gets the footer metadata of the original, without its schemas."""
        writer = self._file_writer(self.output_file(target), schema, self._create, ROW_GROUP_BYTES, PADDING_BYTES)
        try:
            writer.start()
            yield writer
            writer.end(self._copied_metadata(metadata))
        except BaseException:
            with suppress(*JAVA_ERRORS):
                writer.close()
            raise

    def _copied_metadata(self, metadata: FooterMetadata) -> Any:
        copied = self._hash_map(metadata.java)
        for name in OLD_SCHEMAS:
            if name in metadata:
                copied.remove(name)
        copied.put(CREATED_BY, metadata.creator)
        return copied

    def output_file(self, path: str) -> Any:
        """Return Parquet's output file of a path or URI; makes its folder."""
        if self._local:
            # Hadoop starts a process for each file that it creates (ADR 0002), and adds a checksum file.
            local = self._file(path if path.startswith("/") else str(self._path(path).toUri().getPath()))
            local.getParentFile().mkdirs()
            return self._to_local(local.toPath())
        return self._to_path(self._path(path), self._conf)

    def _projection(self, schema: FileSchema, mode: Projected) -> _Projection:
        for cached in self._projections:
            if cached.original is schema and cached.mode == mode:
                return cached
        names = dict(mode.renamed)
        projected = self._schema(schema.java, frozenset(mode.pruned), names)
        columns = {tuple(map(str, column.getPath())): column for column in items(projected.getColumns())}
        renamed = []
        for leaf in schema.leaves:
            if leaf.path[0] in names:
                column = columns[(names[leaf.path[0]], *leaf.path[1:])]
                renamed.append(_Renamed(leaf, self._column_path(column.getPath()), column.getPrimitiveType()))
        projection = _Projection(mode, schema, projected, tuple(renamed), stored_columns(projected))
        self._projections = (projection, *self._projections)[:SCHEMAS_MAX]
        return projection

    def _with_renamed(self, block: Any, projection: _Projection) -> Any:
        """Append the metadata of renamed chunks to a row group, and return it; Parquet uses the last chunk of a name."""
        if projection.renamed:
            chunks = block.getColumns()
            added = [self._renamed_chunk(_chunk_of(chunks, column.leaf), column) for column in projection.renamed]
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
        """Return a column under another name, with all its other attributes."""
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
        """Return the metadata of a chunk under its column's new name."""
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


def _computed(schema: FileSchema) -> list[Leaf]:
    """Return the leaves of a part without its label."""
    return [leaf for leaf in schema.leaves if not leaf.path[0].startswith(LABEL)]


def _chunk_of(chunks: Any, leaf: Leaf) -> Any:
    """Return the chunk of a leaf in a row group; chunks are in the order of the schema, unless the writer broke the rule."""
    chunk = chunks.get(leaf.at)
    if leaf.java.equals(chunk.getPath()):
        return chunk
    return next(chunk for chunk in items(chunks) if leaf.java.equals(chunk.getPath()))
