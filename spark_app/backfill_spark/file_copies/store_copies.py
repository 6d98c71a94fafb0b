"""Copies of files that the object store makes itself; the driver streams a file that the store does not copy.

A refusal ends the copies by the store for the rest of the attempt: the driver streams all further files, and the reason is logged,
planned and reported. An object that changed between its description and its copy is an error of the source.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from backfill_core.errors import SourceDamagedError
from backfill_core.file_copies.movers import (
    COPY_MAX_BYTES,
    PART_BYTES,
    ByDriver,
    ByStore,
    CopyAnswer,
    Mover,
    answer_of,
    mover_of,
    parts_of,
)
from backfill_core.file_copies.request_width import WIDEST
from backfill_core.file_copies.store_digest import is_exact
from backfill_spark.file_copies.request_gate import RequestGate
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line
from backfill_spark.jvm.object_store.s3_requests import CopiedPart, S3Copies, S3Folder, StoredObject, error_of
from backfill_spark.jvm.object_store.s3_settings import store_facts
from backfill_spark.jvm.workers import at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIES = 5
"""Requests for one object that a busy store may refuse; each of them was already repeated by Amazon's client."""

PARTS_AT_ONCE = 8
"""Parts of one object that are copied in parallel."""

NO_DIGEST = "the store computes no CRC-32C of a copy"


@dataclass(frozen=True, slots=True)
class CopiedObject:
    """An object that the store copied."""

    size_bytes: int
    digest: str | None
    """CRC-32C of its bytes, hexadecimal; `None` if the store has none for an object in parts."""


class StoreCopies:
    """Copies from below one folder to below another. Thread-safe."""

    def __init__(self, spark: SparkSession, source: str, target: str) -> None:
        """Decide by the settings who copies; sends no request.

        Raises:
            JAVA_ERRORS: a file system cannot be opened.
        """
        self._lock, self.gate = threading.Lock(), RequestGate()
        self._mover: Mover = mover_of(store_facts(spark, source), store_facts(spark, target))
        self.refusal = ""
        """Reason of the store for the end of its copies; empty if it did not refuse one."""

        self.requests: S3Copies | None = None
        """Requests of copies; `None` if the settings exclude them."""

        if isinstance(self._mover, ByDriver):
            return
        objects, made = S3Folder.of(spark, source), S3Folder.of(spark, target)
        if objects is None or made is None:
            self._mover = ByDriver("another client than Hadoop's own reaches the store (fs.s3a.impl)")
            return
        try:
            self.requests = S3Copies(spark, objects, made)
        except JAVA_ERRORS as error:
            self._mover = ByDriver(first_line(error))

    @property
    def mover(self) -> Mover:
        """Mover of the next file."""
        with self._lock:
            return self._mover

    @property
    def is_active(self) -> bool:
        """True if the store copies the next file."""
        return isinstance(self.mover, ByStore)

    @property
    def threads(self) -> int:
        """Number of threads that copy files in parallel: enough for a width that doubles meanwhile."""
        return min(WIDEST, 2 * self.gate.width)

    def copy(self, source: str, target: str, *, check: Callable[[], None]) -> CopiedObject | None:
        """Let the store copy an object; `None` if the driver must stream it.

        Args:
            source: The object, below the source's folder.
            target: The new object, below the target's folder.
            check: Called before each request; an exception that it raises ends the copy, and nothing of it remains.

        Raises:
            SourceDamagedError: the object changed while it was copied.
        """
        if self.requests is None or not self.is_active:
            return None
        for _ in range(TRIES):
            try:
                return self._try(self.requests, source, target, check)
            except JAVA_ERRORS as error:
                status, code, message = error_of(error)
                match answer_of(status, code):
                    case CopyAnswer.BUSY:
                        self.gate.refuse()
                    case CopyAnswer.CHANGED:
                        raise self.changed(source) from error
                    case CopyAnswer.REFUSED:
                        self.end(code, status, message)
                        return None
                    case CopyAnswer.UNCLEAR:
                        return None
        return None

    def _try(self, copies: S3Copies, source: str, target: str, check: Callable[[], None]) -> CopiedObject | None:
        with self.gate.slot(check):
            described = copies.source.describe(source)
            if described.size_bytes <= COPY_MAX_BYTES:
                copies.copy(source, target, described.etag)
        if described.size_bytes > COPY_MAX_BYTES:
            self._copy_parts(copies, source, target, described, check)
        with self.gate.slot(check):
            began_s = time.monotonic()
            made = copies.target.describe(target)
            self.gate.answer(time.monotonic() - began_s)
        if made.digest is None and described.size_bytes <= COPY_MAX_BYTES:
            self.end("", 0, NO_DIGEST)
            return None
        if is_exact(described.size_bytes, described.digest, copied_bytes=made.size_bytes, copied_digest=made.digest):
            return CopiedObject(made.size_bytes, made.digest)
        return None  # streamed over the damaged copy

    def _copy_parts(
        self, copies: S3Copies, source: str, target: str, described: StoredObject, check: Callable[[], None]
    ) -> None:
        with copies.upload(target) as upload:

            def part(number: int, span: tuple[int, int]) -> CopiedPart:
                with self.gate.slot(check):
                    return copies.copy_part(source, target, described.etag, upload=upload, number=number, span=span)

            spans = parts_of(described.size_bytes, PART_BYTES)
            tasks = [partial(part, number, span) for number, span in enumerate(spans, 1)]
            parts = at_once(tasks, PARTS_AT_ONCE)
            check()
            copies.complete(target, upload, parts)

    def changed(self, source: str) -> SourceDamagedError:
        """Return the error of an object that changed while it was copied."""
        return SourceDamagedError(
            f"{source} of the source changed while it was copied.",
            hint="Delta never changes a file: restore it, or start a new job from a newer version.",
        )

    def end(self, code: str, status: int, message: str) -> None:
        """End the copies by the store for the rest of the attempt, with the reason in its answer."""
        reason = f"{code or status or ''}: {message}".strip(": ")
        with self._lock:
            if isinstance(self._mover, ByDriver):
                return
            self._mover, self.refusal = ByDriver(f"the store refuses to copy: {reason}"), reason
        logging.getLogger(__name__).warning(
            "the store does not copy files itself, so the driver streams them: %s (docs/object-stores.md)", reason
        )
