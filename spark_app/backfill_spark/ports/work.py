"""The interface that the driver offers to the runner of a unit of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from backfill_core.protocol.work import FileRange, NewColumns, StagedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.delta.deletion_vectors import VectorDescriptor
    from backfill_spark.opening.tables import Tables
    from backfill_spark.transfer.file_transfer import PlannedCopy, Transferred
    from backfill_spark.transfer.job_copies import JobCopies
    from backfill_spark.transfer.job_ways import PlannedRange


class WorkContext(Protocol):
    """One running unit of work, used on the thread that runs it."""

    @property
    def tables(self) -> Tables:
        """The job's tables: session, spec, source, transform, write mode, sink and committer."""

    def relaid(self, version: int, columns: NewColumns) -> WorkContext:
        """Return the same work for the job with the columns of a later version of the source, and with `columns` in the target."""

    def check(self) -> None:
        """End the work here if it was cancelled; work that runs no Spark job calls this often."""

    def stage(self, rows: DataFrame, *, what: str, folder: str = "") -> tuple[StagedFile, ...]:
        """Write rows as files that no reader sees until a commit references them; `what` describes the rows in messages.

        With `folder`, the files go to that subfolder of the work's folder; the sink must support that (`SupportsShipping`).

        The writing Spark job counts the rows. Files that a failed or cancelled unit of work staged are removed.

        Raises:
            StagedFilesGoneError, AccountingError: the files do not hold the rows that were written.
        """

    def copy(
        self, planned: Sequence[PlannedRange], *, segment: int | None = None
    ) -> tuple[tuple[StagedFile, ...], tuple[FileRange, ...]]:
        """Stage copies of whole files; return the copies, and the ranges that must be decoded because of their footers.

        `copies.ways.split` separates the files that need no decoding. With a segment, the copies go to the segment's folder.

        Raises:
            SourceDamagedError, AccountingError: a file does not match its entry in the source's log.
        """

    @property
    def copies(self) -> JobCopies:
        """The job's copies: the copy mode of each file, and the locations of the copies."""

    @property
    def folder(self) -> str:
        """Folder for files that the work stages, below the target's folder."""

    def copy_files(self, files: Sequence[PlannedCopy], *, vectors: Sequence[VectorDescriptor] = ()) -> Transferred:
        """Stage copies of files of any version, their deletion vectors, and the additional `vectors`.

        Raises:
            SourceDamagedError, AccountingError: a file does not match its entry in the source's log.
        """

    def stage_records(self, records: DataFrame, *, what: str) -> tuple[StagedFile, ...]:
        """Transform records with a partition and an offset, and write them like `stage`.

        Records that the transform cannot parse are written to separate files for the table of bad records (`StagedFile.quarantined_by`).

        Raises:
            BadRecordError: there are bad records, and the source's spec requires that they end the job.
            StagedFilesGoneError, AccountingError: as `stage`.
        """

    def stage_bad_records(self, records: DataFrame, *, what: str) -> tuple[StagedFile, ...]:
        """Write only the records that the transform cannot parse, for the table of bad records; no files without such a table."""

    def stage_segments(self, rows: DataFrame, *, label: str, what: str) -> tuple[StagedFile, ...]:
        """Write rows like `stage`, with separate files for each value of column `label`; each file records its segment."""

    def begin_effect(self) -> None:
        """Mark that the next step changes the target itself: a later cancellation waits for the work's own answer.

        Ends the work here if it was already cancelled.
        """
