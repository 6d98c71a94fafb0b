"""Computes the columns of whole files that are no copies, without the others: a file of its own for each row group."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_core.transfer.grafting import PARTS_MAX, Groups, rounds, starts
from backfill_spark.jvm.failures import while_staging
from backfill_spark.rows.columns import quoted, unused

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
    """Computes columns of what a transform makes of one source for one target. From any thread."""

    def __init__(self, spark: SparkSession, transform: Transform, source: SupportsFiles, sink: SupportsCopies) -> None:
        """Take the session, the transform, the source and the target; nothing is asked yet."""
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
        """Write columns of files, row group by row group, and return the paths of each file's parts; None: they are not all there.

        One Spark job for as many files as have `PARTS_MAX` row groups together. In a part, rows have the order of the source's file.

        Args:
            files: Each `can_be_joined`.
            columns: Names of output columns.
            folder: Path or URI of a folder for the parts; what is in it goes.
            listed: Gives the Parquet files in a folder below that one, and in those below it.
            check: Called before each job; what it raises ends the work.

        Raises:
            StagedFilesGoneError: a part is gone before it is used.
            Whatever Spark says of a row that cannot be computed.
        """
        found: list[list[str] | None] = [None] * len(files)
        for number, chosen in enumerate(rounds([one.groups for one in files])):
            check()
            wanted = [files[at] for at in chosen]
            self._write(wanted, columns, f"{folder}/{number}")
            written = _parts(listed(f"{number}"))
            for index, at in enumerate(chosen):
                parts = [written.get((index, group), []) for group in range(len(files[at].groups))]
                if all(len(paths) == 1 for paths in parts):
                    found[at] = [path for (path,) in parts]
        return found

    def _write(self, files: Sequence[FileToCompute], columns: Collection[str], folder: str) -> None:
        rows, names = self._rows(files)
        computed = self._transform.project(rows, *names)
        stored = self._sink.stored_columns(computed, columns)
        outer, inner, _ = (unused(name, computed.select(*stored).columns) for name in (FILE, GROUP, ROW))
        labels = [F.col(quoted(name)).alias(label) for name, label in zip(names, (outer, inner), strict=False)]
        if int(self._spark.conf.get(WRITERS) or 0) < PARTS_MAX:
            # Else Spark would sort by the labels alone, and promises nothing of the order within.
            computed = computed.sortWithinPartitions(*map(quoted, names))
        writer = computed.select(*labels, *stored).write.mode("overwrite").option("maxRecordsPerFile", 0)
        with while_staging(folder):
            writer.partitionBy(outer, inner).parquet(folder)

    def _rows(self, files: Sequence[FileToCompute]) -> tuple[DataFrame, tuple[str, ...]]:
        """Return all rows of files with the numbers of file, row group and row; files with the same row groups are read together."""
        by_starts: dict[tuple[int, ...], list[int]] = {}
        for at, one in enumerate(files):
            by_starts.setdefault(starts(one.groups), []).append(at)
        frames, names = list[DataFrame](), tuple[str, ...]()
        for firsts, members in by_starts.items():
            rows, number, row = self._source.numbered_rows([files[at].file for at in members])
            names = tuple(unused(name, rows.columns) for name in (FILE, GROUP, ROW))
            labels = [_numbered(number, members), _group(row, firsts), row]
            frames.append(rows.select("*", *(one.alias(name) for one, name in zip(labels, names, strict=True))))
        return reduce(DataFrame.unionAll, frames), names


def _numbered(number: Column, members: Sequence[int]) -> Column:
    """Return the number of a row's file among all files, from that among those that are read together."""
    if members == list(range(len(members))):
        return number.cast("int")
    return F.element_at(F.array(*map(F.lit, members)), number.cast("int") + 1)


def _group(row: Column, firsts: Sequence[int]) -> Column:
    """Return the row group of a row, told by the first row of each."""
    found = F.lit(0)
    for group, first in list(enumerate(firsts))[1:]:
        found = F.when(row >= first, group).otherwise(found)
    return found


def _parts(paths: Sequence[str]) -> dict[tuple[int, int], list[str]]:
    """Return paths by the numbers of file and row group, as the names of their folders say."""
    found: dict[tuple[int, int], list[str]] = {}
    for path in paths:
        named = _PART.search(path)
        if named is not None:
            found.setdefault((int(named[1]), int(named[2])), []).append(path)
    return found
