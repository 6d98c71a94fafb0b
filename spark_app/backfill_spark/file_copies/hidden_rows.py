"""Counts the rows of files that fail the filter, and hides them in the copies by deletion vectors.

A Spark job reads the filter's columns of many files. It reads no row that the source hides, because the filter may fail there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from backfill_core.errors import SourceDamagedError
from backfill_core.file_copies.hidden_rows import Outcome, outcome
from backfill_core.phases.accounting import check_read
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.added_files import BESIDE
from backfill_spark.delta.deletion_vectors import VectorDescriptor
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.delta.vectors.bitmaps import Bitmap, bitmap_of, joined, write_vectors
from backfill_spark.file_copies.bytes import ByteCopier
from backfill_spark.file_copies.copied_files import Filtered, FilteredFile, PlannedCopy
from backfill_spark.file_copies.vector_copies import RESTORE, copied_vectors
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line
from backfill_spark.jvm.failures import Trouble, trouble_of
from backfill_spark.jvm.workers import at_once
from backfill_spark.ports.source import SupportsFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE, ROW = "__backfill_file", "__backfill_row"

FILES_MAX, ROWS_MAX = 4096, 1 << 31
"""Most files and rows of one Spark job. Their bitmaps have 256 MiB at most; Spark ends a job whose result exceeds 1 GiB."""


def filtered(spark: SparkSession, source: SupportsFiles, where: str, files: Sequence[PlannedCopy]) -> Filtered:
    """Count the failing rows of files that are not filtered yet; return all files with a visible row that passes.

    Raises:
        AccountingError: a file has more rows than the source's log records.
        Spark's error for a row for which the filter cannot be computed.
    """
    unfiltered = [planned for planned in files if planned.is_unfiltered]
    failing = failing_rows(spark, source, where, [planned.file for planned in unfiltered])
    copies, decoded = list[PlannedCopy](), list[PlannedCopy]()
    by_path = {planned.file.path: rows for planned, rows in zip(unfiltered, failing, strict=True)}
    for planned in files:
        if not planned.is_unfiltered:
            copies.append(planned)
            continue
        rows, visible = by_path[planned.file.path], planned.rows - planned.file.deleted
        match outcome(planned.file.path, visible=visible, failing=0 if rows is None else rows.rows):
            case Outcome.UNCHANGED | Outcome.HIDE:
                copies.append(replace(planned, is_unfiltered=False, failing=rows))
            case Outcome.DECODE:
                decoded.append(planned)
            case Outcome.LEAVE_OUT:
                pass
    return Filtered(tuple(copies), tuple(decoded))


def failing_rows(
    spark: SparkSession, source: SupportsFiles, where: str, files: Iterable[SourceFile]
) -> Iterator[Bitmap | None]:
    """Yield the visible rows of each file for which a filter is false or null, in the order of the files; `None` if there are none.

    A Spark job counts the rows of the next files, as many as `FILES_MAX` and `ROWS_MAX` allow.
    """
    for block in _blocks(files):
        rows, file, row = source.numbered_rows(block)
        failing = rows.where(~F.coalesce(F.expr(where), F.lit(False)))
        numbered = failing.select(file.alias(FILE), row.alias(ROW))
        counted = numbered.groupBy(FILE).agg(bitmap_of(spark, ROW).alias("failing"))
        by_file = {
            int(found[FILE]): Bitmap(int(found["failing"]["cardinality"]), bytes(found["failing"]["bitmap"]))
            for found in counted.collect()
        }
        yield from (by_file.get(index) for index in range(len(block)))


def _blocks(files: Iterable[SourceFile]) -> Iterator[list[SourceFile]]:
    """Yield the files of each Spark job."""
    block, rows = list[SourceFile](), 0
    for file in files:
        of_file = file.counts(())[0] or 0
        if block and (len(block) >= FILES_MAX or rows + of_file > ROWS_MAX):
            yield block
            block, rows = [], 0
        block.append(file)
        rows += of_file
    if block:
        yield block


def with_vectors(
    spark: SparkSession,
    copier: ByteCopier,
    copies: Sequence[PlannedCopy],
    more: Sequence[VectorDescriptor],
    folder: str,
    check: Callable[[], None],
    at_once_max: int,
) -> tuple[dict[str, SourceFile], tuple[StagedFile, ...]]:
    """Stage the vectors of copies, and `more` vectors of the source; see `copied_vectors` and `with_hidden_rows`.

    Returns:
        The source file of each copy, with the vector of the copy, by its path.
        The staged files of all vectors.
    """
    unchanged = [copy.file.vector for copy in copies if copy.failing is None and copy.file.vector is not None]
    copied = copied_vectors(spark, copier, (*more, *unchanged), folder, check=check, at_once_max=at_once_max)
    hidden, written = with_hidden_rows(spark, copier, [copy.filtered for copy in copies], folder, check, at_once_max)
    return {file.path: file for file in hidden}, (*copied, *written)


def with_hidden_rows(
    spark: SparkSession,
    copier: ByteCopier,
    files: Sequence[FilteredFile],
    folder: str,
    check: Callable[[], None],
    at_once_max: int,
) -> tuple[list[SourceFile], tuple[StagedFile, ...]]:
    """Write the deletion vectors of files with failing rows into one file of a folder, and read them back.

    Returns:
        All files; those with failing rows have their new vector, which also hides the rows that the source hides.
        The staged file of these vectors, if there are any.

    Raises:
        SourceDamagedError: a vector of the source cannot be read.
        AccountingError: a vector of the source hides another number of rows than the log records, or the file of vectors was damaged.
        JAVA_ERRORS: one of the two file systems failed.
    """
    hiding = [(file.source, file.failing) for file in files if file.failing is not None]
    if not hiding:
        return [file.source for file in files], ()
    joins = [partial(_all_hidden, spark, copier.source, source, failing, check) for source, failing in hiding]
    written = write_vectors(spark, copier.target, folder, at_once(joins, at_once_max))
    vectors = {source.path: vector for (source, _), vector in zip(hiding, written.vectors, strict=True)}
    staged = StagedFile(copier.staged_path(written.path), written.size_bytes, 0, BESIDE)
    return [replace(file.source, vector=vectors.get(file.source.path, file.source.vector)) for file in files], (staged,)


def _all_hidden(
    spark: SparkSession, source: str, file: SourceFile, failing: Bitmap, check: Callable[[], None]
) -> Bitmap:
    """Return the failing rows of a file and the rows that the source hides."""
    check()
    vector = file.vector
    if vector is None:
        return failing
    try:
        both = joined(spark, source, failing, vector)
    except JAVA_ERRORS as error:
        if trouble_of(error) not in (Trouble.DAMAGED, Trouble.UNKNOWN):
            raise
        raise SourceDamagedError(
            f"the deletion vector of {file.path} of the source cannot be read: {first_line(error)}.", hint=RESTORE
        ) from error
    check_read(f"the deletion vector of {file.path}", read=both.rows, promised=failing.rows + vector.cardinality)
    return both
