"""Which columns of staged files are worth a dictionary: learned from the files that are staged anyway.

Parquet tries a dictionary for every column of every file, and gives it up where values hardly repeat: keys, amounts, times,
hashes. A plain copy pays that once for each large file, a backfill once for each of its many small ones: measured on the
main job's table, a fourteenth of the work. What a file gives up, the next ones do not try.
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
"""Writes between two that try all columns again: values that hardly repeat here may do so further on."""

TELLING_ROWS = 20_000
"""Rows of a page, after which Parquet decides; a file with fewer says nothing of a larger one."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column in one row group of a file."""

    column: str
    """Names from the root to the leaf, joined by dots."""

    values: int
    nulls: int
    has_dictionary: bool


def given_up(chunks: Iterable[Chunk]) -> frozenset[str]:
    """Return the columns that kept a dictionary in no row group; a column of nulls only says nothing, and is kept."""
    told = [(chunk.column, chunk.values > chunk.nulls and not chunk.has_dictionary) for chunk in chunks]
    return frozenset(name for name, lost in told if lost) - {name for name, lost in told if not lost}


class Dictionaries:
    """What one job knows of the columns it writes; safe to use from several threads."""

    def __init__(self) -> None:
        """Know nothing: the first writes try all columns."""
        self._lock = threading.Lock()
        self._writes = 0
        self._given_up: frozenset[str] | None = None

    def next_write(self) -> frozenset[str] | None:
        """Return the columns that the next write need not try; None where it is to try all, and to be learned from."""
        with self._lock:
            self._writes += 1
            return None if self._writes % TRY_EVERY == 0 else self._given_up

    def learn(self, chunks: Sequence[Chunk], rows: int) -> None:
        """Take what a file that tried all columns has kept."""
        if rows >= TELLING_ROWS:
            with self._lock:
                self._given_up = given_up(chunks)


def options(columns: Iterable[str]) -> dict[str, str]:
    """Return the writer's options that spare columns a dictionary."""
    return {f"parquet.enable.dictionary#{column}": "false" for column in sorted(columns)}


def read_chunks(spark: SparkSession, path: str) -> tuple[list[Chunk], int]:
    """Read a Parquet file's footer: its column chunks, and its rows."""
    jvm = java(spark)
    conf = hadoop_conf(spark)
    file = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(jvm.org.apache.hadoop.fs.Path(path), conf)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(file)
    try:
        blocks, rows = reader.getFooter().getBlocks(), reader.getRecordCount()
    finally:
        reader.close()
    return [_chunk(column) for block in items(blocks) for column in items(block.getColumns())], rows


def _chunk(column: Any) -> Chunk:
    statistics = column.getStatistics()
    nulls = statistics.getNumNulls() if statistics.isNumNullsSet() else 0
    kept = column.getEncodingStats().hasDictionaryEncodedPages()
    return Chunk(column.getPath().toDotString(), column.getValueCount(), nulls, kept)
