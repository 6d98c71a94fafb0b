"""The Java process beside ours: which signals reach it, and whether it ended.

Every call into a Java that ended fails with an error about sockets.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from backfill_core.errors import JavaDiedError
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import python_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DYING_S = 3.0
"""A process that is being killed drops its connections first."""

_starting = threading.Event()
"""Is a Java being started now? A fork hook cannot be taken away again, so it asks the process, not an object."""


def _after_fork() -> None:
    if _starting.is_set():
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def signals_stay_ours() -> Iterator[None]:
    """Let a Java that starts inside the block ignore SIGHUP and SIGTERM, as pyspark does with SIGINT.

    A terminal that closes, or a service that ends, sends them to every process of the group. Without Java nothing can be
    committed any more. Java ends with us: its standard input closes then.
    """
    _starting.set()
    try:
        yield
    finally:
        _starting.clear()


def java_died(spark: SparkSession | None, error: Exception) -> bool:
    """Is the Java process of a session gone, and the error only what a broken connection looks like?"""
    gateway = None if spark is None else python_gateway(spark)
    if gateway is None or isinstance(error, JAVA_ERRORS) or not isinstance(error, Py4JError | ConnectionError):
        return False
    process = getattr(gateway, "proc", None)
    if process is not None:
        with suppress(TimeoutExpired):
            process.wait(DYING_S)
        return process.poll() is not None
    try:
        gateway.jvm.java.lang.System.nanoTime()
    except (Py4JError, ConnectionError):
        return True
    return False


def death(error: Exception) -> JavaDiedError:
    """Return the error for a Java that ended."""
    return JavaDiedError(
        f"the Java process of Spark ended ({type(error).__name__}).",
        hint="Most often it is killed for want of memory: give it more (BACKFILL_MEMORY; spark.driver.memory of a session of "
        "your own, in a new process), then run the job again.",
    )


@contextmanager
def deaths_named(spark: SparkSession | None) -> Iterator[None]:
    """Raise `JavaDiedError` for whatever the block raises because the Java of a session is gone."""
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        if java_died(spark, error):
            raise death(error) from error
        raise
