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

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from backfill_api.load import load_backfill
from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.gateway import know_packages, python_gateway
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

    def __init__(self, start, spark):
        java = python_gateway(spark).java_parameters
        self._process = FORKS.Process(target=_drive, args=[start, java.port, java.auth_token], daemon=True)
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


def _drive(start, port, secret):
    with start.log.open("a") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    gateway = launch_gateway()
    java = gateway.jvm.org.apache.spark
    jsc = java.api.java.JavaSparkContext(java.SparkContext.getOrCreate())
    context = SparkContext(gateway=gateway, jsc=jsc, conf=SparkConf(_jvm=gateway.jvm, _jconf=jsc.getConf()))
    spark = SparkSession(context).newSession()
    know_packages(spark)
    settings = DriverSettings(cores=1, state_dir=start.state_dir, crash_at=start.crash_at)
    outcome = run_driver(load_backfill(start.file.read_text()), settings=settings, spark=spark)
    print(outcome.outcome, outcome.reason, outcome.message, flush=True)
    sys.exit(outcome.exit_code)
