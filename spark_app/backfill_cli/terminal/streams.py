"""Standard output and error of the command: the JVM writes to a log, and a closed pipe is not an error of the job."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Out(io.TextIOBase):
    """Text stream to a file descriptor; after its reader has gone (a closed pipe or terminal), output is dropped silently."""

    encoding = "utf-8"

    def __init__(self, descriptor: int, on_gone: Callable[[], None] = lambda: None) -> None:
        """Take over a descriptor; `on_gone` is called once, when the reader is gone."""
        super().__init__()
        self._descriptor = descriptor
        self._on_gone = on_gone
        self._gone = False
        self._whole = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """Return true."""
        return True

    def write(self, text: str) -> int:
        """Write a whole string; strings of several threads do not mix."""
        left = text.encode("utf-8", errors="replace")
        with self._whole:
            try:
                while left and not self._gone:
                    left = left[os.write(self._descriptor, left) :]
            except OSError:
                self._gone = True
                self._on_gone()
        return len(text)


@contextmanager
def own_streams(log_file: Path | None, on_gone: Callable[[], None]) -> Iterator[tuple[Out, Out]]:
    """Yield our standard output and error, while the JVM (which inherits 1 and 2) writes to the log instead.

    Args:
        log_file: Log file of the JVM; `None` for standard error.
        on_gone: Called once when the reader of standard output is gone.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    out, err = Out(os.dup(1), on_gone), Out(os.dup(2))
    log = os.dup(2) if log_file is None else os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield out, err
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        os.close(out.fileno())
        os.close(err.fileno())
