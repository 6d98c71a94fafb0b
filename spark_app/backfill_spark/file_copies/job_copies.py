"""Copies of one attempt; its pieces of work share the copy modes and the copier."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_core.positions.file_ranges import FileRange
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.added_files import Statistics
from backfill_spark.delta.deletion_vectors import VectorDescriptor
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.file_copies.computed_columns import ComputedColumns
from backfill_spark.file_copies.copied_files import Filtered, FilteredFile, MadeCopy, PlannedCopy, Transferred
from backfill_spark.file_copies.copier import FileTransfer
from backfill_spark.file_copies.hidden_rows import filtered
from backfill_spark.file_copies.planner import JobCopyModes, PlannedRange
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import SupportsCopies
from backfill_spark.ports.source import SupportsFiles

if TYPE_CHECKING:
    from backfill_spark.opening.tables import Tables


class JobCopies:
    """Copy modes and copier of one attempt. Thread-safe."""

    def __init__(self, tables: Tables) -> None:
        """Store the tables; reads nothing yet, because the target may be created later."""
        self._tables, self._lock = tables, threading.Lock()
        self._modes: JobCopyModes | None = None
        self._transfer: FileTransfer | None = None

    @property
    def modes(self) -> JobCopyModes:
        """Copy mode of each file of the pinned version."""
        with self._lock:
            if self._modes is None:
                self._modes = JobCopyModes.of(self._tables)
            return self._modes

    def split(self, ranges: Sequence[FileRange]) -> tuple[list[PlannedRange], list[FileRange]]:
        """Return the result of `JobCopyModes.split`; if columns were dropped, footers decide the copy modes.

        Raises:
            JAVA_ERRORS: the source's file system failed.
        """
        ((planned, left),) = self.split_parts([ranges])
        return planned, left

    def split_parts(self, parts: Sequence[Sequence[FileRange]]) -> list[tuple[list[PlannedRange], list[FileRange]]]:
        """Return the result of `split` for several lists of ranges, with common Spark jobs for the failing rows of all files.

        Raises:
            JAVA_ERRORS: the source's file system failed.
            Spark's error for a row for which the filter cannot be computed.
        """
        ranges = [part for of_part in parts for part in of_part]
        planned, left = self.modes.split(ranges)
        copied, decoded = dict(planned), set(left)
        if planned and self.modes.table.drops:
            footers = self._copier().by_footers([copy for _, copy in planned])
            copied = {part: copy for (part, _), copy in zip(planned, footers, strict=True) if copy is not None}
            decoded |= dict(planned).keys() - copied.keys()
        if any(copy.is_unfiltered for copy in copied.values()):
            by_path = {copy.file.path: part for part, copy in copied.items()}
            result = self.filtered(list(copied.values()))
            copied = {by_path[copy.file.path]: copy for copy in result.copies}
            decoded |= {by_path[copy.file.path] for copy in result.decoded}
        return [
            (
                [(part, copied[part]) for part in of_part if part in copied],
                [part for part in of_part if part in decoded],
            )
            for of_part in parts
        ]

    def filtered(self, files: Sequence[PlannedCopy]) -> Filtered:
        """Return files without those of which no row passes the filter, and separately those that must be decoded.

        Runs Spark jobs, if the log does not decide the filter.

        Raises:
            AccountingError: a file has more rows than the source's log records.
            Spark's error for a row for which the filter cannot be computed.
        """
        where = self._tables.transform.where
        if where is None or not any(planned.is_unfiltered for planned in files):
            return Filtered(tuple(files), ())
        source = ability(self._tables.source, SupportsFiles)
        return filtered(self._tables.spark, source, where, files)

    def stage(
        self,
        files: Sequence[PlannedCopy],
        folder: str,
        *,
        check: Callable[[], None],
        vectors: Sequence[VectorDescriptor] = (),
    ) -> Transferred:
        """Copy files into the folder of a piece of work, or of a segment of it; see `FileTransfer.copy`."""
        kept = self.filtered(files)
        done = self._copier().copy(kept.copies, folder, check=check, vectors=vectors)
        return replace(done, left=(*done.left, *kept.decoded))

    def hide(
        self, files: Sequence[FilteredFile], folder: str, *, check: Callable[[], None]
    ) -> tuple[list[SourceFile], tuple[StagedFile, ...]]:
        """Hide the failing rows of files in existing copies; see `with_hidden_rows`."""
        return self._copier().hide(files, folder, check=check)

    def statistics(self, copies: Sequence[MadeCopy]) -> list[Statistics]:
        """Return the statistics of existing copies; see `FileTransfer.statistics`."""
        return self._copier().statistics(copies)

    @property
    def refusal(self) -> str:
        """Reason for which the store ended its copies; empty if it did not."""
        transfer = self._transfer  # without the lock, which a first copy holds while it opens file systems
        return "" if transfer is None else transfer.refusal

    def folder_of(self, attempt: int, work_id: int, segment: int | None = None) -> str:
        """Return the staging folder of a piece of work, or of one of its segments, below the target's folder."""
        return ability(self._tables.sink, SupportsCopies).folder_of(attempt, work_id, segment)

    def staged_path(self, below: str) -> str:
        """See `FileTransfer.staged_path`."""
        return self._copier().staged_path(below)

    def _copier(self) -> FileTransfer:
        with self._lock:
            if self._transfer is None:
                source, sink = ability(self._tables.source, SupportsFiles), ability(self._tables.sink, SupportsCopies)
                self._transfer = FileTransfer(
                    self._tables.spark,
                    source=source.path,
                    target=sink.path,
                    measure=self._tables.committer.statistics,
                    measures=self._tables.committer.measures,
                    computed=ComputedColumns(self._tables.spark, self._tables.transform, source, sink),
                )
            return self._transfer
