"""What the footer of a Parquet file says, and files with another footer over the same column chunks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_core.transfer.ways import Projected
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import hadoop_conf, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_ENCRYPTED = "UNENCRYPTED"
OLD_SCHEMAS = ("ARROW:schema", "org.apache.spark.sql.parquet.row.metadata", "parquet.avro.schema")
"""The columns of a file in the words of its writer, some of which readers believe: wrong once a column is left out."""

ROW_GROUP_BYTES, PADDING_BYTES = 128 << 20, 8 << 20
"""Parquet's own numbers; a group is copied as it is."""


@dataclass(frozen=True, slots=True)
class Footer:
    """Of one file."""

    rows: int
    columns: int
    """Top-level ones."""

    is_encrypted: bool
    has_int96: bool
    """Has it times in the old form, of which no footer has statistics?"""

    has: Callable[[str], bool]
    """Is there a top-level column of this name?"""


class Footers:
    """Reads and replaces footers, in the JVM of a session. From any thread.

    Parquet's own `ParquetRewriter` would do, but a column that it renames loses its logical type, and what is left of the
    schema that Arrow keeps in a file does not fit any more.
    """

    def __init__(self, spark: SparkSession) -> None:
        """Take the session."""
        self._jvm, self._conf = java(spark), hadoop_conf(spark)
        self._parquet = self._jvm.org.apache.parquet

    def read(self, path: str) -> Footer:
        """Read a file's footer; a file that was cut off has none.

        Raises:
            Whatever Parquet or the storage say (`JAVA_ERRORS`).
        """
        reader = self._parquet.hadoop.ParquetFileReader.open(self._input(path))
        try:
            metadata: Any = reader.getFileMetaData()
            schema = metadata.getSchema()
            return Footer(
                rows=int(reader.getRecordCount()),
                columns=schema.getFieldCount(),
                is_encrypted=str(metadata.getEncryptionType()) != NOT_ENCRYPTED,
                has_int96=" int96 " in str(schema.toString()),
                has=schema.containsField,
            )
        finally:
            reader.close()

    def project(self, source: str, target: str, way: Projected) -> None:
        """Copy the column chunks of a file into one that does not exist, without those and under the names that `way` says.

        Raises:
            Whatever Parquet or the storage say (`JAVA_ERRORS`).
        """
        file, renamed = self._input(source), dict(way.renamed)
        reader = self._parquet.hadoop.ParquetFileReader.open(file)
        try:
            footer = reader.getFooter()
        finally:
            reader.close()
        schema = self._schema(footer.getFileMetaData().getSchema(), frozenset(way.pruned), renamed)
        writer, stream = self._writer(target, schema), file.newStream()
        try:
            writer.start()
            columns = {".".join(one.getPath()): one for one in schema.getColumns()}
            for block in footer.getBlocks():
                writer.startBlock(block.getRowCount())
                for chunk in block.getColumns():
                    top, dot, below = str(chunk.getPath().toDotString()).partition(".")
                    column = columns.get(f"{renamed.get(top, top)}{dot}{below}")
                    if top not in way.pruned and column is not None:
                        named = self._renamed_chunk(chunk, column) if top in renamed else chunk
                        writer.appendColumnChunk(column, stream, named, None, None, None)
                writer.endBlock()
            words = self._jvm.java.util.HashMap(footer.getFileMetaData().getKeyValueMetaData())
            for name in OLD_SCHEMAS:
                words.remove(name)
            writer.end(words)
        except JAVA_ERRORS:
            with suppress(*JAVA_ERRORS):
                writer.close()
            raise
        finally:
            stream.close()

    def _input(self, path: str) -> Any:
        return self._parquet.hadoop.util.HadoopInputFile.fromPath(self._jvm.org.apache.hadoop.fs.Path(path), self._conf)

    def _writer(self, path: str, schema: Any) -> Any:
        hadoop = self._parquet.hadoop
        file = hadoop.util.HadoopOutputFile.fromPath(self._jvm.org.apache.hadoop.fs.Path(path), self._conf)
        create = getattr(hadoop, "ParquetFileWriter$Mode").CREATE
        return hadoop.ParquetFileWriter(file, schema, create, ROW_GROUP_BYTES, PADDING_BYTES)

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
