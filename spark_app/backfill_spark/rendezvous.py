"""Where a driver on this machine can be found: a lock, so that there is one, and a file with its address.

The file holds the token that commands the job: mode 600 in a folder of mode 700, replaced atomically. The lock
belongs to the process, so a killed driver leaves nothing that must be cleaned up.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from backfill_core.errors import AlreadyRunningError


@dataclass(frozen=True, slots=True)
class Address:
    """How to reach a running driver."""

    job_id: str
    url: str
    token: str
    attempt: int
    pid: int


class Rendezvous:
    """Holds the lock of one job while it is entered."""

    def __init__(self, state_dir: Path, job_id: str) -> None:
        """Take the folder; nothing is made before it is entered."""
        self._folder = state_dir
        self._job_id = job_id
        name = hashlib.sha256(job_id.encode()).hexdigest()[:16]
        self._file = state_dir / f"{name}.json"
        self._lock_path = state_dir / f"{name}.lock"
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        """Take the lock.

        Raises:
            AlreadyRunningError: another driver of this job runs on this machine.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = self._lock_path.open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            self._lock = None
            raise AlreadyRunningError(
                f"another driver of job {self._job_id!r} runs on this machine.",
                cure="Watch it with `backfill status`, or stop it with `backfill stop`.",
            ) from error
        return self

    def publish(self, *, url: str, token: str, attempt: int) -> None:
        """Say where this driver is."""
        fresh = self._file.with_suffix(".new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as out:
            json.dump(asdict(Address(self._job_id, url, token, attempt, os.getpid())), out)
        fresh.replace(self._file)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the address away and free the lock."""
        if self._lock is not None:
            self._file.unlink(missing_ok=True)
            self._lock.close()


def running(state_dir: Path) -> list[Address]:
    """Return the drivers that run on this machine; what a killed one left behind is not among them."""
    found = []
    for file in sorted(state_dir.glob("*.json")) if state_dir.is_dir() else []:
        try:
            address = Address(**json.loads(file.read_text()))
        except (OSError, ValueError, TypeError):
            continue  # being replaced, or not ours
        if _locked(file.with_suffix(".lock")):
            found.append(address)
    return found


def _locked(path: Path) -> bool:
    try:
        with path.open("a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False
