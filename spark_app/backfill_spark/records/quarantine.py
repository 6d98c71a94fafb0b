"""The table of bad records: records of a source that its transform cannot parse (ADR 0023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_api.amounts import counted
from backfill_api.spec.params import OffsetSourceParams
from backfill_api.spec.spec import BackfillResource
from backfill_core.errors import (
    BackfillError,
    FencedError,
    InvalidSpecError,
    StagedFilesGoneError,
    StateMismatchError,
    TargetIsSourceError,
)
from backfill_core.protocol.quarantine import AnnouncedRecords
from backfill_core.protocol.work import StagedFile
from backfill_spark.ports.committer import Committer
from backfill_spark.ports.sink import QuarantineTable, SinkPlugin
from backfill_spark.records.parsing import REASON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

DOMAIN = "backfillQuarantine."
"""Separate from the domains of job states: jobs may share a table of bad records, and another job may have it as its target."""

REASON_COLUMN = "_reason"


@dataclass(frozen=True)
class OpenedQuarantine:
    """The table of the bad records of one job."""

    sink: QuarantineTable
    committer: Committer
    field: str
    """Field of the spec that names the table."""

    schema: StructType
    """The source's columns and the reason."""

    keeps: bool
    """True if the table gets new bad records. Otherwise, it gets only records that an earlier commit announced."""

    def check(self, *, target_path: str) -> None:
        """Reject a table that cannot be filled, before anything is written.

        Raises:
            InvalidSpecError: the table is the target, or one of them is inside the other's folder.
            BackfillError: as `Sink.check`.
        """
        try:
            self.sink.check(self.schema, source_path=target_path, has_state=True)
        except TargetIsSourceError:
            raise InvalidSpecError(
                f"{self.field}: {self.sink.path} and the target {target_path} share a folder.",
                hint="Give bad records a separate folder.",
            ) from None
        if self.sink.exists():
            self.committer.check()

    def make(self) -> None:
        """Create the table if it is missing."""
        self.sink.prepare(self.schema)

    def stage(self, bad: DataFrame, *, attempt: int, work_id: int) -> tuple[StagedFile, ...]:
        """Write bad records with their reasons as files that no reader sees."""
        rows = bad.withColumnRenamed(REASON, REASON_COLUMN)
        paths = self.sink.stage(rows, attempt=attempt, work_id=work_id)
        files = self.committer.measure(paths)
        return tuple(StagedFile(file.path, file.size_bytes, file.rows, quarantined_by=work_id) for file in files)

    def commit(self, announced: AnnouncedRecords) -> None:
        """Commit the bad records that one commit of the target announced; idempotent across calls and processes.

        Raises:
            StagedFilesGoneError: some staged records are missing.
            BackfillError: the storage failed; the error is retryable if it may be transient.
        """
        if self._has(announced):
            return
        staged = (self.sink.staged_by(announced.attempt, work_id) for work_id in announced.works)
        files = self.committer.measure([path for paths in staged for path in paths])
        staged_rows = sum(file.rows for file in files)
        if staged_rows != announced.rows:
            raise StagedFilesGoneError(
                f"a commit announced {counted(announced.rows, 'bad record')}, and {staged_rows:,} are staged below {self.sink.path}.",
                hint=f"Restore {self.field}, and run no VACUUM with a short retention there while the job is unfinished.",
            )
        try:
            self.committer.seal(announced.txn, files, "{}")
        except FencedError:
            # Another process of this job made the same commit concurrently.
            if not self._has(announced):
                raise

    def _has(self, announced: AnnouncedRecords) -> bool:
        newest = self.committer.read_state().txn_version
        return newest is not None and newest >= announced.txn


def open_quarantine(
    spark: SparkSession, backfill: BackfillResource, plugin: SinkPlugin, schema: StructType
) -> OpenedQuarantine | None:
    """Open the table of bad records that a source names; `None` if it names none. Nothing is written.

    Args:
        spark: Session of the job.
        backfill: The job.
        plugin: Plug-in of the job's target type.
        schema: Columns of the source.

    Raises:
        InvalidSpecError: the target type supports no table of bad records, or the table's path is invalid.
    """
    source = backfill.spec.source
    params = source.params
    if not isinstance(params, OffsetSourceParams) or params.quarantine_path is None:
        return None
    field = f"spec.source.{source.member}.quarantinePath"
    if plugin.quarantine is None:
        raise InvalidSpecError(
            f"{field}: a target of type {plugin.name} has no table of bad records.",
            hint="Set onBadRecord: Fail and leave quarantinePath out, or use target.type: Delta.",
        )
    sink = plugin.quarantine(spark, backfill, params.quarantine_path)
    committer = sink.committer(app_id=f"backfill-{sink.job_hash}", domain=f"{DOMAIN}{sink.job_hash}")
    columns = type(schema)([*schema.fields]).add(REASON_COLUMN, "string")
    return OpenedQuarantine(sink, committer, field, columns, keeps=params.on_bad_record == "Quarantine")


def no_quarantine(announced: AnnouncedRecords) -> BackfillError:
    """Return the error for a state that announces bad records while the spec names no table for them."""
    return StateMismatchError(
        f"the target's state announces {counted(announced.rows, 'bad record')}, and the source names no quarantinePath.",
        hint="Restore quarantinePath: the records are staged there. You may change onBadRecord.",
    )
