"""Files of the target as files of the source: copies, deletion vectors, and the lines of the source's commit."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from backfill_core.errors import TargetDamagedError
from backfill_core.log_shipping.actions import FileAdded
from backfill_core.log_shipping.target_files import OtherVector, TargetCopy, TargetStep
from backfill_core.positions.source_names import RowOrder, name_of
from backfill_spark.delta.deletion_vectors import VectorDescriptor
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.file_copies.bytes import STREAMS_AT_ONCE, ByteCopier
from backfill_spark.file_copies.vector_copies import copied_vectors
from backfill_spark.jvm.workers import at_once
from backfill_spark.log_shipping.file_actions import removal, with_fields

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class BackFiles:
    """Copies files of the target into the folder of the source. A file of a copy that no commit names is removed by VACUUM."""

    spark: SparkSession
    target: str
    source: str
    check: Callable[[], None]
    """Called often; an exception that it raises ends the copy."""

    def staged(self, step: TargetStep) -> tuple[str, ...]:
        """Copy the files of a step, and return the added and removed files of the source as lines of a commit.

        Raises:
            TargetDamagedError: a file differs from the target's log.
            SourceDamagedError, AccountingError: a deletion vector of the target cannot be read, or differs from its log.
            JAVA_ERRORS: the storage failed.
        """
        unique, now_ms = secrets.token_hex(4), time.time_ns() // 1_000_000
        if step.copies or step.vectors:
            self._copy(step, unique)
        return tuple(_lines(step, unique, now_ms))

    def _copy(self, step: TargetStep, unique: str) -> None:
        copier = ByteCopier(self.spark, self.target, self.source)
        for folder in sorted({unquote(_folder(copy.file.path)) for copy in step.copies} - {""}):
            copier.make_folder(folder)
        tasks = [partial(self._copy_file, copier, copy.file, unique) for copy in step.copies]
        at_once(tasks, copier.threads or STREAMS_AT_ONCE)
        logged = (*(copy.file for copy in step.copies), *(file.source for file in step.vectors))
        vectors = [vector for file in logged if (vector := _vector(file)) is not None and not vector.is_inline]
        if vectors:
            copier.make_folder(_vector_folder(unique))
            most = copier.threads or STREAMS_AT_ONCE
            copied_vectors(self.spark, copier, vectors, _vector_folder(unique), check=self.check, at_once_max=most)

    def _copy_file(self, copier: ByteCopier, file: FileAdded, unique: str) -> None:
        copied = copier.copy(unquote(file.path), unquote(_copied_path(file.path, unique)), check=self.check)
        if copied.size_bytes != file.bytes:
            raise TargetDamagedError(
                f"{file.path} of {self.target} has {copied.size_bytes:,} bytes, and its log entry {file.bytes:,}.",
                hint="Restore the file from a backup.",
            )


def _lines(step: TargetStep, unique: str, now_ms: int) -> Iterator[str]:
    for removed in step.removals:
        yield removal(removed.file.action, data_change=removed.data_change, now_ms=now_ms)
    for other in step.vectors:
        yield removal(other.file.action, data_change=other.data_change, now_ms=now_ms)
        yield _with_vector(other, unique)
    for copy in step.copies:
        yield _added(copy, unique)


def _added(copy: TargetCopy, unique: str) -> str:
    vector = _described(_vector(copy.file), unique)
    path = _copied_path(copy.file.path, unique)
    return with_fields(copy.file.action, path=path, deletionVector=vector, dataChange=copy.data_change)


def _with_vector(other: OtherVector, unique: str) -> str:
    """Return the source's file with the vector and the statistics of the target's file, which has the same bytes."""
    stats = json.loads(other.source.action)["add"].get("stats")
    vector = _described(_vector(other.source), unique)
    return with_fields(other.file.action, stats=stats, deletionVector=vector, dataChange=other.data_change)


def _vector(file: FileAdded) -> VectorDescriptor | None:
    return SourceFile.of(json.loads(file.action)["add"]).vector


def _described(vector: VectorDescriptor | None, unique: str) -> dict[str, Any] | None:
    if vector is None:
        return None
    return dict((vector if vector.is_inline else vector.in_folder(_vector_folder(unique))).fields)


def _vector_folder(unique: str) -> str:
    return f"vectors-{unique}"


def _copied_path(path: str, unique: str) -> str:
    """Return the path of a copy, in the same partition folder; both are spelled as in the log."""
    folder, name = _folder(path), name_of(path, RowOrder.KEPT, unique)
    return f"{folder}/{name}" if folder else name


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
