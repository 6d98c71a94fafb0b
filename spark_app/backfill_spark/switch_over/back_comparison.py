"""Comparison of the source, after the last copy back, with the fenced target: only files that changed since the switch-over."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from backfill_core.job.state import JobState
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.switch_over.coverage import (
    EXPIRED,
    GONE,
    ChangedFiles,
    Everything,
    OnlyChanges,
    changed_files,
    coverage,
    is_worthwhile,
)
from backfill_core.switch_over.mark import Mark
from backfill_spark.delta.log import files_at
from backfill_spark.delta.source_file import LoggedFile
from backfill_spark.delta.spark_internals import SparkDeltaLog, delta_actions
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.failures import Trouble, trouble_of
from backfill_spark.receipts.changed_rows import ChangesReceipt
from backfill_spark.receipts.row_sums import SIGN, signed_sums
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.switch_over.comparisons import Compared
from backfill_spark.switch_over.tables import SwitchTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Files = ChangedFiles[LoggedFile]


@dataclass(frozen=True)
class BackComparison:
    """One version of each table; the rows of both must be equal, because no transform is between them."""

    tables: SwitchTables
    mark: Mark
    source_version: int
    target_version: int
    check: Callable[[], None]
    """Called before each Spark job; an exception that it raises ends the comparison."""

    earlier: Compared | None = None
    """Comparison before the target was fenced; `None` compares everything that changed since the switch-over."""

    def compared(self) -> Compared:
        """Compare what changed since the earlier comparison; everything if that is not possible.

        Raises:
            JAVA_ERRORS: the storage failed.
        """
        base = self._base()
        # A copy back ends if a table is replaced, or if its columns change: the basis is still that of the receipt.
        basis = None if base is None else base.basis
        chosen = coverage(base, basis, source_version=self.source_version, target_version=self.target_version)
        if isinstance(chosen, OnlyChanges):
            result = self._changes(chosen.base)
            if isinstance(result, ChangesReceipt):
                return Compared(result.receipt, chosen, result, self.earlier)
            chosen = result
        return Compared(self._taken(None, *map(_all, self._now())), chosen)

    def _base(self) -> TableReceipt | None:
        if self.earlier is not None:
            return self.earlier.receipt
        return JobState.decode(self.mark.state).receipt if self.mark.state else None

    def _changes(self, base: TableReceipt) -> ChangesReceipt | Everything:
        assert base.source_version is not None, "the base has versions"
        try:
            earlier = self._source(base.source_version), self._target(base.target_version)
        except JAVA_ERRORS:
            return Everything(EXPIRED)
        source, target = (_changed(before, now) for before, now in zip(earlier, self._now(), strict=True))
        if not is_worthwhile(source, target):
            return Everything("the files that changed since the last receipt are larger than the tables")
        try:
            return ChangesReceipt(self._taken(base, source, target), source, target)
        except JAVA_ERRORS as error:
            if trouble_of(error) is Trouble.GONE:
                return Everything(GONE)
            raise

    def _now(self) -> tuple[list[LoggedFile], list[LoggedFile]]:
        return self._source(self.source_version), self._target(self.target_version)

    def _source(self, version: int) -> list[LoggedFile]:
        return files_at(self._spark, self.tables.source.path, version, nulls_of=())

    def _target(self, version: int) -> list[LoggedFile]:
        return files_at(self._spark, self.mark.target, version, nulls_of=())

    @property
    def _spark(self) -> SparkSession:
        return self.tables.context.spark

    def _taken(self, base: TableReceipt | None, source: Files, target: Files) -> TableReceipt:
        """Return the receipt of changed files; of everything without a base."""
        self.check()
        began_s, spec = time.monotonic(), self.tables.context.backfill.spec
        vnodes = spec.strategy.params.vnodes
        receipt = replace(
            base or TableReceipt(None, 0, 0, 0, vnodes, "", (), 0.0), source_version=self.source_version,
            target_version=self.target_version, source_position=str(self.source_version), verified_ms=None,
        )  # fmt: skip
        if source.count or target.count:
            of_source = _rows(self._spark, self.tables.source.path, self.source_version, source)
            of_target = _rows(self._spark, self.mark.target, self.target_version, target)
            sums = signed_sums(of_source, of_target, key=spec.key, vnodes=vnodes, mode=APPEND)
            digest = sums.digest if base is None else _joined(base.digest, sums.digest)
            receipt = replace(receipt, rows=receipt.rows + sums.rows, mismatches=sums.mismatches, digest=digest)
        return replace(receipt, seconds=round(time.monotonic() - began_s, 3))


def _joined(digest: str, later: str) -> str:
    return hashlib.sha256(f"{digest}\n{later}\n".encode()).hexdigest()


def _rows(spark: SparkSession, path: str, version: int, files: Files) -> DataFrame:
    """Return added rows with 1 and removed rows with -1; the columns of all versions are the same."""
    log = SparkDeltaLog(spark, path)
    snapshot = log.at(version)

    def signed(some: Sequence[LoggedFile], sign: int) -> DataFrame:
        frame = log.frame(delta_actions(spark, [file.action for file in some]), snapshot)
        return frame.withColumn(SIGN, F.lit(sign))

    if not files.removed:
        return signed(files.added, 1)
    return signed(files.added, 1).unionAll(signed(files.removed, -1)) if files.added else signed(files.removed, -1)


def _all(files: Sequence[LoggedFile]) -> Files:
    return _changed((), files)


def _changed(before: Sequence[LoggedFile], after: Sequence[LoggedFile]) -> Files:
    return changed_files(before, after, action=lambda file: file.action, size=lambda file: file.bytes)
