"""Context of a piece of work: the functions that a runner may use, and the driver's record of cancellations and staged files."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from backfill_api.amounts import counted
from backfill_core.errors import TransientError
from backfill_core.phases.accounting import check_staged
from backfill_core.positions.file_ranges import FileRange
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.deletion_vectors import VectorDescriptor
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.file_copies.copied_files import FilteredFile, PlannedCopy, Transferred
from backfill_spark.file_copies.job_copies import JobCopies
from backfill_spark.file_copies.planner import PlannedRange
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import SupportsSegments, SupportsShipping
from backfill_spark.records.parsing import ParsingTransform, bad_record, is_bad
from backfill_spark.rows.counted_rows import CountedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.opening.tables import Tables


class WorkCancelledError(Exception):
    """The work was cancelled between two of its steps."""


@dataclass
class WorkLedger:
    """State of all work of an attempt; every access holds the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    cancelled: set[int] = field(default_factory=set)
    in_effect: set[int] = field(default_factory=set)
    """Work that may have changed the target; the driver waits for its result."""

    unsealed: set[str] = field(default_factory=set)
    """Files that this attempt staged and that no commit contains yet."""

    def is_cancelled(self, work_id: int) -> bool:
        """Return True if the work was cancelled."""
        with self.lock:
            return work_id in self.cancelled

    def cancel(self, work_id: int) -> bool:
        """Record the cancellation; return True if the driver must wait for the work's result."""
        with self.lock:
            self.cancelled.add(work_id)
            return work_id in self.in_effect


@dataclass(frozen=True)
class WorkContext:
    """One running unit of work, used on the thread that runs it."""

    tables: Tables
    """The job's tables: session, spec, source, transform, write mode, sink and committer."""

    attempt: int
    work_id: int
    ledger: WorkLedger
    copies: JobCopies
    """The job's copies: the copy mode of each file, and the locations of the copies."""

    def stage(self, rows: DataFrame, *, what: str, folder: str = "") -> tuple[StagedFile, ...]:
        """Write rows as files that no reader sees until a commit references them; `what` describes the rows in messages.

        With `folder`, the files go to that subfolder of the work's folder; the sink must support that (`SupportsShipping`).

        The writing Spark job counts the rows, because files may be gone before their footers are read. Files that a failed or
        cancelled unit of work staged are removed.

        Raises:
            StagedFilesGoneError, AccountingError: the files do not hold the rows that were written.
        """
        counted, sink = CountedRows(self.tables.spark, rows), self.tables.sink
        if folder:
            shipping = ability(sink, SupportsShipping)
            paths = shipping.stage_of(counted.frame, folder, attempt=self.attempt, work_id=self.work_id)
        else:
            paths = sink.stage(counted.frame, attempt=self.attempt, work_id=self.work_id)
        return self._recorded(counted, self.tables.committer.measure(paths), what)

    def copy(
        self, planned: Sequence[PlannedRange], *, segment: int | None = None
    ) -> tuple[tuple[StagedFile, ...], tuple[FileRange, ...]]:
        """Stage copies of whole files; return the copies, and the ranges that must be decoded because of their footers.

        `copies.ways.split` separates the files that need no decoding. With a segment, the copies go to the segment's folder.

        Raises:
            SourceDamagedError, AccountingError: a file does not match its entry in the source's log.
        """
        if not planned:
            return (), ()
        done = self.copy_files([file for _, file in planned], segment=segment)
        return done.staged, tuple(part for part, file in planned if any(file is other for other in done.left))

    def copy_files(
        self, files: Sequence[PlannedCopy], *, vectors: Sequence[VectorDescriptor] = (), segment: int | None = None
    ) -> Transferred:
        """Stage copies of files of any version, their deletion vectors, and the additional `vectors`.

        Raises:
            SourceDamagedError, AccountingError: a file does not match its entry in the source's log.
        """
        folder = self.copies.folder_of(self.attempt, self.work_id, segment)
        done = self.copies.stage(files, folder, check=self.check, vectors=vectors)
        with self.ledger.lock:
            self.ledger.unsealed.update(file.path for file in done.staged)
        return done

    def hide_rows(self, files: Sequence[FilteredFile]) -> tuple[list[SourceFile], tuple[StagedFile, ...]]:
        """Stage new deletion vectors of existing copies; return the source files with these vectors, and the vectors' files.

        Raises:
            SourceDamagedError, AccountingError: a vector does not match its entry in the source's log.
        """
        hidden, staged = self.copies.hide(files, self.folder, check=self.check)
        with self.ledger.lock:
            self.ledger.unsealed.update(file.path for file in staged)
        return hidden, staged

    def with_tables(self, tables: Tables) -> WorkContext:
        """Return the same work for other tables of the job, for example after a change of columns."""
        return replace(self, tables=tables, copies=JobCopies(tables))

    @property
    def folder(self) -> str:
        """Folder for files that the work stages, below the target's folder."""
        return self.copies.folder_of(self.attempt, self.work_id)

    def check(self) -> None:
        """End the work here if it was cancelled; work that runs no Spark job calls this often."""
        if self.ledger.is_cancelled(self.work_id):
            raise WorkCancelledError

    def stage_segments(self, rows: DataFrame, *, label: str, what: str) -> tuple[StagedFile, ...]:
        """Write rows like `stage`, with separate files for each value of column `label`; each file records its segment."""
        sink, counted = ability(self.tables.sink, SupportsSegments), CountedRows(self.tables.spark, rows)
        staged = sink.stage_segments(counted.frame, label=label, attempt=self.attempt, work_id=self.work_id)
        files = [(segment, self.tables.committer.measure(paths)) for segment, paths in staged.items()]
        of_segments = tuple(replace(file, segment=segment) for segment, measured in files for file in measured)
        return self._recorded(counted, of_segments, what)

    def _recorded(self, counted: CountedRows, files: tuple[StagedFile, ...], what: str) -> tuple[StagedFile, ...]:
        with self.ledger.lock:
            self.ledger.unsealed.update(file.path for file in files)
        check_staged(what, written=counted.rows(), found=sum(file.rows for file in files))
        return files

    def stage_records(self, records: DataFrame, *, what: str) -> tuple[StagedFile, ...]:
        """Transform records with a partition and an offset, and write them like `stage`.

        Records that the transform cannot parse are written to separate files for the table of bad records (`StagedFile.quarantined_by`).

        Raises:
            BadRecordError: there are bad records, and the source's spec requires that they end the job.
            StagedFilesGoneError, AccountingError: as `stage`.
        """
        transform = self.tables.transform
        if not isinstance(transform, ParsingTransform) or not transform.judges(records):
            return self.stage(transform.apply(records), what=what)
        # Counted between parsers and rows: Spark moves no filter past the count, and so does not parse twice.
        counted = CountedRows(self.tables.spark, transform.judged(records), only=is_bad())
        files = self.stage(transform.rows(counted.frame), what=what)
        rows = counted.rows()
        return files if rows == 0 else (*files, *self._stage_bad(transform.bad(transform.judged(records)), rows, what))

    def stage_bad_records(self, records: DataFrame, *, what: str) -> tuple[StagedFile, ...]:
        """Write only the records that the transform cannot parse, for the table of bad records; no files without such a table."""
        transform, quarantine = self.tables.transform, self.tables.quarantine
        if quarantine is None or not quarantine.keeps or not isinstance(transform, ParsingTransform):
            return ()
        counted = CountedRows(self.tables.spark, transform.bad(transform.judged(records)))
        files = quarantine.stage(counted.frame, attempt=self.attempt, work_id=self.work_id)
        check_staged(what, written=counted.rows(), found=sum(file.rows for file in files))
        return files

    def _stage_bad(self, records: DataFrame, rows: int, what: str) -> tuple[StagedFile, ...]:
        """Read the few bad records again, into their own table; without such a table, fail with one of them."""
        quarantine = self.tables.quarantine
        if quarantine is None or not quarantine.keeps:
            raise bad_record(records, rows, what)
        files = quarantine.stage(records, attempt=self.attempt, work_id=self.work_id)
        staged = sum(file.rows for file in files)
        if staged != rows:
            # Compaction may have removed one in the meantime.
            raise TransientError(
                f"{what} had {counted(rows, 'bad record')} at the first read, and {staged:,} at the second."
            )
        return files

    def begin_effect(self) -> None:
        """Mark that the next step changes the target itself: a later cancellation waits for the work's own answer.

        Ends the work here if it was already cancelled.
        """
        with self.ledger.lock:
            if self.work_id in self.ledger.cancelled:
                raise WorkCancelledError
            self.ledger.in_effect.add(self.work_id)
