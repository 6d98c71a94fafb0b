"""Selects the columns of staged files that get a dictionary, from the footers of earlier staged files.

Parquet tries a dictionary for every column of every file, and abandons it if values rarely repeat: keys, amounts, times,
hashes. A plain copy pays for this once per large file, a backfill once per small file. Measured on the main job's table, it is
1/14 of the work. So a job skips the dictionaries that an earlier file abandoned.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_spark.jvm.gateway import hadoop_conf, items, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRY_EVERY = 16
"""Every 16th write tries all columns again, because later values may repeat more often."""

TELLING_ROWS = 20_000
"""Rows of a page, after which Parquet decides; a smaller file does not predict a larger one."""


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """One column in one row group of a file."""

    column: str
    """Names from the root to the leaf, joined by dots."""

    values: int
    nulls: int
    has_dictionary: bool


def given_up(chunks: Iterable[ColumnChunk]) -> frozenset[str]:
    """Return the columns without a dictionary in every row group; columns of nulls only are never returned."""
    outcomes = [(chunk.column, chunk.values > chunk.nulls and not chunk.has_dictionary) for chunk in chunks]
    return frozenset(name for name, lost in outcomes if lost) - {name for name, lost in outcomes if not lost}


class Dictionaries:
    """Columns of one job for which dictionaries failed. Thread-safe."""

    def __init__(self) -> None:
        """Start without columns: the first writes try all of them."""
        self._lock = threading.Lock()
        self._writes = 0
        self._given_up: frozenset[str] | None = None

    def next_write(self) -> frozenset[str] | None:
        """Return the columns that the next write skips; `None` if it must try all, and `learn` must read its file."""
        with self._lock:
            self._writes += 1
            return None if self._writes % TRY_EVERY == 0 else self._given_up

    def learn(self, chunks: Sequence[ColumnChunk], rows: int) -> None:
        """Record the result of a file that tried all columns."""
        if rows >= TELLING_ROWS:
            with self._lock:
                self._given_up = given_up(chunks)


def options(columns: Iterable[str]) -> dict[str, str]:
    """Return the writer options that disable the dictionaries of columns."""
    return {f"parquet.enable.dictionary#{column}": "false" for column in sorted(columns)}


def read_chunks(spark: SparkSession, path: str) -> tuple[list[ColumnChunk], int]:
    """Read a Parquet footer; return its column chunks and its number of rows."""
    jvm = java(spark)
    conf = hadoop_conf(spark)
    file = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(jvm.org.apache.hadoop.fs.Path(path), conf)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(file)
    try:
        blocks, rows = reader.getFooter().getBlocks(), reader.getRecordCount()
    finally:
        reader.close()
    return [_chunk(column) for block in items(blocks) for column in items(block.getColumns())], rows


def _chunk(column: Any) -> ColumnChunk:
    statistics = column.getStatistics()
    nulls = statistics.getNumNulls() if statistics.isNumNullsSet() else 0
    kept = column.getEncodingStats().hasDictionaryEncodedPages()
    return ColumnChunk(column.getPath().toDotString(), column.getValueCount(), nulls, kept)
