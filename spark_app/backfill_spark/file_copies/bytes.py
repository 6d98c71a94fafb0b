"""Copies of a file's bytes between file systems, with their digest: by the operating system, by the object store, else by Hadoop.

Local files are copied without Hadoop, which starts a process for each file that it creates (ADR 0002). The operating system may
also share blocks instead of copying them. If such a copy fails, Hadoop tries again, so that its errors are explained.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from backfill_core.file_copies.movers import ByDriver, Mover
from backfill_spark.file_copies.copy_batches import CopiesBySystem, described_objects
from backfill_spark.file_copies.store_copies import StoreCopies
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.object_store.s3_requests import S3Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK_BYTES = 32 << 20
"""Size of a chunk; between two chunks, a copy checks for cancellation."""

BUFFER_BYTES = 1 << 20

STREAMS_AT_ONCE = 4
"""Files whose bytes pass through the driver in parallel."""

NEW_NAME = ("fs.s3a.create.performance", "true")
"""Option of a new file, which other file systems ignore: S3A does not list the name first, to see whether it is a folder."""

ASKED_AT_ONCE = 16
"""Footers, deletion vectors and digests that a remote store is asked for in parallel: each takes a few requests of a few KiB."""


@dataclass(frozen=True, slots=True)
class CopiedBytes:
    """Size and digest of a file that was read, and perhaps copied."""

    size_bytes: int
    """Size of the copy, or of the bytes read if nothing was copied."""

    digest: str
    """CRC-32C of the bytes read, hexadecimal (ADR 0017)."""


class ByteReader:
    """Reader of files below one folder. Thread-safe."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Store the folder, a path or a URI."""
        self._spark, self._jvm = spark, java(spark)
        self._path: Any = self._jvm.org.apache.hadoop.fs.Path
        self._files = self._path(folder).getFileSystem(hadoop_conf(spark))
        self._folder = folder.rstrip("/")
        self.is_local = str(self._files.getUri().getScheme()) == "file"
        self._store, self._streams = S3Folder.of(spark, self._folder), threading.BoundedSemaphore(STREAMS_AT_ONCE)
        self._local = str(self._path(self._folder).toUri().getPath())
        # Resolved once: each reference to a class or a static method is a call into the JVM.
        java_io, java_zip, commons = self._jvm.java.io, self._jvm.java.util.zip, self._jvm.org.apache.commons.io
        self._file, self._buffered = java_io.FileInputStream, java_io.BufferedInputStream
        self._checked, self._sum = java_zip.CheckedInputStream, java_zip.CRC32C
        self._move, self._nowhere = commons.IOUtils.copyLarge, commons.output.NullOutputStream.INSTANCE

    def local_path(self, below: str) -> Path:
        """Return the local path of a file, if the folder is local."""
        return Path(f"{self._local}/{below}")

    @property
    def threads(self) -> int:
        """Number of threads that may call `digest` in parallel."""
        return STREAMS_AT_ONCE if self._store is None else ASKED_AT_ONCE

    def reported(self, paths: Sequence[str], *, check: Callable[[], None]) -> dict[str, CopiedBytes]:
        """Return sizes and digests that the store reports, by path; files without one must be asked for by `digest`."""
        if self._store is None:
            return {}
        described = described_objects(self._spark, self._store, paths, check=check)
        return {
            path: CopiedBytes(object_.size_bytes, object_.digest)
            for path, object_ in described.items()
            if object_.digest is not None
        }

    def digest(self, below: str, *, check: Callable[[], None]) -> CopiedBytes:
        """Return size and digest of a file: those that the store reports, or those of the bytes, if it reports none.

        Raises:
            JAVA_ERRORS: the file system failed.
        """
        check()
        if self._store is not None:
            with suppress(*JAVA_ERRORS):  # a read meets the same error, and explains it
                described = self._store.describe(below)
                if described.digest is not None:
                    return CopiedBytes(described.size_bytes, described.digest)
        with self._streams:
            return self.read(below, check=check)

    def read(self, below: str, *, check: Callable[[], None], into: Any = None) -> CopiedBytes:
        """Read a file.

        Args:
            below: Its path below the folder.
            check: Called before each chunk; an exception that it raises ends the read.
            into: Java stream for the bytes; `None` discards them.

        Raises:
            JAVA_ERRORS: the file system failed.
        """
        writer, opened, total, moved = self._nowhere if into is None else into, self._opened(below), 0, CHUNK_BYTES
        try:
            stream = self._checked(opened, self._sum())
            while moved == CHUNK_BYTES:  # a shorter chunk is the last one
                check()
                moved = self._move(stream, writer, 0, CHUNK_BYTES)
                total += moved
            return CopiedBytes(total, f"{stream.getChecksum().getValue():08x}")
        finally:
            opened.close()

    def _opened(self, below: str) -> Any:
        if not self.is_local:
            return self._files.open(self._path(f"{self._folder}/{below}"))
        return self._buffered(self._file(str(self.local_path(below))), BUFFER_BYTES)


class ByteCopier:
    """Copier of files from below one folder to below another. Thread-safe."""

    def __init__(self, spark: SparkSession, source: str, target: str) -> None:
        """Store the two folders, paths or URIs."""
        self._jvm = java(spark)
        self._path: Any = self._jvm.org.apache.hadoop.fs.Path
        self._to = self._path(target).getFileSystem(hadoop_conf(spark))
        self._reader = ByteReader(spark, source)
        self.source, self.target = source.rstrip("/"), target.rstrip("/")
        self.is_local = self._reader.is_local and str(self._to.getUri().getScheme()) == "file"
        self._target_path = str(self._path(self.target).toUri().getPath())
        self.store = None if self.is_local else StoreCopies(spark, source, target)
        """Copies by the object store; `None` for local files."""

        self._streams = threading.BoundedSemaphore(STREAMS_AT_ONCE)

    @property
    def mover(self) -> Mover:
        """Mover of the bytes of the next file."""
        return ByDriver() if self.store is None else self.store.mover

    @property
    def refusal(self) -> str:
        """Reason for which the store ended its copies; empty if it did not."""
        return "" if self.store is None else self.store.refusal

    @property
    def threads(self) -> int:
        """Number of threads that may call `copy` in parallel, if the store copies; else 0."""
        return self.store.threads if self.store is not None and self.store.is_active else 0

    def staged_path(self, below: str) -> str:
        """Return the path of a file below the target's folder, without a scheme."""
        return f"{self._target_path}/{below}"

    def make_folder(self, below: str) -> None:
        """Create a folder below the target's, with its parents."""
        if self.is_local:
            with suppress(OSError):  # Hadoop tries again and reports the error
                Path(self.staged_path(below)).mkdir(parents=True, exist_ok=True)
                return
        self._to.mkdirs(self._path(f"{self.target}/{below}"))

    def in_batches(self, width: int) -> CopiesBySystem:
        """Return copies of local files in batches, on a number of threads."""
        return CopiesBySystem(self._reader.local_path, self._by_system, width)

    def _by_system(self, source: str, target: str, check: Callable[[], None]) -> int | None:
        """Copy a local file, and return its size; `None` if it cannot be copied."""
        with suppress(OSError):
            return _copied(self._reader.local_path(source), Path(self.staged_path(target)), check)
        return None

    def files(self, below: str) -> list[str]:
        """Return the paths of the Parquet files in a folder below the target's, recursively."""
        if self.is_local:
            return [str(path) for path in Path(self.staged_path(below)).rglob("*.parquet")]
        listing = self._to.listFiles(self._path(f"{self.target}/{below}"), True)
        paths = list[str]()
        while listing.hasNext():
            paths.append(str(listing.next().getPath().toString()))
        return [path for path in paths if path.endswith(".parquet")]

    def remove_folder(self, below: str) -> None:
        """Remove a folder below the target's, with its contents."""
        if self.is_local:
            with suppress(OSError):  # it does not exist, or Hadoop reports the error
                shutil.rmtree(self.staged_path(below))
                return
        self._to.delete(self._path(f"{self.target}/{below}"), True)

    def remove(self, below: str) -> None:
        """Remove a file below the target's folder."""
        self._to.delete(self._path(f"{self.target}/{below}"), False)

    def copy(self, source: str, target: str, *, check: Callable[[], None]) -> CopiedBytes:
        """Copy a file; both paths are below their folders.

        Args:
            source: The file.
            target: The new file; must not exist. A failed copy may leave a part of it.
            check: Called before each chunk; an exception that it raises ends the copy.

        Raises:
            JAVA_ERRORS: one of the two file systems failed.
        """
        if self.is_local and (size_bytes := self._by_system(source, target, check)) is not None:
            # The system computes no digest; the bytes that it has just read are in its page cache.
            return CopiedBytes(size_bytes, self._reader.read(source, check=check).digest)
        by_store = None if self.store is None else self.store.copy(source, target, check=check)
        if by_store is not None and by_store.digest is not None:
            return CopiedBytes(by_store.size_bytes, by_store.digest)
        with self._streams:
            if by_store is None:
                return self._streamed(source, target, check)
            return CopiedBytes(by_store.size_bytes, self._reader.read(source, check=check).digest)

    def offer(self, source: str, target: str) -> bool:
        """Let the store copy a file; return false if it does not, in which case nothing is copied.

        Raises:
            SourceDamagedError: the file changed while it was copied.
        """
        return self.store is not None and self.store.copy(source, target, check=lambda: None) is not None

    def _streamed(self, source: str, target: str, check: Callable[[], None]) -> CopiedBytes:
        made = self._to.createFile(self._path(f"{self.target}/{target}")).recursive().overwrite(True)
        writer = made.opt(*NEW_NAME).build()
        try:
            return self._reader.read(source, check=check, into=writer)
        finally:
            writer.close()


def _copied(source: Path, target: Path, check: Callable[[], None]) -> int:
    """Copy a local file and return the size of the copy."""
    with source.open("rb", buffering=0) as reader, target.open("wb") as writer:
        _by_the_system(reader, writer, check)
        # Copies the bytes that the system did not copy, if any.
        buffer = memoryview(bytearray(BUFFER_BYTES))
        check()
        while count := reader.readinto(buffer):
            writer.write(buffer[:count])
            check()
        writer.flush()
        return os.fstat(writer.fileno()).st_size


def _by_the_system(reader: Any, writer: BinaryIO, check: Callable[[], None]) -> None:
    copy = getattr(os, "copy_file_range", None)  # Linux only, and not on all its file systems
    with suppress(OSError):
        while copy is not None:
            check()
            if not copy(reader.fileno(), writer.fileno(), CHUNK_BYTES):
                return
