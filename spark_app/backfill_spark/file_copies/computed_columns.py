"""Computes the computed columns of whole files, without the copied ones, into a separate file for each row group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_core.file_copies.computed_parts import FILES_MAX, Groups, in_order, rounds
from backfill_spark.delta.types import quoted
from backfill_spark.file_copies.footers import Footer
from backfill_spark.jvm.failures import while_staging
from backfill_spark.rows.columns import unused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.delta.source_file import SourceFile
    from backfill_spark.ports.sink import SupportsCopies
    from backfill_spark.ports.source import SupportsFiles
    from backfill_spark.rows.transform import Transform

LABEL = "__backfill_part"


@dataclass(frozen=True, slots=True)
class FileToCompute:
    """A file of the source, and its row groups."""

    file: SourceFile
    groups: Groups
    split_bytes: int
    """Size of splits of which each has at most one row group."""


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
        written: Callable[[str], list[Footer]],
        check: Callable[[], None],
    ) -> list[list[Footer] | None]:
        """Write columns of files, one part per row group; return the parts of each file, `None` if one is missing.

        One Spark job computes files with up to `PARTS_MAX` row groups in total. Each of its tasks has the rows of one row group in
        their order, and writes one part. The first column of a part is its label, the same for all its rows.

        Args:
            files: Files whose row groups `can_be_joined`.
            columns: Names of output columns.
            folder: Path or URI of a folder for the parts; its contents are removed.
            written: Returns the Parquet files in a folder below that one, except encrypted ones.
            check: Called before each job; an exception that it raises ends the work.

        Raises:
            StagedFilesGoneError: a part disappeared before it was used.
            Spark's error for a row that cannot be computed.
        """
        by_file: list[list[Footer] | None] = [None] * len(files)
        for number, chosen in enumerate(rounds([file.groups for file in files])):
            check()
            self._write([files[at] for at in chosen], columns, f"{folder}/{number}")
            labelled = [(label, part) for part in written(f"{number}") if (label := part.label) is not None]
            for index, at in enumerate(chosen):
                order = in_order([label for label, _ in labelled], index, files[at].groups)
                by_file[at] = None if order is None else [labelled[place][1] for place in order]
        return by_file

    def _write(self, files: Sequence[FileToCompute], columns: Collection[str], folder: str) -> None:
        rows, name = self._rows(files)
        computed = self._transform.project(rows, name)
        stored = self._sink.stored_columns(computed, columns)
        label = F.col(quoted(name)).alias(unused(LABEL, computed.select(*stored).columns))
        with while_staging(folder):
            computed.select(label, *stored).write.mode("overwrite").option("maxRecordsPerFile", 0).parquet(folder)

    def _rows(self, files: Sequence[FileToCompute]) -> tuple[DataFrame, str]:
        """Return all rows of files, and the name of a column with the label of their split; one read for each size of splits."""
        by_size: dict[int, list[int]] = {}
        for at, file in enumerate(files):
            by_size.setdefault(file.split_bytes, []).append(at)
        frames, name = list[DataFrame](), LABEL
        for size, members in by_size.items():
            rows, number, first = self._source.split_rows([files[at].file.with_all_rows for at in members], size)
            name = unused(LABEL, rows.columns)
            frames.append(rows.select("*", (first * FILES_MAX + _numbered(number, members)).alias(name)))
        return reduce(DataFrame.unionAll, frames), name


def _numbered(number: Column, members: Sequence[int]) -> Column:
    """Return the index of a row's file among all files, from its index among the files of one read."""
    if members == list(range(len(members))):
        return number
    return F.element_at(F.array(*map(F.lit, members)), number.cast("int") + 1)
