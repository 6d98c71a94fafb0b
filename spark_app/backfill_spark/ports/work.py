"""What the driver offers to the code that does a piece of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from backfill_core.protocol.work import FileRange, NewColumns, StagedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.delta.deletion_vectors import VectorDescriptor
    from backfill_spark.driver.job_context import OpenedJob
    from backfill_spark.transfer.file_transfer import PlannedCopy, Transferred
    from backfill_spark.transfer.job_copies import JobCopies
    from backfill_spark.transfer.job_ways import PlannedRange


class WorkContext(Protocol):
    """One piece of work under way, on the thread that does it."""

    @property
    def job(self) -> OpenedJob:
        """The job: session, spec, source, transform, write mode, sink and committer."""

    def relaid(self, version: int, columns: NewColumns) -> WorkContext:
        """Return the same work in the job as it is with the columns of a later version of the source, and these in the target."""

    def check(self) -> None:
        """End the work here if its end was asked for; to be called often by work that runs no Spark job."""

    def stage(self, rows: DataFrame, *, what: str, folder: str = "") -> tuple[StagedFile, ...]:
        """Write rows as files that no reader sees until a commit names them; `what` says in a message which they are.

        They lie in a `folder` of their own below that of the work, where one is named and the sink takes it (`SupportsShipping`).

        The job that writes counts them. What a failed or cancelled piece of work staged is removed.

        Raises:
            StagedFilesGoneError, AccountingError: the files do not hold the rows that were written.
        """

    def copy(
        self, planned: Sequence[PlannedRange], *, segment: int | None = None
    ) -> tuple[tuple[StagedFile, ...], tuple[FileRange, ...]]:
        """Stage copies of whole files; return them, and the ranges that must be decoded after all, as their footers say.

        `copies.ways.split` tells which files among some ranges need no decoding. With a segment they lie in the folder of that.

        Raises:
            SourceDamagedError, AccountingError: a file is not what the source's log says.
        """

    @property
    def copies(self) -> JobCopies:
        """What is known of the job's copies: the way of each file, and where copies lie."""

    @property
    def folder(self) -> str:
        """The folder for what the work stages, below the target's."""

    def copy_files(self, files: Sequence[PlannedCopy], *, vectors: Sequence[VectorDescriptor] = ()) -> Transferred:
        """Stage copies of files of any version, their deletion vectors, and some vectors more.

        Raises:
            SourceDamagedError, AccountingError: a file is not what the source's log says.
        """

    def stage_records(self, records: DataFrame, *, what: str) -> tuple[StagedFile, ...]:
        """Transform records with a partition and an offset, and write them as `stage`.

        Those that the transform cannot parse are among the files too, for a table of their own (`StagedFile.quarantined_by`).

        Raises:
            BadRecordError: there are some, and the source says that they end the job.
            StagedFilesGoneError, AccountingError: as `stage`.
        """

    def stage_bad_records(self, records: DataFrame, *, what: str) -> tuple[StagedFile, ...]:
        """Write those of some records that the transform cannot parse as files for their own table; none, where there is none."""

    def stage_segments(self, rows: DataFrame, *, label: str, what: str) -> tuple[StagedFile, ...]:
        """Write as `stage`, the rows of each value of column `label` into files of their own; a file tells its segment."""

    def begin_effect(self) -> None:
        """Say that the next step changes the target itself: from here on a cancellation waits for the work's own answer.

        Ends the work here if its end was asked for before.
        """
