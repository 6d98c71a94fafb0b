"""Copies of many whole files at once, by the object store or by the system: Java performs the steps, and Python decides about each file (ADR 0050).

An object takes three requests: the footer of the source, COPY, and HEAD of the copy. A local file is copied between two steps: its
footer, and its checksum. A file for which anything is unusual is left out of the batch's result; the caller copies it alone, and
meets and explains the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Protocol

from backfill_core.file_copies.bounds import Path, Written
from backfill_core.file_copies.movers import COPY_MAX_BYTES, CopyAnswer, answer_of
from backfill_spark.delta.statistics.footer_statistics import Measures, can_be_logged
from backfill_spark.file_copies.footers import NOT_ENCRYPTED, FileSchema, FooterMetadata, Footers
from backfill_spark.file_copies.request_gate import RequestGate
from backfill_spark.file_copies.store_copies import NO_DIGEST, CopiedObject, StoreCopies
from backfill_spark.jvm.object_store.object_batches import (
    COPY,
    DESCRIBE,
    DIGEST,
    HEAD,
    SEPARATORS,
    BatchResult,
    FileBatch,
    can_batch,
    local_batch,
    object_batch,
)
from backfill_spark.jvm.object_store.s3_requests import S3Copies, S3Folder, StoredObject
from backfill_spark.jvm.workers import at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_MIN = 2
"""Smallest number of objects for which a batch is worth its start."""

LOCAL_BATCH_MIN = 32
"""The same of local files, which take a hundredth of the time. The first batch of a session compiles a class."""

AHEAD_MAX = 512
"""Files of a batch whose footers Java holds, at most: twice as many as are copied at once."""

NANOS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ObjectToCopy:
    """An object of a batch."""

    source: str
    """Its path below the source's folder."""

    target: str
    """Path of the copy below the target's folder."""

    size_bytes: int
    """Size in the source's log."""

    hides_rows: bool
    """True if a deletion vector hides some of its rows."""

    @property
    def fits(self) -> bool:
        """Return true if a batch may contain the object."""
        return self.size_bytes <= COPY_MAX_BYTES and not SEPARATORS & {*self.source, *self.target}


@dataclass(frozen=True, slots=True)
class CopyStep:
    """A copy of a file whose footer was read."""

    number: int
    """Index of the file in its batch."""

    file: ObjectToCopy
    etag: str
    measured: tuple[str, str]
    """Number of the description of its statistics, and `1` if a deletion vector hides some of its rows, else `0`."""


@dataclass(frozen=True, slots=True)
class BatchFiles:
    """Files of a batch, with different paths."""

    objects: Sequence[ObjectToCopy]
    measures: Callable[[int, BatchFooter], Measures | None]
    """Returns the statistics of a file by its index and footer; `None` if it must not be copied here."""

    check: Callable[[], None]
    """Called often; an exception that it raises ends the copies."""


@dataclass(frozen=True)
class BatchFooter:
    """Facts of a file's footer; files of one schema and one writer share the metadata."""

    rows: int
    schema: FileSchema
    metadata: FooterMetadata

    @property
    def leaves(self) -> tuple[Path, ...]:
        """Paths of all primitive columns."""
        return tuple(leaf.path for leaf in self.schema.leaves)

    @cached_property
    def written(self) -> Written:
        """Facts about the writer of its values."""
        return self.metadata.written(self.schema.stored)


@dataclass(frozen=True, slots=True)
class BatchCopy:
    """A copied object of a batch."""

    made: CopiedObject
    footer: BatchFooter
    statistics: str | None
    """Statistics for the log; `None` if they must be measured separately."""


class CopiesOfMany(Protocol):
    """Copies of the files of a batch, by the store or by the system."""

    @property
    def is_active(self) -> bool:
        """True if more files may be copied."""

    @property
    def width(self) -> int:
        """Number of files that Java works on at once."""

    def source_key(self, below: str) -> str:
        """Return the name of a file of the source in a task."""

    def copies(self, steps: Sequence[CopyStep], check: Callable[[], None]) -> list[Sequence[str] | None]:
        """Begin copies; return the next step of each, in order, or `None` for a file that must be copied alone."""

    def answered(self, took_ns: int) -> None:
        """Record the time of a small request."""

    def failed(self, step: str, source: str, failure: tuple[int, str, str]) -> None:
        """Record a step that failed.

        Raises:
            SourceDamagedError: the file changed while it was copied.
        """

    def without_digest(self) -> None:
        """Record a copy without a digest."""


class CopiesByStore:
    """Copies of objects by the store."""

    def __init__(self, store: StoreCopies, copies: S3Copies) -> None:
        """Take the copies of one attempt, and their requests."""
        self._store, self._requests = store, copies

    @property
    def is_active(self) -> bool:
        """See `CopiesOfMany`."""
        return self._store.is_active

    @property
    def width(self) -> int:
        """See `CopiesOfMany`."""
        return self._store.gate.share

    def source_key(self, below: str) -> str:
        """See `CopiesOfMany`."""
        return self._requests.source.key(below)

    def copies(self, steps: Sequence[CopyStep], check: Callable[[], None]) -> list[Sequence[str] | None]:
        """See `CopiesOfMany`; Java sends the requests."""
        check()
        key = self._requests.target.key
        return [
            (
                COPY,
                str(step.number),
                self.source_key(step.file.source),
                key(step.file.target),
                step.etag,
                *step.measured,
            )
            for step in steps
        ]

    def answered(self, took_ns: int) -> None:
        """See `CopiesOfMany`."""
        self._store.gate.answer(took_ns / NANOS)

    def failed(self, step: str, source: str, failure: tuple[int, str, str]) -> None:
        """See `CopiesOfMany`."""
        status, code, message = failure
        answer = answer_of(status, code)
        if answer is CopyAnswer.CHANGED:
            raise self._store.changed(source)
        if answer is CopyAnswer.BUSY:
            self._store.gate.refuse()
        if answer is CopyAnswer.REFUSED and step == COPY:
            self._store.end(code, status, message)

    def without_digest(self) -> None:
        """See `CopiesOfMany`."""
        self._store.end("", 0, NO_DIGEST)


class CopiesBySystem:
    """Copies of local files by the operating system."""

    is_active = True

    def __init__(
        self, path: Callable[[str], FilePath], copy: Callable[[str, str, Callable[[], None]], int | None], width: int
    ) -> None:
        """Take the local path of a file of the source, the copy of one file, and the number of threads."""
        self._path, self._copy, self.width = path, copy, width

    def source_key(self, below: str) -> str:
        """See `CopiesOfMany`."""
        return str(self._path(below))

    def copies(self, steps: Sequence[CopyStep], check: Callable[[], None]) -> list[Sequence[str] | None]:
        """See `CopiesOfMany`; returns when all files are copied, and Java reads their checksums."""
        tasks = [partial(self._copy, step.file.source, step.file.target, check) for step in steps]
        sizes = at_once(tasks, self.width)
        return [
            (DIGEST, str(step.number), self.source_key(step.file.source), *step.measured)
            if size == step.file.size_bytes
            else None
            for step, size in zip(steps, sizes, strict=True)
        ]

    def answered(self, took_ns: int) -> None:
        """See `CopiesOfMany`."""

    def failed(self, step: str, source: str, failure: tuple[int, str, str]) -> None:
        """See `CopiesOfMany`."""

    def without_digest(self) -> None:
        """See `CopiesOfMany`."""


class CopyBatches:
    """Batches of copies. Thread-safe."""

    def __init__(self, spark: SparkSession, footers: Footers) -> None:
        """Take the reader of footers of one attempt."""
        self._spark, self._footers = spark, footers

    def of_store(self, store: StoreCopies, files: BatchFiles) -> dict[int, BatchCopy]:
        """Let the store copy objects; return the copies by the index of their object, without those that must be copied alone.

        Raises:
            SourceDamagedError: an object changed while it was copied.
        """
        copies = store.requests
        if copies is None or len(files.objects) < BATCH_MIN or not can_batch(self._spark):
            return {}
        options = self._footers.options
        with store.gate.batch(), object_batch(self._spark, copies.source, copies, options) as batch:
            return _Running(CopiesByStore(store, copies), self._footers, batch, files).run()

    def of_disk(self, copies: CopiesBySystem, files: BatchFiles) -> dict[int, BatchCopy]:
        """Let the system copy local files; see `of_store`."""
        if len(files.objects) < LOCAL_BATCH_MIN or not can_batch(self._spark, local=True):
            return {}
        with local_batch(self._spark, self._footers.options) as batch:
            return _Running(copies, self._footers, batch, files).run()


def described_objects(
    spark: SparkSession, folder: S3Folder, paths: Sequence[str], *, check: Callable[[], None]
) -> dict[str, StoredObject]:
    """Return the descriptions of objects below a folder by their paths; without those that the store does not describe.

    Args:
        spark: The session.
        folder: The folder.
        paths: Paths of the objects.
        check: Called often; an exception that it raises ends the requests.
    """
    if len(paths) < BATCH_MIN or not can_batch(spark):
        return {}
    gate, described = RequestGate(), dict[str, StoredObject]()
    tasks = [(HEAD, str(at), folder.key(path)) for at, path in enumerate(paths) if not SEPARATORS & {*path}]
    left = len(tasks)
    with gate.batch(), object_batch(spark, folder, None, None) as batch:
        batch.submit(tasks)
        while left:
            check()
            batch.widen(gate.share)
            for result in batch.results():
                left -= 1
                if result.described is not None:
                    gate.answer(int(result.fields[0]) / NANOS)
                    described[paths[result.number]] = result.described
                elif result.failure is not None and answer_of(*result.failure[:2]) is CopyAnswer.BUSY:
                    gate.refuse()
    return described


class _Running:
    """A batch under way; used by one thread."""

    def __init__(self, copies: CopiesOfMany, footers: Footers, batch: FileBatch, files: BatchFiles) -> None:
        self._copies, self._footers, self._batch, self._files = copies, footers, batch, files
        self._metadata = dict[int, tuple[FileSchema, FooterMetadata]]()
        self._numbers = dict[int, tuple[Measures, int]]()
        self._described = dict[int, BatchFooter]()
        self._done = dict[int, BatchCopy]()

    def run(self) -> dict[int, BatchCopy]:
        fitting = [(at, file) for at, file in enumerate(self._files.objects) if file.fits]
        left, waiting, under_way, check = len(fitting), iter(fitting), 0, self._files.check
        while left and self._copies.is_active:
            check()
            begun = list(islice(waiting, AHEAD_MAX - under_way))
            under_way += len(begun)
            key = self._copies.source_key
            self._batch.submit([(DESCRIBE, str(at), key(file.source), str(file.size_bytes)) for at, file in begun])
            self._batch.widen(self._copies.width)
            results = self._batch.results()
            steps = [step for result in results if (step := self._next(result)) is not None]
            begun_copies = [step for step in self._copies.copies(steps, check) if step is not None]
            ended = len(results) - len(begun_copies)
            left, under_way = left - ended, under_way - ended
            self._batch.submit(begun_copies)
        check()
        return self._done

    def _next(self, result: BatchResult) -> CopyStep | None:
        """Return the copy of a file that was described; `None` if no step follows."""
        if result.failure is not None:
            self._copies.failed(result.step, self._files.objects[result.number].source, result.failure)
            return None
        assert result.described is not None
        if result.step == DESCRIBE:
            return self._copy(result.number, result.described, result.fields)
        self._copied(result.number, result.described, *result.fields)
        return None

    def _copy(self, at: int, described: StoredObject, fields: tuple[str, ...]) -> CopyStep | None:
        file = self._files.objects[at]
        if described.size_bytes != file.size_bytes or not fields:
            return None
        rows, number, encryption = fields
        if encryption != NOT_ENCRYPTED:
            return None
        schema, metadata = self._metadata_of(int(number))
        footer = BatchFooter(int(rows), schema, metadata)
        measures = self._files.measures(at, footer)
        if measures is None:
            return None
        self._described[at] = footer
        return CopyStep(at, file, described.etag, (str(self._number_of(measures)), str(int(file.hides_rows))))

    def _copied(self, at: int, made: StoredObject, took_ns: str, statistics: str) -> None:
        footer = self._described.pop(at)
        self._copies.answered(int(took_ns))
        if made.digest is None:
            self._copies.without_digest()
        elif made.size_bytes == self._files.objects[at].size_bytes:
            usable = statistics if statistics and can_be_logged(statistics) else None
            self._done[at] = BatchCopy(CopiedObject(made.size_bytes, made.digest), footer, usable)

    def _metadata_of(self, number: int) -> tuple[FileSchema, FooterMetadata]:
        if number not in self._metadata:
            java = self._batch.metadata(number)
            self._metadata[number] = self._footers.schema_of(java), FooterMetadata(java)
        return self._metadata[number]

    def _number_of(self, measures: Measures) -> int:
        known = self._numbers.get(id(measures))
        if known is None:
            listed, first = self._batch.listed, measures.first
            columns = [[column.java for column in group] for group in (measures.no_smallest, measures.no_largest)]
            changed = listed(*(listed(*group) for group in columns), listed(*(column.java for column, _ in first)))
            firsts = listed(*(value for _, value in first))
            number = self._batch.measure(
                listed(measures.schema, measures.logged_schema), measures.columns, changed, firsts
            )
            known = self._numbers[id(measures)] = measures, number
        return known[1]
