"""Bytes of a file from one file system to another, and their digest: by the system where both are this machine's, else by Hadoop.

A local file is copied without Hadoop, which starts a process for each file that it makes (ADR 0002), and the system may share
blocks instead of copying them. What goes wrong there is tried again by Hadoop, whose errors are explained as everywhere.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from backfill_spark.jvm.gateway import hadoop_conf, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK_BYTES = 32 << 20
"""Between two chunks a copy looks whether it was cancelled."""

BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CopiedBytes:
    """What was read of a file, and may have been copied."""

    size_bytes: int
    """Of the copy, where there is one."""

    digest: str
    """CRC-32C of what was read, hexadecimal (ADR 0017)."""


class ByteReader:
    """Reads files below one folder. From any thread."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Take the folder, as a path or a URI."""
        self._jvm = java(spark)
        self._path: Any = self._jvm.org.apache.hadoop.fs.Path
        self._files = self._path(folder).getFileSystem(hadoop_conf(spark))
        self._folder = folder.rstrip("/")
        self.is_local = str(self._files.getUri().getScheme()) == "file"
        self._local = str(self._path(self._folder).toUri().getPath())
        # Each name of a class and of a static method is a question to Java, whenever it is said.
        java_io, java_zip, commons = self._jvm.java.io, self._jvm.java.util.zip, self._jvm.org.apache.commons.io
        self._file, self._buffered = java_io.FileInputStream, java_io.BufferedInputStream
        self._checked, self._sum = java_zip.CheckedInputStream, java_zip.CRC32C
        self._move, self._nowhere = commons.IOUtils.copyLarge, commons.output.NullOutputStream.INSTANCE

    def local_path(self, below: str) -> Path:
        """Return the path of a file, where the folder is this machine's."""
        return Path(f"{self._local}/{below}")

    def read(self, below: str, *, check: Callable[[], None], into: Any = None) -> CopiedBytes:
        """Read a file.

        Args:
            below: Its path below the folder.
            check: Called before each chunk; what it raises ends the read.
            into: Java's stream that gets the bytes; None: nothing is kept of them.

        Raises:
            Whatever the file system says (`JAVA_ERRORS`).
        """
        writer, opened, total, moved = self._nowhere if into is None else into, self._opened(below), 0, CHUNK_BYTES
        try:
            stream = self._checked(opened, self._sum())
            while moved == CHUNK_BYTES:  # less is all that was left
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
    """Copies files from below one folder to below another. From any thread."""

    def __init__(self, spark: SparkSession, source: str, target: str) -> None:
        """Take the two folders, as paths or URIs."""
        self._jvm = java(spark)
        self._path: Any = self._jvm.org.apache.hadoop.fs.Path
        self._to = self._path(target).getFileSystem(hadoop_conf(spark))
        self._reader = ByteReader(spark, source)
        self.source, self.target = source.rstrip("/"), target.rstrip("/")
        self.is_local = self._reader.is_local and str(self._to.getUri().getScheme()) == "file"
        self._target_path = str(self._path(self.target).toUri().getPath())

    def staged_path(self, below: str) -> str:
        """Return the path of a file below the target's folder, without a scheme."""
        return f"{self._target_path}/{below}"

    def make_folder(self, below: str) -> None:
        """Make a folder below the target's, and those above it."""
        if self.is_local:
            with suppress(OSError):  # Hadoop says why
                Path(self.staged_path(below)).mkdir(parents=True, exist_ok=True)
                return
        self._to.mkdirs(self._path(f"{self.target}/{below}"))

    def files(self, below: str) -> list[str]:
        """Return the paths of the Parquet files in a folder below the target's, and in those below it."""
        if self.is_local:
            return [str(path) for path in Path(self.staged_path(below)).rglob("*.parquet")]
        found = self._to.listFiles(self._path(f"{self.target}/{below}"), True)
        paths = list[str]()
        while found.hasNext():
            paths.append(str(found.next().getPath().toString()))
        return [path for path in paths if path.endswith(".parquet")]

    def remove_folder(self, below: str) -> None:
        """Remove a folder below the target's, with all that is in it."""
        if self.is_local:
            with suppress(OSError):  # it is not there, or Hadoop says why
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
            target: Does not exist; of a copy that fails something may be there.
            check: Called before each chunk; what it raises ends the copy.

        Raises:
            Whatever the two file systems say (`JAVA_ERRORS`).
        """
        if self.is_local:
            with suppress(OSError):
                size_bytes = _copied(self._reader.local_path(source), Path(self.staged_path(target)), check)
                # The system tells nothing of what it copies; what it has just read is in its memory.
                return CopiedBytes(size_bytes, self._reader.read(source, check=check).digest)
        writer = self._to.create(self._path(f"{self.target}/{target}"), True)
        try:
            return self._reader.read(source, check=check, into=writer)
        finally:
            writer.close()


def _copied(source: Path, target: Path, check: Callable[[], None]) -> int:
    """Return the size of the copy."""
    with source.open("rb", buffering=0) as reader, target.open("wb") as writer:
        _by_the_system(reader, writer, check)
        # What the system did not copy; behind the last byte it is nothing.
        buffer = memoryview(bytearray(BUFFER_BYTES))
        check()
        while count := reader.readinto(buffer):
            writer.write(buffer[:count])
            check()
        writer.flush()
        return os.fstat(writer.fileno()).st_size


def _by_the_system(reader: Any, writer: BinaryIO, check: Callable[[], None]) -> None:
    copy = getattr(os, "copy_file_range", None)  # of Linux alone, and not of all its file systems
    with suppress(OSError):
        while copy is not None:
            check()
            if not copy(reader.fileno(), writer.fileno(), CHUNK_BYTES):
                return
