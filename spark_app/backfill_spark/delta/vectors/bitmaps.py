"""Builds, joins and stores deletion vectors with Delta's own classes, which are not a stable API."""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_core.errors import AccountingError
from backfill_spark.delta.deletion_vectors import VectorDescriptor, file_name
from backfill_spark.delta.spark_internals import delta_actions
from backfill_spark.jvm.gateway import hadoop_conf, java, java_column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OVERWRITTEN = (
    "Another program writes into the folder of the staged files, or the storage is damaged. Start the job again."
)
PORTABLE = "Portable"
"""Name of the bitmaps' format that the Delta protocol defines."""


@dataclass(frozen=True, slots=True)
class Bitmap:
    """Row indexes of a file, in the format of a deletion vector."""

    rows: int
    content: bytes


@dataclass(frozen=True, slots=True)
class VectorFile:
    """A file of deletion vectors."""

    path: str
    """Path below the table's folder."""

    size_bytes: int
    vectors: tuple[VectorDescriptor, ...]


def bitmap_of(spark: SparkSession, column: str) -> Column:
    """Return an aggregate of a column of row indexes: a struct with `cardinality`, `last` and `bitmap`."""
    sql = java(spark).org.apache.spark.sql
    of_column = sql.classic.ExpressionUtils.expression(java_column(F.col(column)))
    node = sql.catalyst.expressions.aggregation.BitmapAggregator(of_column, 0, 0, PORTABLE)
    return Column(sql.classic.ExpressionUtils.column(node.toAggregateExpression()))  # type: ignore[abstract]


def joined(spark: SparkSession, path: str, bitmap: Bitmap, vector: VectorDescriptor) -> Bitmap:
    """Return the rows of a bitmap and those that a vector of the table at `path` hides.

    Raises:
        JAVA_ERRORS: the vector cannot be read.
    """
    rows = _rows(spark, path, bitmap, vector)
    rows.runOptimize()
    formats = java(spark).org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArrayFormat
    return Bitmap(int(rows.cardinality()), bytes(rows.serializeAsByteArray(formats.Portable())))


def row_indexes(spark: SparkSession, path: str, bitmap: Bitmap, vector: VectorDescriptor | None) -> Any:
    """Return the rows of a bitmap, and those that a vector of the table at `path` hides, ascending, as a Java array.

    Raises:
        JAVA_ERRORS: the vector cannot be read.
    """
    return _rows(spark, path, bitmap, vector).toArray()


def _rows(spark: SparkSession, path: str, bitmap: Bitmap, vector: VectorDescriptor | None) -> Any:
    jvm = java(spark)
    delta = jvm.org.apache.spark.sql.delta
    rows = delta.deletionvectors.RoaringBitmapArray.readFrom(bitmap.content)
    if vector is not None:
        action = {"path": "file", "partitionValues": {}, "size": 0, "modificationTime": 0, "dataChange": True}
        line = json.dumps({"add": {**action, "deletionVector": dict(vector.fields)}})
        descriptor = delta_actions(spark, [line]).get(0).deletionVector()
        folder = jvm.scala.Option.apply(jvm.org.apache.hadoop.fs.Path(path))
        stored = delta.deletionvectors.DeletionVectorStoredBitmap(descriptor, folder)
        getattr(rows, "or")(stored.load(_store(spark)))
    return rows


def write_vectors(spark: SparkSession, path: str, folder: str, bitmaps: Sequence[Bitmap]) -> VectorFile:
    """Write bitmaps as the vectors of one new file in a folder of the table at `path`, and read the file back.

    Raises:
        AccountingError: the file does not have the content that was written.
        JAVA_ERRORS: the storage failed.
    """
    jvm, store, identifier = java(spark), _store(spark), uuid.uuid4()
    below = f"{folder}/{file_name(identifier)}"
    place = store.pathWithFileSystem(jvm.org.apache.hadoop.fs.Path(f"{path}/{below}"))
    writer = store.createWriter(place)
    try:
        offsets = [int(writer.write(bitmap.content).offset()) for bitmap in bitmaps]
    finally:
        writer.close()
    stream = place.fs().open(place.path())
    try:
        written = bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()
    if any(not written.startswith(_stored(bitmap), at) for bitmap, at in zip(bitmaps, offsets, strict=True)):
        raise AccountingError(f"{path}/{below} does not have the deletion vectors that were written.", hint=OVERWRITTEN)
    vectors = tuple(
        VectorDescriptor.in_file(identifier, offset=at, size_bytes=len(bitmap.content), rows=bitmap.rows).in_folder(
            folder
        )
        for bitmap, at in zip(bitmaps, offsets, strict=True)
    )
    return VectorFile(below, len(written), vectors)


def _stored(bitmap: Bitmap) -> bytes:
    """Return a bitmap as a file of vectors stores it: with its length before it, and its checksum after it."""
    size, checksum = len(bitmap.content), zlib.crc32(bitmap.content)
    return size.to_bytes(4, "big") + bitmap.content + checksum.to_bytes(4, "big")


def _store(spark: SparkSession) -> Any:
    stores = getattr(java(spark).org.apache.spark.sql.delta.storage.dv, "DeletionVectorStore$")
    return getattr(stores, "MODULE$").createInstance(hadoop_conf(spark))
