"""Real drivers that a test can kill, freeze and wake: with a dedicated Java, or with one that outlives them."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from support.drivers.shared_java import address_of, attempt, own_session

from backfill_core.in_place import rounds
from backfill_spark.settings import DriverSettings

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, "backfill_spark.driver.attempt"])


@dataclass(frozen=True)
class Start:
    """Parameters of a driver's start."""

    file: Path
    state_dir: Path
    log: Path
    crash_at: str | None = None
    distance_max_ms: int | None = None
    """Distance of commits to a live table in a `LastingJava`; `None`: the product's, up to two minutes."""


class OwnJava:
    """A driver and its Java in one process group: they die together, as with their container."""

    def __init__(self, start):
        env = dict(os.environ, BACKFILL_STATE_DIR=str(start.state_dir), BACKFILL_CORES="1", BACKFILL_MEMORY="1g")
        if start.crash_at:
            env["BACKFILL_CRASH_AT"] = start.crash_at
        with start.log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "backfill_spark", "-f", str(start.file)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, start_new_session=True,
            )  # fmt: skip

    def wait(self, seconds):
        """Wait at most `seconds` for its end; return its exit code, `None` while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class LastingJava:
    """A driver in a given Spark: when it is killed, the Java survives and ends its current work, a commit or a whole MERGE.

    The process is forked from a Python with loaded modules, and its Java is warm: it lives and dies within a second.
    """

    ASKED = threading.Lock()
    """A thread that starts a process reads the exit codes of all others, and each can be read only once. Of two threads that
    read the same code at a time, one gets 255."""

    def __init__(self, start, spark, work=None):
        """Start `work` in the process, with the start and a session; by default, the driver of a job."""
        self._process = FORKS.Process(target=_work, args=[work or _drive, start, address_of(spark)], daemon=True)
        with self.ASKED:
            self._process.start()

    def wait(self, seconds):
        """Wait at most `seconds` for its end; return its exit code, `None` while it runs."""
        wait([self._process.sentinel], seconds)
        with self.ASKED:
            return self._process.exitcode

    def kill(self):
        with self.ASKED:
            self._process.kill()
        self.wait(None)

    def freeze(self):
        """Stop the process, as on a node that lost its network; its Java continues."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def wake(self):
        os.kill(self._process.pid, signal.SIGCONT)


def _work(work, start, java):
    with start.log.open("a") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    os.environ |= java
    work(start, own_session())


def _drive(start, spark):
    if start.distance_max_ms is not None:
        rounds.DISTANCE_MAX_MS = start.distance_max_ms
    attempt(start.file, DriverSettings(cores=1, state_dir=start.state_dir, crash_at=start.crash_at), spark)
