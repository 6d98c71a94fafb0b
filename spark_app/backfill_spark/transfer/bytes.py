"""Bytes of a file from one file system to another: by the system where both are this machine's, else through Hadoop's streams.

A local file is copied without Hadoop, which starts a process for each file that it makes (ADR 0014), and the system may share
blocks instead of copying them. What goes wrong there is tried again by Hadoop, whose errors are explained as everywhere.
"""

from __future__ import annotations

import hashlib
import os
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
    """What was copied."""

    size_bytes: int
    digest: str | None
    """SHA-256 in hex, of what was read; None: not asked for."""


class ByteCopier:
    """Copies files from below one folder to below another. From any thread."""

    def __init__(self, spark: SparkSession, source: str, target: str) -> None:
        """Take the two folders, as paths or URIs."""
        self._jvm = java(spark)
        self._path: Any = self._jvm.org.apache.hadoop.fs.Path
        conf = hadoop_conf(spark)
        self._from, self._to = (self._path(one).getFileSystem(conf) for one in (source, target))
        self.source, self.target = source.rstrip("/"), target.rstrip("/")
        self.is_local = all(str(one.getUri().getScheme()) == "file" for one in (self._from, self._to))
        self._source_path, self._target_path = (
            str(self._path(one).toUri().getPath()) for one in (self.source, self.target)
        )

    def staged_path(self, below: str) -> str:
        """Return the path of a file below the target's folder, without a scheme."""
        return f"{self._target_path}/{below}"

    def source_file(self, below: str) -> str:
        """Return a file of the source, as it is opened: without a scheme where both file systems are this machine's."""
        return f"{self._source_path if self.is_local else self.source}/{below}"

    def target_file(self, below: str) -> str:
        """Return a file of the target, in the same way."""
        return f"{self._target_path if self.is_local else self.target}/{below}"

    def make_folder(self, below: str) -> None:
        """Make a folder below the target's, and those above it."""
        if self.is_local:
            with suppress(OSError):  # Hadoop says why
                Path(self.staged_path(below)).mkdir(parents=True, exist_ok=True)
                return
        self._to.mkdirs(self._path(f"{self.target}/{below}"))

    def remove(self, below: str) -> None:
        """Remove a file below the target's folder."""
        self._to.delete(self._path(f"{self.target}/{below}"), False)

    def copy(self, source: str, target: str, *, check: Callable[[], None], digest: bool = False) -> CopiedBytes:
        """Copy a file; both paths are below their folders.

        Args:
            source: The file.
            target: Does not exist; of a copy that fails something may be there.
            check: Called before each chunk; what it raises ends the copy.
            digest: Is the digest wanted?

        Raises:
            Whatever the two file systems say (`JAVA_ERRORS`).
        """
        if self.is_local:
            with suppress(OSError):
                return _copied(
                    Path(f"{self._source_path}/{source}"), Path(self.staged_path(target)), check, digest=digest
                )
        return self._streamed(f"{self.source}/{source}", f"{self.target}/{target}", check, digest=digest)

    def _streamed(self, source: str, target: str, check: Callable[[], None], *, digest: bool) -> CopiedBytes:
        jvm, total = self._jvm, 0
        reader = self._from.open(self._path(source))
        try:
            hashed = jvm.java.security.MessageDigest.getInstance("SHA-256") if digest else None
            stream = reader if hashed is None else jvm.java.security.DigestInputStream(reader, hashed)
            writer = self._to.create(self._path(target), True)
            try:
                check()
                while moved := jvm.org.apache.commons.io.IOUtils.copyLarge(stream, writer, 0, CHUNK_BYTES):
                    total += moved
                    check()
            finally:
                writer.close()
        finally:
            reader.close()
        return CopiedBytes(total, None if hashed is None else bytes(hashed.digest()).hex())


def _copied(source: Path, target: Path, check: Callable[[], None], *, digest: bool) -> CopiedBytes:
    with source.open("rb", buffering=0) as reader, target.open("wb") as writer:
        if not digest:
            _by_the_system(reader, writer, check)
        # What the system did not copy; behind the last byte it is nothing.
        hashed, buffer = hashlib.sha256() if digest else None, memoryview(bytearray(BUFFER_BYTES))
        check()
        while count := reader.readinto(buffer):
            if hashed is not None:
                hashed.update(buffer[:count])
            writer.write(buffer[:count])
            check()
        writer.flush()
        size_bytes = os.fstat(writer.fileno()).st_size
    return CopiedBytes(size_bytes, None if hashed is None else hashed.hexdigest())


def _by_the_system(reader: Any, writer: BinaryIO, check: Callable[[], None]) -> None:
    copy = getattr(os, "copy_file_range", None)  # of Linux alone, and not of all its file systems
    with suppress(OSError):
        while copy is not None:
            check()
            if not copy(reader.fileno(), writer.fileno(), CHUNK_BYTES):
                return
