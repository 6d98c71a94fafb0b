"""Finds the driver of a job on this machine: a lock, so that there is only one, and a file with its address.

The file holds the token that commands the job: mode 600 in a folder of mode 700, replaced atomically. The lock
belongs to the process, so a killed driver leaves nothing that must be cleaned up.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from backfill_core.errors import AlreadyRunningError
from backfill_spark.settings import InvalidSettingError

OPENING = "starting Spark"
"""First step of the start of a driver."""

LOCK_TRIES = 5
LOCK_AGAIN_S = 0.05
"""A process that lists the running jobs holds a lock for a moment; a driver must not take that for another driver."""


@dataclass(frozen=True, slots=True)
class Address:
    """How to reach a running driver."""

    job_id: str
    url: str
    token: str
    attempt: int
    pid: int
    step: str = ""
    """Step of the start; empty once the driver takes commands. A driver that starts has no `url`, `token` and `attempt`."""

    @property
    def starting(self) -> bool:
        """Does the driver not take commands yet?"""
        return not self.url


class LocalRegistry:
    """Holds the lock of one job while it is entered."""

    def __init__(self, state_dir: Path, job_id: str) -> None:
        """Take the folder; nothing is made before it is entered."""
        self._folder = state_dir
        self._job_id = job_id
        self._file = control_file(state_dir, job_id)
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        """Take the lock.

        Raises:
            AlreadyRunningError: another driver of this job runs on this machine.
            InvalidSettingError: the folder cannot be written.
        """
        make_state_folder(self._folder)
        try:
            self._lock = _take(self._file.with_suffix(".lock"))
        except OSError as error:
            raise _unwritable(self._folder, error) from error
        if self._lock is None:
            raise AlreadyRunningError(
                f"another driver of job {self._job_id!r} runs on this machine.",
                hint="Watch it with `backfill status`, or stop it with `backfill stop`.",
            )
        return self

    def announce(self, step: str) -> None:
        """Report that this driver starts, and the step of its start.

        Raises:
            InvalidSettingError: the folder cannot be written.
        """
        self._write(Address(self._job_id, "", "", 0, os.getpid(), step))

    def publish(self, *, url: str, token: str, attempt: int) -> None:
        """Report where this driver takes commands.

        Raises:
            InvalidSettingError: the folder cannot be written.
        """
        self._write(Address(self._job_id, url, token, attempt, os.getpid()))

    def _write(self, address: Address) -> None:
        fresh = self._file.with_suffix(".new")
        try:
            fresh.unlink(missing_ok=True)
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as out:
                json.dump(asdict(address), out)
            fresh.replace(self._file)
        except OSError as error:
            raise _unwritable(self._folder, error) from error

    def withdraw(self) -> None:
        """Take the address away, before the server stops answering; the lock stays."""
        self._file.unlink(missing_ok=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the address away and free the lock."""
        if self._lock is not None:
            self.withdraw()
            self._lock.close()
            self._lock = None


def make_state_folder(folder: Path) -> None:
    """Make the folder of the drivers of this machine.

    Raises:
        InvalidSettingError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> InvalidSettingError:
    return InvalidSettingError(
        f"BACKFILL_STATE_DIR: {folder} cannot be written: {error.strerror}.",
        hint="Set BACKFILL_STATE_DIR to a folder that this user may write.",
    )


def control_file(state_dir: Path, job_id: str) -> Path:
    """Return where the address of a job's driver is while it runs."""
    return state_dir / f"{hashlib.sha256(job_id.encode()).hexdigest()[:16]}.json"


def running(state_dir: Path) -> list[Address]:
    """Return the drivers that run on this machine; what a killed one left behind is not among them."""
    return [address for address, alive in _found(state_dir) if alive]


def left_behind(state_dir: Path) -> list[Address]:
    """Return the last addresses of drivers that ended without taking them away: they were killed."""
    return [address for address, alive in _found(state_dir) if not alive]


def _found(state_dir: Path) -> list[tuple[Address, bool]]:
    found = []
    for file in state_dir.glob("*.json") if state_dir.is_dir() else ():
        try:
            address = Address(**json.loads(file.read_text()))
        except (OSError, ValueError, TypeError, RecursionError):
            continue  # being replaced, or not ours
        if _is_ours(address) and file == control_file(state_dir, address.job_id):
            found.append((address, _held(file.with_suffix(".lock"))))
    return sorted(found, key=lambda one: one[0].job_id)


def _is_ours(address: Address) -> bool:
    texts, numbers = (address.job_id, address.url, address.token, address.step), (address.attempt, address.pid)
    return all(isinstance(text, str) for text in texts) and all(isinstance(number, int) for number in numbers)


def _take(path: Path) -> IO[str] | None:
    """Return the locked file, or None while another process has it."""
    lock = path.open("a+")
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            threading.Event().wait(LOCK_AGAIN_S)
        else:
            return lock
    lock.close()
    return None


def _held(path: Path) -> bool:
    """Does a driver hold this lock? Readers do not block each other."""
    try:
        with path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
