"""Builds, joins and stores deletion vectors with Delta's own classes, which are not a stable API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_spark.delta.deletion_vectors import VectorDescriptor, file_name
from backfill_spark.delta.spark_internals import delta_actions
from backfill_spark.jvm.gateway import hadoop_conf, java, java_column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    jvm = java(spark)
    delta = jvm.org.apache.spark.sql.delta
    action = {"path": "file", "partitionValues": {}, "size": 0, "modificationTime": 0, "dataChange": True}
    line = json.dumps({"add": {**action, "deletionVector": dict(vector.fields)}})
    descriptor = delta_actions(spark, [line]).get(0).deletionVector()
    folder = jvm.scala.Option.apply(jvm.org.apache.hadoop.fs.Path(path))
    stored = delta.deletionvectors.DeletionVectorStoredBitmap(descriptor, folder)
    rows = delta.deletionvectors.RoaringBitmapArray.readFrom(bitmap.content)
    getattr(rows, "or")(stored.load(_store(spark)))
    rows.runOptimize()
    content = rows.serializeAsByteArray(delta.deletionvectors.RoaringBitmapArrayFormat.Portable())
    return Bitmap(int(rows.cardinality()), bytes(content))


def write_vectors(spark: SparkSession, path: str, folder: str, bitmaps: Sequence[Bitmap]) -> VectorFile:
    """Write bitmaps as the vectors of one new file in a folder of the table at `path`; each vector has a checksum.

    Raises:
        JAVA_ERRORS: the storage failed.
    """
    store, identifier = _store(spark), uuid.uuid4()
    below = f"{folder}/{file_name(identifier)}"
    place = store.pathWithFileSystem(java(spark).org.apache.hadoop.fs.Path(f"{path}/{below}"))
    writer = store.createWriter(place)
    try:
        ranges = [writer.write(bitmap.content) for bitmap in bitmaps]
    finally:
        writer.close()
    vectors = tuple(
        VectorDescriptor.in_file(
            identifier, offset=int(part.offset()), size_bytes=int(part.length()), rows=bitmap.rows
        ).in_folder(folder)
        for part, bitmap in zip(ranges, bitmaps, strict=True)
    )
    return VectorFile(below, int(place.fs().getFileStatus(place.path()).getLen()), vectors)


def _store(spark: SparkSession) -> Any:
    stores = getattr(java(spark).org.apache.spark.sql.delta.storage.dv, "DeletionVectorStore$")
    return getattr(stores, "MODULE$").createInstance(hadoop_conf(spark))
