"""Lines of text outside of the heap, by their number."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Sequence
from typing import IO, overload

from backfill_core.errors import StorageFullError

MEMORY_BYTES_MAX = 32 * 2**20
"""Most bytes of lines in memory; more are in a temporary file. The entry of a file in a log has about a kilobyte."""

WRITE_BYTES = 2**20
"""Bytes of lines that are written at once."""


class StoredLines(Sequence[str]):
    """Lines that were added one by one, by their number; safe to read from any thread."""

    def __init__(self, memory_bytes_max: int = MEMORY_BYTES_MAX) -> None:
        """Begin without lines; more than `memory_bytes_max` bytes of them go to a temporary file without a name."""
        self._memory_bytes_max = memory_bytes_max
        self._ends = array("q", [0])
        self._unwritten = bytearray()
        self._written = 0
        self._file: IO[bytes] | None = None

    def append(self, line: str) -> None:
        """Add a line.

        Raises:
            StorageFullError: the temporary folder has no space.
        """
        self._unwritten += line.encode()
        self._ends.append(self._written + len(self._unwritten))
        if len(self._unwritten) > (self._memory_bytes_max if self._file is None else WRITE_BYTES):
            self._write()

    def _write(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="backfill-files-", buffering=0)  # noqa: SIM115 - open until it is collected
            left = memoryview(self._unwritten)
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise StorageFullError(
                f"the list of the table's files cannot be stored in the folder {tempfile.gettempdir()}: {error.strerror}.",
                hint="Free some space there, or set TMPDIR to another folder; a file of the table needs a kilobyte.",
            ) from error
        self._written += len(self._unwritten)
        self._unwritten = bytearray()

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Return one line, or some."""
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        start, stop = self._ends[index], self._ends[index + 1]
        if start >= self._written:
            return self._unwritten[start - self._written : stop - self._written].decode()
        assert self._file is not None
        return os.pread(self._file.fileno(), stop - start, start).decode()
