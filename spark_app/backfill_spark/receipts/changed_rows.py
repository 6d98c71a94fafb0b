"""Comparison of only the files that changed on both sides since an earlier receipt: added rows count 1, removed rows -1.

Damage to an unchanged file is not found: the earlier receipt covers these files, and its version is part of the result.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from backfill_core.errors import BackfillError
from backfill_core.file_copies.copy_digest import CopyDigest
from backfill_core.protocol.receipt import FileDifference, ReceiptBasis, TableReceipt
from backfill_core.switch_over.coverage import EXPIRED, GONE, ChangedFiles, Everything, changed_files, is_worthwhile
from backfill_spark.delta.log import files_at
from backfill_spark.delta.spark_internals import SparkDeltaLog, delta_actions
from backfill_spark.delta.statistics.misstated import misstated
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.failures import Trouble, trouble_of
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsFiles
from backfill_spark.receipts.row_sums import SIGN, SignedSums, signed_sums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.delta.source_file import LoggedFile
    from backfill_spark.opening.tables import Tables


@dataclass(frozen=True)
class ChangesReceipt:
    """Comparison of changed files."""

    receipt: TableReceipt
    source: ChangedFiles[LoggedFile]
    target: ChangedFiles[LoggedFile]


HELD_FILES_MAX = 100_000
"""Largest list that is held in memory until the next comparison."""


class FileLists:
    """Files of the two versions that were compared last: the next comparison starts from them, and does not read them again."""

    def __init__(self) -> None:
        """Hold no version."""
        self._held: dict[str, tuple[int, Sequence[LoggedFile]]] = {}

    def files(self, path: str, version: int, read: Callable[[int], Sequence[LoggedFile]]) -> Sequence[LoggedFile]:
        """Return the files of a version of a table; they are read unless the last comparison read them."""
        held, files = self._held.get(path, (None, ()))
        return files if held == version else read(version)

    def hold(self, path: str, version: int, files: Sequence[LoggedFile]) -> None:
        """Hold the files of a version for the next comparison, instead of those of an earlier version; a longer list is read again."""
        if len(files) <= HELD_FILES_MAX:
            self._held[path] = version, files
        else:
            self._held.pop(path, None)


@dataclass(frozen=True)
class ChangedRows:
    """Both sides of a job between an earlier receipt and a later version of each."""

    tables: Tables
    base: TableReceipt
    basis: ReceiptBasis
    source_version: int
    target_version: int
    check: Callable[[], None]
    """Called before each Spark job; an exception that it raises ends the comparison."""

    lists: FileLists = field(default_factory=FileLists)

    def receipt(self, *, epoch: int) -> ChangesReceipt | Everything:
        """Compare the changed files; return the reason if only a comparison of everything is possible or sensible."""
        began_s = time.monotonic()
        try:
            source, target = self._source_files(), self._target_files()
        except (*JAVA_ERRORS, BackfillError):
            return Everything(
                EXPIRED
            )  # if the newest version cannot be read either, the comparison of everything reports it
        try:
            if not is_worthwhile(source, target):
                return Everything("the files that changed since the last receipt are larger than the tables")
            self.check()
            receipt = self._compared(source, target, epoch)
        except JAVA_ERRORS as error:
            if trouble_of(error) is Trouble.GONE:
                return Everything(GONE)
            raise
        return ChangesReceipt(replace(receipt, seconds=round(time.monotonic() - began_s, 3)), source, target)

    def warm_up(self) -> None:
        """Compare the smallest file of each side with itself: a Java that has just started loads and compiles the code."""
        sides = (self._source.files_of(self.source_version), self._files_of_target(self.target_version))
        if all(sides):
            files = [min(side, key=lambda file: file.bytes) for side in sides]
            self._sums(*(ChangedFiles((file,), (file,), 1, 2 * file.bytes, file.bytes) for file in files))

    @property
    def _source(self) -> SupportsFiles:
        return ability(self.tables.source, SupportsFiles)

    def _source_files(self) -> ChangedFiles[LoggedFile]:
        assert self.base.source_version is not None, "the base has versions"
        return self._changed(self._source.path, self.base.source_version, self.source_version, self._source.files_of)

    def _target_files(self) -> ChangedFiles[LoggedFile]:
        versions = self.base.target_version, self.target_version
        return self._changed(self.tables.sink.path, *versions, self._files_of_target)

    def _changed(
        self, path: str, before: int, after: int, read: Callable[[int], Sequence[LoggedFile]]
    ) -> ChangedFiles[LoggedFile]:
        earlier = self.lists.files(path, before, read)
        later = earlier if after == before else read(after)
        self.lists.hold(path, after, later)
        return changed_files(earlier, later, action=lambda file: file.action, size=lambda file: file.bytes)

    def _files_of_target(self, version: int) -> list[LoggedFile]:
        return files_at(self.tables.spark, self.tables.sink.path, version, nulls_of=())

    def _sums(self, source: ChangedFiles[LoggedFile], target: ChangedFiles[LoggedFile]) -> SignedSums:
        tables = self.tables
        return signed_sums(
            self._rows_of_source(source), self._rows_of_target(target), key=tables.key,
            vnodes=tables.spec.strategy.params.vnodes, mode=tables.mode,
        )  # fmt: skip

    def _compared(self, source: ChangedFiles[LoggedFile], target: ChangedFiles[LoggedFile], epoch: int) -> TableReceipt:
        tables, base = self.tables, self.base
        receipt = replace(
            base, source_version=self.source_version, target_version=self.target_version, epoch=epoch, basis=self.basis,
            source_position=tables.source_plugin.format_position(self.source_version), verified_ms=None,
            rows_filtered=None, rows_total=None,
        )  # fmt: skip
        if source.count or target.count:
            sums = self._sums(source, target)
            digest = hashlib.sha256(f"{base.digest}\n{sums.digest}\n".encode()).hexdigest()
            receipt = replace(
                receipt, rows=base.rows + sums.rows, mismatches=sums.mismatches, digest=digest, condition=sums.condition
            )
        return replace(receipt, files=self._misstated(target))

    def _rows_of_source(self, files: ChangedFiles[LoggedFile]) -> DataFrame:
        tables = self.tables
        assert self.base.source_version is not None, "the base has versions"

        version = self.base.source_version  # the columns of both versions are the same

        def rows(some: Sequence[LoggedFile], sign: int) -> DataFrame:
            frame = self._source.rows_of([file.action for file in some], version)
            return tables.sink.as_stored(tables.transform.apply(frame)).withColumn(SIGN, F.lit(sign))

        return _signed(files, rows)

    def _rows_of_target(self, files: ChangedFiles[LoggedFile]) -> DataFrame:
        log = SparkDeltaLog(self.tables.spark, self.tables.sink.path)

        snapshot = log.at(self.base.target_version)  # the columns of both versions are the same

        def rows(some: Sequence[LoggedFile], sign: int) -> DataFrame:
            actions = delta_actions(self.tables.spark, [file.action for file in some])
            return log.frame(actions, snapshot).withColumn(SIGN, F.lit(sign))

        return _signed(files, rows)

    def _misstated(self, files: ChangedFiles[LoggedFile]) -> tuple[FileDifference, ...]:
        """Return copied files whose statistics exclude rows that they contain, as a comparison of everything does."""
        copied = [file for file in files.added if CopyDigest.of_tags(json.loads(file.action)["add"].get("tags"))]
        return misstated(self.tables.spark, self.tables.sink.path, self.target_version, copied)


def _signed(files: ChangedFiles[LoggedFile], rows: Callable[[Sequence[LoggedFile], int], DataFrame]) -> DataFrame:
    """Return added rows with 1 and removed rows with -1; a frame without files costs time, so only one may be empty."""
    if not files.removed:
        return rows(files.added, 1)
    removed = rows(files.removed, -1)
    return rows(files.added, 1).unionAll(removed) if files.added else removed
