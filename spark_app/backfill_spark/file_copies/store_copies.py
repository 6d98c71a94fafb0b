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
        self._lock, self._gate = threading.Lock(), RequestGate()
        self._mover: Mover = mover_of(store_facts(spark, source), store_facts(spark, target))
        self.refusal = ""
        """Reason of the store for the end of its copies; empty if it did not refuse one."""

        self._copies: S3Copies | None = None
        if isinstance(self._mover, ByDriver):
            return
        objects, made = S3Folder.of(spark, source), S3Folder.of(spark, target)
        if objects is None or made is None:
            self._mover = ByDriver("another client than Hadoop's own reaches the store (fs.s3a.impl)")
            return
        try:
            self._copies = S3Copies(spark, objects, made)
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
        return min(WIDEST, 2 * self._gate.width)

    def copy(self, source: str, target: str, *, check: Callable[[], None]) -> CopiedObject | None:
        """Let the store copy an object; `None` if the driver must stream it.

        Args:
            source: The object, below the source's folder.
            target: The new object, below the target's folder.
            check: Called before each request; an exception that it raises ends the copy, and nothing of it remains.

        Raises:
            SourceDamagedError: the object changed while it was copied.
        """
        if self._copies is None or not self.is_active:
            return None
        for _ in range(TRIES):
            try:
                return self._try(self._copies, source, target, check)
            except JAVA_ERRORS as error:
                status, code, message = error_of(error)
                match answer_of(status, code):
                    case CopyAnswer.BUSY:
                        self._gate.refuse()
                    case CopyAnswer.CHANGED:
                        raise SourceDamagedError(
                            f"{source} of the source changed while it was copied.",
                            hint="Delta never changes a file: restore it, or start a new job from a newer version.",
                        ) from error
                    case CopyAnswer.REFUSED:
                        self._end(f"{code or status}: {message}".rstrip(": "))
                        return None
                    case CopyAnswer.UNCLEAR:
                        return None
        return None

    def _try(self, copies: S3Copies, source: str, target: str, check: Callable[[], None]) -> CopiedObject | None:
        with self._gate.slot(check):
            described = copies.source.describe(source)
            if described.size_bytes <= COPY_MAX_BYTES:
                copies.copy(source, target, described.etag)
        if described.size_bytes > COPY_MAX_BYTES:
            self._copy_parts(copies, source, target, described, check)
        with self._gate.slot(check):
            began_s = time.monotonic()
            made = copies.target.describe(target)
            self._gate.answer(time.monotonic() - began_s)
        if made.digest is None and described.size_bytes <= COPY_MAX_BYTES:
            self._end(NO_DIGEST)
            return None
        if made.size_bytes != described.size_bytes or (
            None not in (described.digest, made.digest) and described.digest != made.digest
        ):
            return None  # streamed over the damaged copy
        return CopiedObject(made.size_bytes, made.digest)

    def _copy_parts(
        self, copies: S3Copies, source: str, target: str, described: StoredObject, check: Callable[[], None]
    ) -> None:
        with copies.upload(target) as upload:

            def part(number: int, span: tuple[int, int]) -> CopiedPart:
                with self._gate.slot(check):
                    return copies.copy_part(source, target, described.etag, upload=upload, number=number, span=span)

            spans = parts_of(described.size_bytes, PART_BYTES)
            tasks = [partial(part, number, span) for number, span in enumerate(spans, 1)]
            parts = at_once(tasks, PARTS_AT_ONCE)
            check()
            copies.complete(target, upload, parts)

    def _end(self, reason: str) -> None:
        with self._lock:
            if isinstance(self._mover, ByDriver):
                return
            self._mover, self.refusal = ByDriver(f"the store refuses to copy: {reason}"), reason
        logging.getLogger(__name__).warning(
            "the store does not copy files itself, so the driver streams them: %s (docs/object-stores.md)", reason
        )
