"""Copies files of a source into staged files of a target, without decoding. Thread-safe.

Each copy is in the folder of its work, has a name derived from the path of its source file, and its own commit line. The file of
a deletion vector is in the same folder, as a staged file without rows.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from backfill_core.errors import SourceDamagedError
from backfill_core.file_copies.bounds import Path, Written
from backfill_core.file_copies.computed_parts import can_be_joined, split_bytes
from backfill_core.file_copies.copy_digest import CopyDigest, statistics_digest
from backfill_core.file_copies.copy_modes import Decoded, PartlyComputed, Projected, Whole
from backfill_core.file_copies.movers import Mover
from backfill_core.file_copies.unknown_columns import with_known_columns
from backfill_core.phases.accounting import check_read
from backfill_core.protocol.work import StagedFile, StagedMode
from backfill_spark.delta.added_files import CommitLine, Statistics
from backfill_spark.delta.deletion_vectors import VectorDescriptor
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.delta.statistics.footer_statistics import CopiedFile, Measures
from backfill_spark.file_copies.bytes import ASKED_AT_ONCE, STREAMS_AT_ONCE, ByteCopier
from backfill_spark.file_copies.column_chunks import ChunkCopier
from backfill_spark.file_copies.computed_columns import ComputedColumns, FileToCompute, PartFolder
from backfill_spark.file_copies.copied_files import Copied, FilteredFile, MadeCopy, PlannedCopy, Transferred
from backfill_spark.file_copies.copy_batches import BatchCopy, BatchFiles, BatchFooter, CopyBatches, ObjectToCopy
from backfill_spark.file_copies.footers import Footer, Footers
from backfill_spark.file_copies.hidden_rows import with_hidden_rows, with_vectors
from backfill_spark.file_copies.vector_copies import RESTORE
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line
from backfill_spark.jvm.failures import Trouble, trouble_of, while_staging
from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.workers import at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = {Whole: StagedMode.WHOLE, Projected: StagedMode.PROJECTED, PartlyComputed: StagedMode.PARTLY_COMPUTED}

MEASURES_MAX = 64

COMPUTED_FOLDER = "computed"
"""Folder of computed columns, below the folder of the work; removed at the end of the work."""


@dataclass(frozen=True, slots=True)
class _Decision:
    """A file whose copy mode is final."""

    planned: PlannedCopy
    footer: Footer | None
    """`None` if it was not read."""

    def with_vector(self, files: Mapping[str, SourceFile]) -> _Decision:
        """Return the file with its vector in the target, by its path."""
        return replace(self, planned=replace(self.planned, file=files[self.planned.file.path], failing=None))


class FileTransfer:
    """Copier of files of one source into the staging folders of one target."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        source: str,
        target: str,
        measure: Callable[[str, CopiedFile], Statistics],
        measures: Callable[[CopiedFile], Measures | None] | None = None,
        computed: ComputedColumns | None = None,
    ) -> None:
        """Prepare copies between the folders of two tables.

        Args:
            spark: The session.
            source: Path or URI of the source's folder.
            target: Path or URI of the target's folder.
            measure: The committer's `statistics`.
            measures: The committer's `measures`; without it, no files are copied in batches.
            computed: Computes the columns of files with copy mode `PartlyComputed`; required for such files.
        """
        self._spark = spark
        self._bytes, self._measure, self._computed = ByteCopier(spark, source, target), measure, computed
        self._measures = None if measures is None else lru_cache(MEASURES_MAX)(measures)
        self._footers, self._chunks = Footers(spark), ChunkCopier(spark, local=self._bytes.is_local)
        cores = int(java(spark).java.lang.Runtime.getRuntime().availableProcessors())
        # Local copies use a core each.
        self._at_once = min(STREAMS_AT_ONCE, cores) if self._bytes.is_local else STREAMS_AT_ONCE
        self._narrow = threading.BoundedSemaphore(self._at_once)
        self._footers_at_once = self._at_once if self._bytes.is_local else ASKED_AT_ONCE

    def copy(
        self,
        files: Sequence[PlannedCopy],
        folder: str,
        *,
        check: Callable[[], None],
        vectors: Sequence[VectorDescriptor] = (),
    ) -> Transferred:
        """Copy files, in their order.

        Args:
            files: Files with different paths.
            folder: Folder of the work, below the target's: `backfill-<hash>/a<attempt>/s<work>`.
            check: Called often; an exception that it raises ends the copies.
            vectors: Deletion vectors to copy in addition to those of the files.

        Raises:
            SourceDamagedError: a file changed under its name, or is truncated.
            AccountingError: the number of rows of a file differs from its log.
            StagedFilesGoneError: a copy disappeared before it was read back.
            JAVA_ERRORS: one of the two file systems failed.
        """
        with while_staging(f"{self._bytes.target}/{folder}"):
            return self._copied(files, folder, check, vectors)

    def _copied(
        self, files: Sequence[PlannedCopy], folder: str, check: Callable[[], None], vectors: Sequence[VectorDescriptor]
    ) -> Transferred:
        assert not any(planned.is_unfiltered for planned in files), "readers would see rows that fail the filter"
        self._bytes.make_folder(folder)
        decisions = self._decisions(files)
        kept = [decision.planned for decision in decisions if decision is not None]
        most = self._footers_at_once
        files_there, vector_files = with_vectors(self._spark, self._bytes, kept, vectors, folder, check, most)
        decisions = [None if decision is None else decision.with_vector(files_there) for decision in decisions]
        batched = self._in_batch(decisions, folder, check)
        parts = self._parts(decisions, f"{folder}/{COMPUTED_FOLDER}", check)
        tasks = [
            batched.get(at) or partial(self._copy, decision, folder, check, of_file)
            for at, (decision, of_file) in enumerate(zip(decisions, parts, strict=True))
        ]
        done = at_once(tasks, self._threads(files))
        if any(isinstance(planned.mode, PartlyComputed) for planned in files):
            self._bytes.remove_folder(f"{folder}/{COMPUTED_FOLDER}")
        copied = tuple(result for result in done if result is not None)
        left = tuple(planned for planned, result in zip(files, done, strict=True) if result is None)
        return Transferred(copied, vector_files, left)

    def hide(
        self, files: Sequence[FilteredFile], folder: str, *, check: Callable[[], None]
    ) -> tuple[list[SourceFile], tuple[StagedFile, ...]]:
        """Hide the failing rows of files in copies; see `with_hidden_rows`."""
        return with_hidden_rows(self._spark, self._bytes, files, folder, check, self._footers_at_once)

    def _in_batch(
        self, decisions: Sequence[_Decision | None], folder: str, check: Callable[[], None]
    ) -> dict[int, Callable[[], Copied]]:
        """Copy whole files in a batch; return what finishes each, by its index. Other files are copied alone."""
        store, measures_of = self._bytes.store, self._measures
        unread = [
            (at, decision) for at, decision in enumerate(decisions) if decision is not None and decision.footer is None
        ]
        whole = [(at, decision.planned) for at, decision in unread if isinstance(decision.planned.mode, Whole)]
        if measures_of is None or (store is not None and not store.is_active):
            return {}
        objects = [
            ObjectToCopy(
                copy.file.below, f"{folder}/{copy.file.name}", copy.file.size_bytes, copy.file.vector is not None
            )
            for _, copy in whole
        ]

        def measures(index: int, footer: BatchFooter) -> Measures | None:
            planned = whole[index][1]
            decided = _decided(planned, footer.leaves)
            if footer.rows != planned.rows or decided is None or decided.mode != planned.mode:
                return None
            return measures_of(CopiedFile(footer.written, logged=None if planned.file.statistics is None else ""))

        batches, batch = CopyBatches(self._spark, self._footers), BatchFiles(objects, measures, check)
        by_system = self._bytes.in_batches(self._at_once)
        done = batches.of_disk(by_system, batch) if store is None else batches.of_store(store, batch)
        return {
            whole[index][0]: partial(self._finished, whole[index][1], objects[index].target, copy)
            for index, copy in done.items()
        }

    def _finished(self, planned: PlannedCopy, below: str, copy: BatchCopy) -> Copied:
        if copy.statistics is None:
            statistics = self._statistics(planned.file, below, copy.footer.written, whole=True)
        else:
            statistics = Statistics(copy.made.size_bytes, copy.footer.rows, copy.statistics)
        check_read(planned.file.below, read=statistics.rows, promised=planned.rows)
        return self._named(planned, below, statistics, copy.made.digest)

    def _threads(self, files: Sequence[PlannedCopy]) -> int:
        """Return the number of threads for some files: more than usual if the store copies all of them itself."""
        are_whole = all(isinstance(planned.mode, Whole) for planned in files)
        return max(self._at_once, self._bytes.threads) if are_whole else self._at_once

    @property
    def mover(self) -> Mover:
        """Mover of the bytes of the next whole file."""
        return self._bytes.mover

    @property
    def refusal(self) -> str:
        """Reason for which the store ended its copies; empty if it did not."""
        return self._bytes.refusal

    def by_footers(self, files: Sequence[PlannedCopy]) -> list[PlannedCopy | None]:
        """Return files with the copy modes that the footers of doubtful ones allow; `None` for a file to decode.

        Raises:
            JAVA_ERRORS: the source's file system failed.
        """
        return [None if decision is None else decision.planned for decision in self._decisions(files)]

    def _decisions(self, files: Sequence[PlannedCopy]) -> list[_Decision | None]:
        if not any(planned.is_doubtful for planned in files):
            return [_Decision(planned, None) for planned in files]
        return at_once([partial(self._decision, planned) for planned in files], self._footers_at_once)

    def _decision(self, planned: PlannedCopy) -> _Decision | None:
        if not planned.is_doubtful:
            return _Decision(planned, None)
        footer = self._footer(planned)
        decided = None if footer is None else _decided(planned, footer.leaves)
        return None if decided is None else _Decision(decided, footer)

    def _footer(self, planned: PlannedCopy) -> Footer | None:
        below = planned.file.below
        try:
            return self._footers.read(f"{self._bytes.source}/{below}")
        except JAVA_ERRORS as error:
            if trouble_of(error) is not Trouble.DAMAGED:
                raise
            raise SourceDamagedError(
                f"the footer of {below} of the source cannot be read: {first_line(error)}.", hint=RESTORE
            ) from error

    def staged_path(self, below: str) -> str:
        """Return the path of a file below the target's folder, in the form of staged files."""
        return self._bytes.staged_path(below)

    def _parts(
        self, files: Sequence[_Decision | None], folder: str, check: Callable[[], None]
    ) -> list[list[Footer] | None]:
        """Compute the columns of `PartlyComputed` files, which all have the same ones; return the parts of each, or `None`."""
        by_file: list[list[Footer] | None] = [None] * len(files)
        partly_computed = {
            at: decision
            for at, decision in enumerate(files)
            if decision is not None and isinstance(decision.planned.mode, PartlyComputed)
        }
        to_compute = {at: file for at, decision in partly_computed.items() if (file := self._file_to_compute(decision))}
        modes = [decision.planned.mode for decision in partly_computed.values()]
        columns = {name for mode in modes if isinstance(mode, PartlyComputed) for name in mode.computed}
        if to_compute:
            assert self._computed is not None
            root, output = f"{self._bytes.target}/{folder}", self._chunks.output_file
            parts_folder = PartFolder(root, lambda below: self._written(f"{folder}/{below}"), output, self._at_once)
            parts = self._computed.parts(list(to_compute.values()), columns, parts_folder, check=check)
            for at, of_file in zip(to_compute, parts, strict=True):
                by_file[at] = of_file
        return by_file

    def _written(self, folder: str) -> list[Footer]:
        """Return the footers of the Parquet files in a folder, except those of encrypted ones."""
        files = [partial(self._footers.read, path) for path in self._bytes.files(folder)]
        return [footer for footer in at_once(files, self._footers_at_once) if footer is not None]

    def _file_to_compute(self, decision: _Decision) -> FileToCompute | None:
        """Return a `PartlyComputed` file with its row groups; `None` if computed columns cannot be joined to them."""
        planned, footer = decision.planned, decision.footer
        assert isinstance(planned.mode, PartlyComputed)
        assert footer is not None  # such a file is doubtful, so its footer was read
        if not _can_be_projected(footer, planned.mode.taken) or footer.has_old_days:
            return None
        check_read(planned.file.below, read=footer.rows, promised=planned.rows)
        size = split_bytes(footer.places, footer.size_bytes) if can_be_joined(footer.groups) else None
        if size is None or (len(footer.groups) > 1 and not self._footers.separates(footer, size)):
            return None
        return FileToCompute(planned.file, footer, size)

    def _copy(
        self, decision: _Decision | None, folder: str, check: Callable[[], None], parts: Sequence[Footer] | None
    ) -> Copied | None:
        if decision is None:
            return None
        below = f"{folder}/{decision.planned.file.name}"
        match decision.planned.mode:
            case Whole():
                return self._whole(decision, below, check)
            case Projected():
                check()
                return self._projected(decision, below)
            case PartlyComputed() as mode:
                check()
                return None if parts is None else self._partly_computed(decision, below, mode, parts)

    def _whole(self, decision: _Decision, below: str, check: Callable[[], None]) -> Copied | None:
        planned, file = decision.planned, decision.planned.file
        # The footer is checked first, so that a file that does not belong to the table is never copied.
        footer = decision.footer or self._footer(planned)
        if footer is None:
            return None
        _check_size(file, footer.size_bytes)
        check_read(file.below, read=footer.rows, promised=planned.rows)
        decided = _decided(planned, footer.leaves)
        if decided is None or decided.mode != planned.mode:
            left = None if decided is None else _Decision(decided, footer)
            return self._copy(left, below.rpartition("/")[0], check, None)
        copied = self._bytes.copy(file.below, below, check=check)
        _check_size(file, copied.size_bytes)
        statistics = self._statistics(file, below, footer.written, whole=True)
        check_read(file.below, read=statistics.rows, promised=planned.rows)
        return self._named(planned, below, statistics, copied.digest)

    def _projected(self, decision: _Decision, below: str) -> Copied | None:
        footer = decision.footer or self._footer(decision.planned)
        decided = None if footer is None else _decided(decision.planned, footer.leaves)
        if footer is None or decided is None:
            return None
        assert isinstance(decided.mode, Projected)
        if not _can_be_projected(footer, decided.mode):
            return None
        with self._narrow:
            written = self._chunks.project(footer, f"{self._bytes.target}/{below}", decided.mode)
        return self._measured(decided, below, written)

    def _partly_computed(
        self, decision: _Decision, below: str, mode: PartlyComputed, parts: Sequence[Footer]
    ) -> Copied | None:
        assert decision.footer is not None  # its row groups are known
        written = self._chunks.join_computed(decision.footer, f"{self._bytes.target}/{below}", mode.taken, parts)
        return None if written is None else self._measured(decision.planned, below, written)

    def statistics(self, copies: Sequence[MadeCopy]) -> list[Statistics]:
        """Return the statistics of existing copies, in order, with the current deletion vectors of their source files.

        Raises:
            JAVA_ERRORS: Parquet or the storage failed; exceptions of `measure` are raised too.
        """
        return at_once([partial(self._statistics_of, copy) for copy in copies], self._footers_at_once)

    def _statistics_of(self, made: MadeCopy) -> Statistics:
        footer = self._footers.read(f"{self._bytes.target}/{made.below}")
        assert footer is not None  # encrypted files are not copied
        return self._statistics(made.file, made.below, footer.written, whole=made.whole)

    def _statistics(self, file: SourceFile, below: str, written: Written, *, whole: bool) -> Statistics:
        copied = CopiedFile(written, wide=file.vector is not None, logged=file.statistics if whole else None)
        return self._measure(self._bytes.staged_path(below), copied)

    def _measured(self, planned: PlannedCopy, below: str, written: Written) -> Copied:
        statistics = self._statistics(planned.file, below, written, whole=False)
        check_read(planned.file.below, read=statistics.rows, promised=planned.rows)
        return self._named(planned, below, statistics, None)

    def _named(self, planned: PlannedCopy, below: str, statistics: Statistics, digest: str | None) -> Copied:
        """Return a copied file with its `add` action."""
        vector = planned.file.vector
        if vector is not None and not vector.is_inline:
            vector = vector.in_folder(below.rpartition("/")[0])
        add = {
            "path": below,
            "partitionValues": planned.partition,
            "size": statistics.size_bytes,
            "modificationTime": time.time_ns() // 1_000_000,
            "dataChange": True,
            "stats": statistics.text,
            "deletionVector": None if vector is None else vector.fields,
            "tags": None if digest is None else CopyDigest(digest, statistics_digest(statistics.text)).tags,
        }
        line = json.dumps({"add": {name: value for name, value in add.items() if value is not None}})
        rows = statistics.rows - planned.file.deleted
        mode = MODES[type(planned.mode)]
        staged = StagedFile(self._bytes.staged_path(below), statistics.size_bytes, rows, CommitLine(line), mode=mode)
        return Copied(planned, staged)


def _check_size(file: SourceFile, size_bytes: int) -> None:
    if size_bytes != file.size_bytes:
        raise SourceDamagedError(
            f"{file.below} of the source has {size_bytes:,} bytes, but its log records {file.size_bytes:,}.",
            hint="The file changed under its name: restore it, or start a new job from a newer version.",
        )


def _decided(planned: PlannedCopy, leaves: tuple[Path, ...]) -> PlannedCopy | None:
    """Return a file with the copy mode that its footer allows; `None` if it must be decoded."""
    if planned.table is None:
        return planned
    mode = with_known_columns(planned.mode, planned.table, leaves)
    return None if isinstance(mode, Decoded) else replace(planned, mode=mode, table=None)


def _can_be_projected(footer: Footer, mode: Projected) -> bool:
    return not footer.has_int96 and not set(footer.names) <= set(mode.pruned)
