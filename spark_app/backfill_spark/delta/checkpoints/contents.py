"""Counts the actions in a checkpoint from the footers of its files, without reading rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_spark.jvm.gateway import hadoop_conf, items, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROTOCOL, METADATA, FILE, SIDECAR = "protocol.minReaderVersion", "metaData.id", "add.path", "sidecar.path"
"""Columns that have a value in each action of their kind."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Number of actions of each kind; `None` if a footer has no null count, or if sidecars contain the files."""

    protocols: int | None
    metadata: int | None
    files: int | None

    @property
    def lacks(self) -> str:
        """Mandatory actions that are missing in this checkpoint; empty if it has them."""
        kinds = (("protocol", self.protocols), ("metadata", self.metadata))
        return " and no ".join(name for name, count in kinds if count == 0)

    def has_files(self, expected: int | None) -> bool:
        """Return `False` only if both numbers are known and differ."""
        return None in (expected, self.files) or expected == self.files


def contents_of(spark: SparkSession, paths: Sequence[str]) -> Contents:
    """Count the actions of a checkpoint that consists of the given Parquet files.

    Raises:
        JAVA_ERRORS: any error of Parquet or the storage.
    """
    counted = [_counted(spark, path) for path in paths]
    protocols, metadata, files, sidecars = (_sum([counts[kind] for counts in counted]) for kind in range(4))
    return Contents(protocols, metadata, files if sidecars == 0 else None)


def _sum(counts: Sequence[int | None]) -> int | None:
    present = [count for count in counts if count is not None]
    return sum(present) if len(present) == len(counts) else None


def _counted(spark: SparkSession, path: str) -> tuple[int | None, ...]:
    """Return the number of values of each column above in a file; a missing column has none."""
    jvm: Any = java(spark)
    file = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(
        jvm.org.apache.hadoop.fs.Path(path), hadoop_conf(spark)
    )
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(file)
    try:
        blocks = items(reader.getFooter().getBlocks())
    finally:
        reader.close()
    if not blocks:
        return (0, 0, 0, 0)
    # All row groups have their columns in the order of the schema.
    indexes = {str(chunk.getPath().toDotString()): index for index, chunk in enumerate(items(blocks[0].getColumns()))}
    columns = [indexes.get(name) for name in (PROTOCOL, METADATA, FILE, SIDECAR)]
    chunks = [[0 if index is None else _values(block.getColumns().get(index)) for index in columns] for block in blocks]
    return tuple(_sum(counts) for counts in zip(*chunks, strict=True))


def _values(chunk: Any) -> int | None:
    statistics = chunk.getStatistics()
    if statistics is None or not statistics.isNumNullsSet():
        return None
    return int(chunk.getValueCount()) - int(statistics.getNumNulls())
