"""Copies of whole files by the object store, many at once: the JVM sends the requests, and Python decides about each file (ADR 0050).

A file takes three requests: the footer of the source, COPY, and HEAD of the copy. A file for which anything is unusual is left
out of the batch's result; the caller copies it alone, and meets and explains the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from backfill_core.file_copies.bounds import Path, Written
from backfill_core.file_copies.movers import COPY_MAX_BYTES, CopyAnswer, answer_of
from backfill_core.file_copies.store_digest import is_exact
from backfill_spark.delta.statistics.footer_statistics import Measures, can_be_logged
from backfill_spark.file_copies.footers import NOT_ENCRYPTED, FileSchema, FooterMetadata, Footers
from backfill_spark.file_copies.request_gate import RequestGate
from backfill_spark.file_copies.store_copies import NO_DIGEST, CopiedObject, StoreCopies
from backfill_spark.jvm.object_store.object_batches import (
    COPY,
    DESCRIBE,
    HEAD,
    SEPARATORS,
    BatchResult,
    ObjectBatch,
    can_batch,
)
from backfill_spark.jvm.object_store.s3_requests import S3Folder, StoredObject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_MIN = 2
"""Smallest number of objects for which a batch is worth its start."""

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


class CopyBatches:
    """Batches of copies by the store. Thread-safe."""

    def __init__(self, spark: SparkSession, store: StoreCopies, footers: Footers) -> None:
        """Take the copies and the reader of footers of one attempt."""
        self._spark, self._store, self._footers = spark, store, footers

    def copied(
        self,
        objects: Sequence[ObjectToCopy],
        *,
        measures: Callable[[int, BatchFooter], Measures | None],
        check: Callable[[], None],
    ) -> dict[int, BatchCopy]:
        """Copy objects; return the copies by the index of their object, without those that must be copied alone.

        Args:
            objects: Objects with different paths.
            measures: Returns the statistics of a file by its index and footer; `None` if it must not be copied here.
            check: Called often; an exception that it raises ends the copies.

        Raises:
            SourceDamagedError: an object changed while it was copied.
        """
        copies = self._store.requests
        if copies is None or not can_batch(self._spark):
            return {}
        with (
            self._store.gate.batch(),
            ObjectBatch(self._spark, copies.source, copies, self._footers.options) as batch,
        ):
            return _Running(self, batch, objects, measures).run(check)


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
    with gate.batch(), ObjectBatch(spark, folder, None, None) as batch:
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

    def __init__(
        self,
        batches: CopyBatches,
        batch: ObjectBatch,
        objects: Sequence[ObjectToCopy],
        measures: Callable[[int, BatchFooter], Measures | None],
    ) -> None:
        self._store, self._footers = batches._store, batches._footers  # noqa: SLF001 - a part of it
        self._batch, self._objects, self._measures = batch, objects, measures
        self._metadata = dict[int, tuple[FileSchema, FooterMetadata]]()
        self._numbers = dict[int, tuple[Measures, int]]()
        self._described = dict[int, tuple[StoredObject, BatchFooter]]()
        self._done = dict[int, BatchCopy]()

    def run(self, check: Callable[[], None]) -> dict[int, BatchCopy]:
        copies, gate = self._store.requests, self._store.gate
        assert copies is not None
        begun = [(at, object_) for at, object_ in enumerate(self._objects) if object_.fits]
        self._batch.submit(
            [(DESCRIBE, str(at), copies.source.key(object_.source), str(object_.size_bytes)) for at, object_ in begun]
        )
        left = len(begun)
        while left and self._store.is_active:
            check()
            self._batch.widen(gate.share)
            next_steps = list[Sequence[str]]()
            for result in self._batch.results():
                step = self._next(result)
                if step is None:
                    left -= 1
                else:
                    next_steps.append(step)
            self._batch.submit(next_steps)
        check()
        return self._done

    def _next(self, result: BatchResult) -> Sequence[str] | None:
        """Return the next step of an object; `None` if it has none."""
        if result.failure is not None:
            self._failed(result)
            return None
        assert result.described is not None
        if result.step == COPY:
            self._copied(result.number, result.described, *result.fields)
            return None
        return self._copy(result.number, result.described, result.fields)

    def _failed(self, result: BatchResult) -> None:
        assert result.failure is not None
        status, code, message = result.failure
        answer = answer_of(status, code)
        if answer is CopyAnswer.CHANGED:
            raise self._store.changed(self._objects[result.number].source)
        if answer is CopyAnswer.BUSY:
            self._store.gate.refuse()
        if answer is CopyAnswer.REFUSED and result.step == COPY:
            self._store.end(code, status, message)

    def _copy(self, at: int, described: StoredObject, fields: tuple[str, ...]) -> Sequence[str] | None:
        object_, copies = self._objects[at], self._store.requests
        assert copies is not None
        if described.size_bytes != object_.size_bytes or not fields:
            return None
        rows, number, encryption = fields
        if encryption != NOT_ENCRYPTED:
            return None
        schema, metadata = self._metadata_of(int(number))
        footer = BatchFooter(int(rows), schema, metadata)
        measures = self._measures(at, footer)
        if measures is None:
            return None
        self._described[at] = described, footer
        keys = copies.source.key(object_.source), copies.target.key(object_.target)
        hides = str(int(object_.hides_rows))
        return COPY, str(at), *keys, described.etag, str(self._number_of(measures)), hides

    def _copied(self, at: int, made: StoredObject, took_ns: str, statistics: str) -> None:
        described, footer = self._described.pop(at)
        self._store.gate.answer(int(took_ns) / NANOS)
        if made.digest is None:
            self._store.end("", 0, NO_DIGEST)
        elif is_exact(described.size_bytes, described.digest, copied_bytes=made.size_bytes, copied_digest=made.digest):
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
