"""What becomes of the records of a source that its transform cannot parse (ADR 0023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_api.amounts import counted
from backfill_api.spec.params import OffsetSourceParams
from backfill_api.spec.spec import Backfill
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
from backfill_spark.ports.sink import Quarantine
from backfill_spark.rows.records.parsing import REASON
from backfill_spark.sinks import SinkPlugin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

DOMAIN = "backfillQuarantine."
"""Not a domain of states: a table of bad records may be shared by jobs, and another job may fill it."""

REASON_COLUMN = "_reason"


@dataclass(frozen=True)
class OpenedQuarantine:
    """The table of the bad records of one job."""

    sink: Quarantine
    committer: Committer
    field: str
    """Of the spec, that names it."""

    schema: StructType
    """Its columns: those of the source, and the reason."""

    keeps: bool
    """Do bad records go there now? Else only those that a commit announced while they did."""

    def check(self, *, target_path: str) -> None:
        """Refuse a table that cannot be filled, before anything is written.

        Raises:
            InvalidSpecError: it is the target, or lies in its folder.
            BackfillError: as `Sink.check`.
        """
        try:
            self.sink.check(self.schema, source_path=target_path, has_state=True)
        except TargetIsSourceError:
            raise InvalidSpecError(
                f"{self.field}: {self.sink.path} and the target {target_path} share a folder.",
                hint="Give bad records a folder of their own.",
            ) from None
        if self.sink.exists():
            self.committer.check()

    def make(self) -> None:
        """Make the table when it is missing."""
        self.sink.prepare(self.schema)

    def stage(self, bad: DataFrame, *, attempt: int, work_id: int) -> tuple[StagedFile, ...]:
        """Write bad records, with their reason, as files that no reader sees."""
        rows = bad.withColumnRenamed(REASON, REASON_COLUMN)
        paths = self.sink.stage(rows, attempt=attempt, work_id=work_id)
        files = self.committer.measure(paths)
        return tuple(StagedFile(one.path, one.size_bytes, one.rows, quarantined_by=work_id) for one in files)

    def commit(self, announced: AnnouncedRecords) -> None:
        """Bring the bad records of one commit of the target in, once, however often it is called and by which process.

        Raises:
            StagedFilesGoneError: they are not all where they were staged.
            BackfillError: the storage refused; says whether it may pass.
        """
        if self._has(announced):
            return
        staged = (self.sink.staged_by(announced.attempt, work_id) for work_id in announced.works)
        files = self.committer.measure([path for paths in staged for path in paths])
        found = sum(file.rows for file in files)
        if found != announced.rows:
            raise StagedFilesGoneError(
                f"a commit announced {counted(announced.rows, 'bad record')}, and {found:,} are staged below {self.sink.path}.",
                hint=f"Restore {self.field}, and run no VACUUM with a short retention there while the job is unfinished.",
            )
        try:
            self.committer.seal(announced.txn, files, "{}")
        except FencedError:
            # Another process of this job made the same commit meanwhile.
            if not self._has(announced):
                raise

    def _has(self, announced: AnnouncedRecords) -> bool:
        known = self.committer.read_state().txn_version
        return known is not None and known >= announced.txn


def open_quarantine(
    spark: SparkSession, backfill: Backfill, plugin: SinkPlugin, schema: StructType
) -> OpenedQuarantine | None:
    """Open the table of bad records that a source names; None: it names none. Nothing is written.

    Args:
        spark: Session of the job.
        backfill: The job.
        plugin: The kind of its target.
        schema: Columns of the source.

    Raises:
        InvalidSpecError: such targets have no table of bad records, or its path names no place.
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
    """Return the error of a state that announces bad records, of a spec without a table for them."""
    return StateMismatchError(
        f"the target's state announces {counted(announced.rows, 'bad record')}, and the source names no quarantinePath.",
        hint="Restore quarantinePath: they are staged there. onBadRecord may change.",
    )
