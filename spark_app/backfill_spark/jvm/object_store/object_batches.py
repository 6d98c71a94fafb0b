"""Steps of copies of many files, on threads of the JVM: a call from Python serves many files (ADR 0050).

A step of an S3 store is `describe` (the footer by GET), `copy` (COPY, HEAD of the copy, and its statistics from the footer) or `head`.
A step of a local disk is `describe` (the footer) or `digest` (checksum, and statistics from the footer): the system copies its files.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from backfill_core.file_copies.store_digest import full_crc32c
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.object_store.s3_requests import S3Copies, S3Folder, StoredObject
from backfill_spark.jvm.own_classes import bring_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE: Final = "io.delta.kernel.defaults.internal.parquet"
LOCAL, STORE = "BackfillFileCopies", "BackfillStoreCopies"
NEIGHBOUR: Final = f"{PACKAGE}.ParquetIOUtils"
SEPARATORS: Final = frozenset("\t\n\r")
"""Characters that no key in a batch may contain."""

DESCRIBE, COPY, DIGEST, HEAD = "describe", "copy", "digest", "head"
WAIT_MS: Final = 100
"""Time after which a wait for results ends without one."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Result of one step."""

    step: str
    number: int
    """Number of the object, as given with the task."""

    failure: tuple[int, str, str] | None
    """HTTP status, code and message, as `error_of`; `None` if the step succeeded."""

    fields: tuple[str, ...]
    """Results of the step, after the description of the object."""

    described: StoredObject | None
    """The object, or the copy; `None` after a failure."""


def can_batch(spark: SparkSession, *, local: bool = False) -> bool:
    """Return true if the session has the classes for batches of local files, or of a store's objects, and bring them.

    A session may lack a class that they use.
    """
    try:
        for name in (LOCAL,) if local else (LOCAL, STORE):
            source = Path(__file__).with_name(f"{name}.java")
            if bring_class(spark, f"{PACKAGE}.{name}", neighbour=NEIGHBOUR, source=source) is None:
                return False
    except JAVA_ERRORS as error:
        logging.getLogger(__name__).warning("files are copied one by one: %s", first_line(error))
        return False
    return True


def local_batch(spark: SparkSession, options: Any) -> FileBatch:
    """Return a batch of files of the local disk, with Parquet's read options.

    Raises:
        JAVA_ERRORS: `can_batch` was not asked before.
    """
    made: Any = java(spark).io.delta.kernel.defaults.internal.parquet.BackfillFileCopies
    return FileBatch(spark, made(hadoop_conf(spark), options))


def object_batch(spark: SparkSession, source: S3Folder, copies: S3Copies | None, options: Any) -> FileBatch:
    """Prepare requests for the objects of a folder; sends none.

    Args:
        spark: The session.
        source: The folder.
        copies: Copies from that folder; `None` if the batch only describes objects.
        options: Parquet's read options; `None` without copies.

    Raises:
        JAVA_ERRORS: `can_batch` was not asked before.
    """
    target = source if copies is None else copies.target
    get = source.model.GetObjectRequest.builder().bucket(source.bucket).build()
    copy = None if copies is None else copies.request
    made: Any = java(spark).io.delta.kernel.defaults.internal.parquet.BackfillStoreCopies
    systems, clients = java_list(spark, source.files, target.files), java_list(spark, source.client, target.client)
    return FileBatch(spark, made(systems, clients, java_list(spark, source.head, get, copy, target.head), options))


def java_list(spark: SparkSession, *values: Any) -> Any:
    """Return a Java list of values."""
    made = java(spark).java.util.ArrayList()
    for value in values:
        made.add(value)
    return made


class FileBatch:
    """Files under way; used by one thread, as a context. No step is under way after its end."""

    def __init__(self, spark: SparkSession, batch: Any) -> None:
        """Take the Java object."""
        self._java, self.listed = batch, partial(java_list, spark)

    def __enter__(self) -> Self:
        """Begin the batch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop the tasks that did not begin, and wait for requests under way."""
        self._java.close()

    def widen(self, width: int) -> None:
        """Set the number of objects under way."""
        self._java.widen(width)

    def submit(self, tasks: Sequence[Sequence[str]]) -> None:
        """Add tasks, each as its step, the number of its object, and the fields of the step."""
        if tasks:
            self._java.submit("\n".join(map("\t".join, tasks)))

    def results(self) -> list[BatchResult]:
        """Wait for a result, and return all that exist; an empty list after `WAIT_MS`."""
        text = base64.b64decode(self._java.poll(WAIT_MS)).decode()
        return [_result(line.split("\t")) for line in text.split("\n") if line]

    def metadata(self, number: int) -> Any:
        """Return the Java metadata of footers."""
        return self._java.metadata(number)

    def measure(self, schemas: Any, columns: Any, changed: Any, firsts: Any) -> int:
        """Return the number of a new description of statistics; see the Java class."""
        return int(self._java.measure(schemas, columns, changed, firsts))


def _result(line: list[str]) -> BatchResult:
    step, number, outcome, *fields = line
    if outcome == "failed":
        return BatchResult(step, int(number), (int(fields[0]), fields[1], fields[2]), (), None)
    size_bytes, etag, checksum, kind, *rest = fields
    described = StoredObject(int(size_bytes), etag, full_crc32c(checksum, kind or None))
    return BatchResult(step, int(number), None, tuple(rest), described)
