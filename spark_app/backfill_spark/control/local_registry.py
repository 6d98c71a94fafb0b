"""Registers the driver of a job on this machine: a lock ensures that there is only one, and a file contains its address.

The file contains the token for commands to the job. It has mode 600 in a folder of mode 700, and is replaced atomically. The lock
belongs to the process, so a killed driver needs no cleanup.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from backfill_core.errors import AlreadyRunningError
from backfill_spark.settings import InvalidSettingError

OPENING = "starting Spark"
"""First step of a driver's start."""

LOCK_TRIES = 5
LOCK_AGAIN_S = 0.05
"""Seconds between two tries to take a lock. A process that lists the jobs holds the lock briefly, and is not another driver."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a running driver."""

    job_id: str
    url: str
    token: str
    attempt: int
    pid: int
    step: str = ""
    """Step of the start; empty once the driver accepts commands. A starting driver has no `url`, `token` and `attempt`."""

    @property
    def starting(self) -> bool:
        """True while the driver does not accept commands yet."""
        return not self.url


class LocalRegistry:
    """Holds the lock of one job while it is entered."""

    def __init__(self, state_dir: Path, job_id: str) -> None:
        """Take the folder; nothing is created before the registry is entered."""
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
        """Report the address at which this driver accepts commands.

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
        """Remove the address before the server stops answering; keep the lock."""
        self._file.unlink(missing_ok=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the address and release the lock."""
        if self._lock is not None:
            self.withdraw()
            self._lock.close()
            self._lock = None


def make_state_folder(folder: Path) -> None:
    """Create the folder for the drivers of this machine.

    Raises:
        InvalidSettingError: the folder cannot be created.
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
    """Return the path of the file that contains the address of a job's running driver."""
    return state_dir / f"{hashlib.sha256(job_id.encode()).hexdigest()[:16]}.json"


def log_file(state_dir: Path, job_id: str) -> Path:
    """Return the path of a job's log, unless the user chose another file."""
    return control_file(state_dir, job_id).with_suffix(".log")


def running(state_dir: Path) -> list[Address]:
    """Return the drivers that run on this machine, without addresses of killed drivers."""
    return [address for address, alive in _found(state_dir) if alive]


def left_behind(state_dir: Path) -> list[Address]:
    """Return the last addresses of killed drivers, which ended without removing them."""
    return [address for address, alive in _found(state_dir) if not alive]


def _found(state_dir: Path) -> list[tuple[Address, bool]]:
    addresses = []
    for file in state_dir.glob("*.json") if state_dir.is_dir() else ():
        try:
            address = Address(**json.loads(file.read_text()))
        except (OSError, ValueError, TypeError, RecursionError):
            continue  # the file is being replaced, or another program wrote it
        if _is_ours(address) and file == control_file(state_dir, address.job_id):
            addresses.append((address, _held(file.with_suffix(".lock"))))
    return sorted(addresses, key=lambda item: item[0].job_id)


def _is_ours(address: Address) -> bool:
    strings, numbers = (address.job_id, address.url, address.token, address.step), (address.attempt, address.pid)
    return all(isinstance(value, str) for value in strings) and all(isinstance(number, int) for number in numbers)


def _take(path: Path) -> IO[str] | None:
    """Return the locked file; `None` if another process holds the lock."""
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
    """Return True if a driver holds this lock; readers do not block each other."""
    try:
        with path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def announced(registry: LocalRegistry, starting: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that reports a step of the start to other processes, then to the caller."""

    def announce(step: str) -> None:
        registry.announce(step)
        starting(step)

    return announce
