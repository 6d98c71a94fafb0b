"""Proves copied files by their bytes: pairs the files of both sides of a receipt, and reads the target's files back.

An object store that keeps a CRC-32C of a file is asked for it, instead of reading the file.

The source's files are not read again, except deletion vectors: the tags of the copies contain the digests from the copying.
Proven files are removed from both sides; Spark reads the remaining files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import tee
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from backfill_core.file_copies.copy_digest import CopyDigest, statistics_digest
from backfill_core.file_copies.copy_modes import Whole
from backfill_core.file_copies.facts import partition_value
from backfill_core.file_copies.hidden_rows import Outcome, outcome
from backfill_core.file_copies.proof import (
    Damaged,
    FileId,
    HidesOthers,
    LoggedCopy,
    LoggedTargetFile,
    Pair,
    ProvenFiles,
    Same,
    Verdict,
    paired,
    proven,
    verdict,
)
from backfill_core.protocol.receipt import FileDifference
from backfill_spark.delta.deletion_vectors import vector_of
from backfill_spark.delta.listing.shared_values import Shared
from backfill_spark.delta.log import files_at, hidden_rows, listing_at, same_rows
from backfill_spark.delta.source_file import LoggedFile, SourceFile
from backfill_spark.delta.spark_internals import SparkDeltaLog, delta_actions
from backfill_spark.delta.statistics.misstated import misstated
from backfill_spark.delta.vectors.bitmaps import Bitmap, row_indexes
from backfill_spark.file_copies.bytes import ByteReader, CopiedBytes
from backfill_spark.file_copies.copied_files import FilteredFile, PlannedCopy
from backfill_spark.file_copies.hidden_rows import failing_rows
from backfill_spark.file_copies.planner import JobCopyModes
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line
from backfill_spark.jvm.failures import Trouble, trouble_of
from backfill_spark.jvm.workers import at_once
from backfill_spark.ports.sink import SupportsCopies

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.delta.listing.logged_files import LoggedFiles
    from backfill_spark.opening.tables import Tables
    from backfill_spark.ports.compared import ComparedFiles

UNREADABLE = frozenset({Trouble.GONE, Trouble.DAMAGED, Trouble.UNKNOWN})
"""Troubles of the file itself, not of the access to it."""


class FileProof:
    """The files of a source and of one version of a target."""

    def __init__(self, tables: Tables, files: ComparedFiles, version: int, read_back: frozenset[FileId]) -> None:
        """Store the tables, the compared files of the source, and the target's version; reads nothing yet.

        Files of `read_back` are not read again.
        """
        self._tables, self._spark = tables, tables.spark
        self._source, self._version = files, version
        self._target: LoggedFiles | None = None
        self._target_ids: list[FileId] = []
        self._read_back = read_back

    @classmethod
    def of(
        cls, tables: Tables, files: ComparedFiles | None, version: int, read_back: frozenset[FileId] = frozenset()
    ) -> Self | None:
        """Return the proof; `None` if the source or the target has no files that can be copied."""
        if files is None or not isinstance(tables.sink, SupportsCopies):
            return None
        return cls(tables, files, version, read_back)

    def proven(self, check: Callable[[], None]) -> ProvenFiles:
        """Read the copied files of the target back; `check` is called often, and an exception that it raises ends the reading.

        Raises:
            JAVA_ERRORS: the storage failed, and the file may exist.
        """
        modes = JobCopyModes.of(self._tables)
        # If the source's statistics alone decide which files are copied, only rows can prove that they are right.
        decided = self._tables.transform.where is not None and not modes.transform.hides
        if modes.source is None or not isinstance(modes.best, Whole) or decided:
            return ProvenFiles()
        self._target = listing_at(self._spark, self._tables.sink.path, self._version, nulls_of=())
        existing = existing_files(self._target, {column.physical: column.type for column in modes.target.columns})
        self._target_ids = [file.id for file in existing]
        if all(file.digest is None for file in existing):
            return ProvenFiles()
        expected, failing = self._expected(modes)
        pairing = paired(expected, existing)
        reader = ByteReader(self._spark, self._tables.sink.path)
        asked = [unquote(pair.target.path) for pair in pairing.pairs if pair.target.id not in self._read_back]
        reported = reader.reported(asked, check=check)
        read = partial(self._read, reader=reader, reported=reported, failing=failing, check=check)
        tasks = [partial(read, pair) for pair in pairing.pairs]
        result, doubtful = proven(pairing, at_once(tasks, reader.threads)), {file.id for file in pairing.doubtful}
        wrong = self._misstated([self._target[at] for at, known in enumerate(self._target_ids) if known in doubtful])
        return replace(result, wrong=(*result.wrong, *wrong))

    def _expected(self, modes: JobCopyModes) -> tuple[Iterable[LoggedCopy], dict[str, FilteredFile]]:
        """Return the expected copies of source files that are copied whole, and their rows that fail the filter, by path.

        The filter is evaluated for each of these files, because statistics may be wrong. The copies are made one by one, and a Spark job
        evaluates the filter for the next ones; the rows that fail are complete after the last copy.
        """
        files = map(SourceFile.of, self._source.entries())
        copies: Iterator[PlannedCopy] = (copy for file in files if (copy := _whole_copy(file, modes)) is not None)
        where, source, failing = self._tables.transform.where, modes.source, dict[str, FilteredFile]()
        shared = Shared()

        def expected() -> Iterator[LoggedCopy]:
            filtered: Iterable[tuple[PlannedCopy, Bitmap | None]] = ((copy, None) for copy in copies)
            if where is not None and source is not None:
                judged, kept = tee(copies)
                rows = failing_rows(self._spark, source, where, (copy.file for copy in judged))
                filtered = zip(kept, rows, strict=True)
            for copy, rows_of_copy in filtered:
                if rows_of_copy is not None:
                    failing[copy.file.path] = FilteredFile(replace(copy.file, statistics=None), rows_of_copy)
                made = _expected(copy, failing.get(copy.file.path), shared)
                if made is not None:
                    yield made

        return expected(), failing

    def _misstated(self, files: Sequence[LoggedFile]) -> tuple[FileDifference, ...]:
        return misstated(self._spark, self._tables.sink.path, self._version, files)

    def rest(self, proof: ProvenFiles) -> tuple[DataFrame, DataFrame] | None:
        """Return the rows of both sides in files that are not proven, before the transform; `None` without such files."""
        unproven = [at for at, known in enumerate(self._target_ids) if known not in proof.target_ids]
        if not unproven and self._source.are_all(proof.source_paths):
            return None
        log = SparkDeltaLog(self._spark, self._tables.sink.path)
        lines = [] if self._target is None else [self._target.action(at) for at in unproven]
        return self._source.without(proof.source_paths), log.frame(
            delta_actions(self._spark, lines), log.at(self._version)
        )

    def _read(
        self,
        pair: Pair,
        *,
        reader: ByteReader,
        reported: Mapping[str, CopiedBytes],
        failing: Mapping[str, FilteredFile],
        check: Callable[[], None],
    ) -> Verdict:
        if pair.target.id in self._read_back:
            return Same()
        try:
            below = unquote(pair.target.path)
            read = reported.get(below) or reader.digest(below, check=check)
        except JAVA_ERRORS as error:
            if trouble_of(error) is Trouble.GONE:
                return Damaged("it does not exist")
            raise
        result = verdict(pair, read_bytes=read.size_bytes, read_digest=read.digest)
        if isinstance(result, Damaged) or not pair.vectors_are_read:
            return result
        assert pair.target.vector is not None
        hidden_in_source = self._hidden_in_source(pair.source, failing.get(pair.source.path))
        try:
            hidden_in_target = hidden_rows(self._spark, self._tables.sink.path, pair.target.vector)
        except JAVA_ERRORS as error:
            if trouble_of(error) in UNREADABLE:
                return Damaged(f"its deletion vector cannot be read: {first_line(error)}")
            raise
        return Same() if same_rows(self._spark, hidden_in_source, hidden_in_target) else HidesOthers()

    def _hidden_in_source(self, file: LoggedCopy, filtered: FilteredFile | None) -> Any:
        """Return the indexes of the rows of a file that its copy must hide, ascending, as a Java array."""
        path = self._tables.source.path
        if filtered is None or filtered.failing is None:
            assert file.vector is not None
            return hidden_rows(self._spark, path, file.vector)
        return row_indexes(self._spark, path, filtered.failing, filtered.source.vector)


def misstated_files(tables: Tables, version: int) -> tuple[FileDifference, ...]:
    """Return the files of a target version whose statistics exclude rows that they contain; reads all files.

    Raises:
        JAVA_ERRORS: the storage failed.
    """
    if not isinstance(tables.sink, SupportsCopies):
        return ()
    path = tables.sink.path
    return misstated(tables.spark, path, version, files_at(tables.spark, path, version, nulls_of=()))


def _whole_copy(file: SourceFile, modes: JobCopyModes) -> PlannedCopy | None:
    planned = modes.planned(file)
    return planned if isinstance(planned, PlannedCopy) and isinstance(planned.mode, Whole) else None


def _expected(copy: PlannedCopy, filtered: FilteredFile | None, shared: Shared) -> LoggedCopy | None:
    """Return the expected copy of a source file of which some rows fail; `None` if it is decoded or left out."""
    file, rows = copy.file, None if filtered is None else filtered.failing
    failing, visible = 0 if rows is None else rows.rows, copy.rows - file.deleted
    if failing and outcome(file.path, visible=visible, failing=failing) is not Outcome.HIDE:
        return None
    vector = None if file.vector is None else vector_of({"deletionVector": file.vector.fields})
    return LoggedCopy(file.path, file.size_bytes, copy.rows, shared.partition(copy.partition), vector, failing)


def existing_files(files: LoggedFiles, kinds: Mapping[str, str]) -> list[LoggedTargetFile]:
    """Return the files of the target; `kinds` are the types of its columns, by physical name."""
    shared = Shared()
    return [_target_file(add, rows, kinds, shared) for add, rows in zip(files.entries(), files.rows, strict=True)]


def _target_file(
    add: Mapping[str, Any], rows: int | None, kinds: Mapping[str, str], shared: Shared
) -> LoggedTargetFile:
    digest, partition = CopyDigest.of_tags(add.get("tags")), add.get("partitionValues") or {}
    return LoggedTargetFile(
        path=add["path"],
        bytes=add["size"],
        rows=rows,
        partition=shared.partition(
            {name: partition_value(text, kinds.get(name, "")) for name, text in partition.items()}
        ),
        statistics="" if digest is None else statistics_digest(add.get("stats")),
        vector=vector_of(add),
        digest=digest,
    )
