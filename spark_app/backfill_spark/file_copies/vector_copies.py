"""Copies of deletion vector files as staged files of a target, read back before a commit refers to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from backfill_core.errors import SourceDamagedError
from backfill_core.phases.accounting import check_read
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.added_files import BESIDE
from backfill_spark.delta.deletion_vectors import VectorDescriptor, vector_of
from backfill_spark.delta.log import hidden_rows
from backfill_spark.file_copies.bytes import ByteCopier
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line
from backfill_spark.jvm.failures import Trouble, trouble_of
from backfill_spark.jvm.workers import at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESTORE = "Restore the file, or start a new job from a newer version."


def copied_vectors(
    spark: SparkSession,
    copier: ByteCopier,
    vectors: Sequence[VectorDescriptor],
    folder: str,
    *,
    check: Callable[[], None],
    at_once_max: int,
) -> tuple[StagedFile, ...]:
    """Copy the files of vectors into the folder of a piece of work; return them as staged files without rows. Inline vectors have none.

    Raises:
        SourceDamagedError: a vector cannot be read.
        AccountingError: the number of rows that a vector hides differs from the log.
        JAVA_ERRORS: one of the two file systems failed.
    """
    stored = [vector for vector in vectors if not vector.is_inline]
    paths = sorted({vector.file for vector in stored})
    copied = at_once([partial(_copied, copier, path, folder, check) for path in paths], at_once_max)
    at_once([partial(_check, spark, copier.target, vector, folder, check) for vector in stored], at_once_max)
    return tuple(copied)


def _copied(copier: ByteCopier, path: str, folder: str, check: Callable[[], None]) -> StagedFile:
    below = f"{folder}/{path.rsplit('/', 1)[-1]}"
    size_bytes = copier.copy(path, below, check=check).size_bytes
    return StagedFile(copier.staged_path(below), size_bytes, 0, BESIDE)


def _check(spark: SparkSession, target: str, vector: VectorDescriptor, folder: str, check: Callable[[], None]) -> None:
    """Reject a copied vector that is unreadable, or whose number of hidden rows differs from the log."""
    check()
    copied = vector_of({"deletionVector": vector.in_folder(folder).fields})
    assert copied is not None
    try:
        rows = len(hidden_rows(spark, target, copied))
    except JAVA_ERRORS as error:
        if trouble_of(error) not in (Trouble.DAMAGED, Trouble.UNKNOWN):
            raise
        raise SourceDamagedError(
            f"the deletion vector {vector.file} of the source cannot be read: {first_line(error)}.", hint=RESTORE
        ) from error
    check_read(vector.file, read=rows, promised=vector.cardinality)
