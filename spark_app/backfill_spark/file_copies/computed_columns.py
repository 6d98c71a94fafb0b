"""Computes the computed columns of whole files, without the copied ones, into a separate file for each row group."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_core.file_copies.computed_parts import PARTS_MAX, Groups, rounds, starts
from backfill_spark.delta.types import quoted
from backfill_spark.jvm.failures import while_staging
from backfill_spark.rows.columns import unused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.delta.source_file import SourceFile
    from backfill_spark.ports.sink import SupportsCopies
    from backfill_spark.ports.source import SupportsFiles
    from backfill_spark.rows.transform import Transform

WRITERS = "spark.sql.maxConcurrentOutputFileWriters"
FILE, GROUP, ROW = "__backfill_file", "__backfill_group", "__backfill_row"
_PART = re.compile(r"/[^/=]*=(\d+)/[^/=]*=(\d+)/[^/]*$")


@dataclass(frozen=True, slots=True)
class FileToCompute:
    """A file of the source, and its row groups."""

    file: SourceFile
    groups: Groups


class ComputedColumns:
    """Computes output columns of a transform, for one source and one target. Thread-safe."""

    def __init__(self, spark: SparkSession, transform: Transform, source: SupportsFiles, sink: SupportsCopies) -> None:
        """Store the session, the transform, the source and the target; reads nothing yet."""
        self._spark, self._transform, self._source, self._sink = spark, transform, source, sink

    def parts(
        self,
        files: Sequence[FileToCompute],
        columns: Collection[str],
        folder: str,
        *,
        listed: Callable[[str], list[str]],
        check: Callable[[], None],
    ) -> list[list[str] | None]:
        """Write columns of files, one part per row group; return the paths of each file's parts, `None` if a part is missing.

        One Spark job computes files with up to `PARTS_MAX` row groups in total. Rows in a part have the order of the source's file.

        Args:
            files: Files whose row groups `can_be_joined`.
            columns: Names of output columns.
            folder: Path or URI of a folder for the parts; its contents are removed.
            listed: Returns the Parquet files in a folder below that one, recursively.
            check: Called before each job; an exception that it raises ends the work.

        Raises:
            StagedFilesGoneError: a part disappeared before it was used.
            Spark's error for a row that cannot be computed.
        """
        by_file: list[list[str] | None] = [None] * len(files)
        for number, chosen in enumerate(rounds([file.groups for file in files])):
            check()
            self._write([files[at] for at in chosen], columns, f"{folder}/{number}")
            written = _parts(listed(f"{number}"))
            for index, at in enumerate(chosen):
                parts = [written.get((index, group), []) for group in range(len(files[at].groups))]
                if all(len(paths) == 1 for paths in parts):
                    by_file[at] = [path for (path,) in parts]
        return by_file

    def _write(self, files: Sequence[FileToCompute], columns: Collection[str], folder: str) -> None:
        rows, names = self._rows(files)
        computed = self._transform.project(rows, *names)
        stored = self._sink.stored_columns(computed, columns)
        outer, inner, _ = (unused(name, computed.select(*stored).columns) for name in (FILE, GROUP, ROW))
        labels = [F.col(quoted(name)).alias(label) for name, label in zip(names, (outer, inner), strict=False)]
        if int(self._spark.conf.get(WRITERS) or 0) < PARTS_MAX:
            # Otherwise Spark sorts by the labels only, and does not guarantee the order within a label.
            computed = computed.sortWithinPartitions(*map(quoted, names))
        writer = computed.select(*labels, *stored).write.mode("overwrite").option("maxRecordsPerFile", 0)
        with while_staging(folder):
            writer.partitionBy(outer, inner).parquet(folder)

    def _rows(self, files: Sequence[FileToCompute]) -> tuple[DataFrame, tuple[str, ...]]:
        """Return all rows of files with the numbers of file, row group and row; one read per set of equal row groups."""
        by_starts: dict[tuple[int, ...], list[int]] = {}
        for at, file in enumerate(files):
            by_starts.setdefault(starts(file.groups), []).append(at)
        frames, names = list[DataFrame](), tuple[str, ...]()
        for firsts, members in by_starts.items():
            rows, number, row = self._source.numbered_rows([files[at].file.with_all_rows for at in members])
            names = tuple(unused(name, rows.columns) for name in (FILE, GROUP, ROW))
            labels = [_numbered(number, members), _group(row, firsts), row]
            frames.append(rows.select("*", *(label.alias(name) for label, name in zip(labels, names, strict=True))))
        return reduce(DataFrame.unionAll, frames), names


def _numbered(number: Column, members: Sequence[int]) -> Column:
    """Return the index of a row's file among all files, from its index among the files of one read."""
    if members == list(range(len(members))):
        return number.cast("int")
    return F.element_at(F.array(*map(F.lit, members)), number.cast("int") + 1)


def _group(row: Column, firsts: Sequence[int]) -> Column:
    """Return the row group of a row, from the first row number of each group."""
    number = F.lit(0)
    for group, first in list(enumerate(firsts))[1:]:
        number = F.when(row >= first, group).otherwise(number)
    return number


def _parts(paths: Sequence[str]) -> dict[tuple[int, int], list[str]]:
    """Return paths by the numbers of file and row group in their folder names."""
    parts: dict[tuple[int, int], list[str]] = {}
    for path in paths:
        named = _PART.search(path)
        if named is not None:
            parts.setdefault((int(named[1]), int(named[2])), []).append(path)
    return parts
