"""The Java process of the driver: its signals, the causes of a failed start, its responsiveness and its end.

Every call into an ended Java process fails with a socket error. A call into a hanging one waits forever.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.find_spark_home import _find_spark_home

from backfill_core.errors import BackfillError, CommitStalledError, JavaDiedError, JavaMissingError, JavaSilentError
from backfill_core.pacing import barrier_pulse
from backfill_core.pacing.barrier_pulse import BarrierMark, BarrierPulse
from backfill_core.pacing.java_pulse import ASK_EVERY_S, GIVEN_UP_S, TICK_S, JavaPulse
from backfill_core.protocol.strategy import JobWarning
from backfill_spark.jvm.errors import JAVA_ERRORS, WORDS_CHARACTERS_MAX
from backfill_spark.jvm.gateway import java, python_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DYING_S = 3.0
"""Seconds to wait for the end of a process, because a killed process drops its connections first."""

OUT_OF_MEMORY: Final = (3, 52)
"""Exit codes: of Java with `-XX:+ExitOnOutOfMemoryError`, and of Spark if a task runs out of memory."""

_ended: dict[int, type[JavaDiedError]] = {}
"""Processes that `end_java` killed, by process id, with the reason."""

START_AGAIN_S: Final = 60.0
START_HINT: Final = (
    "Correct the setting that Java names: its memory (BACKFILL_MEMORY, on a cluster spec.driver.resources) or an option of "
    "spec.spark.conf."
)
NO_NAME: Final = ("invalid null input: name", "Invalid UID")
"""Hadoop's messages for a user without an entry in /etc/passwd."""

NAME_HINT: Final = "Run it as a user that has a name. The images give every user a name: keep their entry point."
NOISE: Final = ("\tat ", "\t... ", "WARNING: ", "Picked up ", "NOTE: ")

_starting = threading.Event()
"""Set while a Java process starts. A fork hook cannot be removed, so it reads this global flag."""


def _after_fork() -> None:
    if _starting.is_set():
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def signals_stay_ours() -> Iterator[None]:
    """Let a Java process that starts inside the block ignore SIGHUP and SIGTERM, as pyspark does with SIGINT.

    A closing terminal or an ending service sends these signals to every process of the group, and the driver cannot commit without
    Java. Java still ends with the driver, because its standard input closes then.
    """
    _starting.set()
    try:
        yield
    finally:
        _starting.clear()


def start_failure(settings: Iterable[tuple[str, str]]) -> BackfillError:
    """Return the error for a Java that did not start. pyspark does not report the cause, so Java is started again, with an empty input.

    Args:
        settings: Settings of the session.
    """
    given = [word for name, value in settings for word in ("--conf", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as folder, suppress(OSError, TimeoutExpired):
        done = subprocess.run(
            ["env", "SPARK_CONNECT_MODE=0", f"_PYSPARK_DRIVER_CONN_INFO_PATH={folder}/port",
             f"{_find_spark_home()}/bin/spark-submit", *given, "pyspark-shell"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
            timeout=START_AGAIN_S, start_new_session=True,
        )  # fmt: skip
        if done.returncode != 0:
            cause = last_error(done.stdout)
            hint = NAME_HINT if any(text in done.stdout for text in NO_NAME) else START_HINT
            return JavaMissingError(f"Java does not start: {cause}.", hint=hint)
    return death(None, ChildProcessError("it did not start"))


def last_error(output: str) -> str:
    """Return the last cause that Java prints before it ends, or its first lines if it throws no exception."""
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith(NOISE)]
    thrown = [line for line in lines if line.startswith(("Caused by: ", "Exception in thread "))]
    text = thrown[-1].removeprefix("Caused by: ") if thrown else "; ".join(line.strip() for line in lines[:3])
    return text.strip().rstrip(".")[:WORDS_CHARACTERS_MAX] or "it prints nothing"


def java_died(spark: SparkSession | None, error: Exception) -> bool:
    """Return True if the Java process of a session has ended, and the error only reports the broken connection."""
    gateway = None if spark is None else python_gateway(spark)
    if gateway is None or isinstance(error, JAVA_ERRORS) or not isinstance(error, Py4JError | ConnectionError):
        return False
    if getattr(gateway, "proc", None) is not None:
        return java_ends(spark)
    try:
        gateway.jvm.java.lang.System.nanoTime()
    except (Py4JError, ConnectionError):
        return True
    return False


def java_ends(spark: SparkSession | None, wait_s: float = DYING_S) -> bool:
    """Return True if the session's Java process ends within `wait_s` seconds; False if the driver did not start that process."""
    process = getattr(None if spark is None else python_gateway(spark), "proc", None)
    if process is None:
        return False
    with suppress(TimeoutExpired):
        process.wait(wait_s)
    return process.poll() is not None


def end_java(spark: SparkSession, why: type[JavaDiedError]) -> None:
    """Kill the Java process that the driver started for a session: waiting calls then fail, and `death` returns the reason."""
    process = getattr(python_gateway(spark), "proc", None)
    if process is not None:
        _ended[process.pid] = why
        process.kill()


def death(spark: SparkSession | None, error: Exception) -> JavaDiedError:
    """Return the error for a Java process that ended."""
    process = getattr(None if spark is None else python_gateway(spark), "proc", None)
    reason = None if process is None else _ended.get(process.pid)
    if reason is CommitStalledError:
        return CommitStalledError(
            f"a commit had no answer for {barrier_pulse.GIVEN_UP_S:.0f} s, so the driver ended its Java.",
            hint="Run the job again: it continues from the last commit. If it happens again, check the target's store.",
        )
    if reason is not None:
        return reason(
            f"the Java process of Spark did not answer for {GIVEN_UP_S:.0f} s, so the driver ended it.",
            hint="Run the job again: it continues from the last commit. If it happens again, give Java more memory: a process that "
            "runs out of memory collects garbage for minutes.",
        )
    code = getattr(process, "returncode", None)
    cause = "it ran out of memory" if code in OUT_OF_MEMORY else type(error).__name__
    return JavaDiedError(
        f"the Java process of Spark ended ({cause}).",
        hint="The most frequent cause is a lack of memory: give it more (BACKFILL_MEMORY; for your own session, set "
        "spark.driver.memory in a new process), then run the job again.",
    )


@contextmanager
def deaths_named(spark: SparkSession | None) -> Iterator[None]:
    """Raise `JavaDiedError` for exceptions of the block that are caused by the end of the session's Java."""
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        if java_died(spark, error):
            raise death(spark, error) from error
        raise


class JavaWatch:
    """Checks every few seconds that the session's Java answers and that the loop makes progress; ends a hanging Java.

    See `JavaPulse` and `BarrierPulse`.
    """

    def __init__(self, spark: SparkSession, mark: Callable[[], BarrierMark], *, ours: bool) -> None:
        """Watch nothing before `running`.

        Args:
            spark: The session.
            mark: Returns the progress of the loop.
            ours: True if the driver started its Java.
        """
        self._spark = spark
        self._mark = mark
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._pulse = JavaPulse(ours=ours)
        self._barriers = BarrierPulse(ours=ours)

    @property
    def pulse(self) -> JavaPulse:
        """The silence so far."""
        return self._pulse

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Warnings about a Java that does not answer, or else about a commit that does not."""
        return self._pulse.warnings or self._barriers.warnings

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch while the block runs. The threads are daemons, so the end of the process does not wait for a silent Java."""
        for name, run in (("ask java", self._ask), ("watch java", self._watch)):
            threading.Thread(target=run, name=name, daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _ask(self) -> None:
        while not self._over.is_set():
            try:
                java(self._spark).java.lang.System.nanoTime()
            except (Py4JError, ConnectionError):
                self._over.set()  # Java ended, which every other call reports
                return
            with self._lock:
                self._pulse = self._pulse.answered()
            self._over.wait(ASK_EVERY_S)

    def _watch(self) -> None:
        seen_s = time.monotonic()
        while not self._over.wait(TICK_S):
            now_s = time.monotonic()
            with self._lock:
                self._pulse = self._pulse.passed(now_s - seen_s)
            self._barriers = self._barriers.passed(now_s - seen_s, self._mark())
            seen_s = now_s
            if self._pulse.given_up or self._barriers.given_up:
                end_java(self._spark, JavaSilentError if self._pulse.given_up else CommitStalledError)
                return
