"""The wish that an attempt ends: asked for by a signal, heard by whatever the attempt is at.

A signal handler runs between two steps of the main thread, which may hold a lock just then. So the handler appends to a
list and puts into a `SimpleQueue`, and takes no lock.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from backfill_core.protocol.events import StopRequested

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_EVERY_S = 0.1

_asked: list[StopRequested] = []
"""Of the attempt that runs or starts; a signal while Spark starts finds nobody yet who could hear it."""

_hearing: list[Callable[[StopRequested], None]] = []
_java_starts = threading.Event()


class StoppedEarly(Exception):
    """The attempt was asked to end before it wrote anything."""


def ask(*, force: bool) -> None:
    """Ask the attempt that runs or is about to start to end; safe in a signal handler."""
    _asked.append(StopRequested(force))
    for hear in _hearing:
        hear(_asked[-1])


def asked() -> bool:
    """Was the attempt asked to end?"""
    return bool(_asked)


def check() -> None:
    """Go no further with an attempt that was asked to end.

    Raises:
        StoppedEarly: it was.
    """
    if _asked:
        raise StoppedEarly


def forget() -> None:
    """Ask nothing of the next attempt."""
    _asked.clear()


@contextmanager
def heard_by(hear: Callable[[StopRequested], None]) -> Iterator[None]:
    """Hand every wish to `hear` while the block runs, also those from before it."""
    _hearing.append(hear)
    for one in tuple(_asked):
        hear(one)
    try:
        yield
    finally:
        _hearing.remove(hear)


def started_aside(start: Callable[[], Any]) -> Any:
    """Return what `start` returns, which runs on a thread of its own; nobody waits for it once a stop is asked for.

    Raises:
        StoppedEarly: a stop was asked for first.
    """
    answers: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(start())
        except BaseException as error:  # noqa: BLE001 - a thread's border: it is raised again below
            errors.append(error)

    thread = threading.Thread(target=run, name="start", daemon=True)
    thread.start()
    while thread.is_alive():
        check()
        thread.join(LOOK_EVERY_S)
    if errors:
        raise errors[0]
    return answers[0]


@contextmanager
def jobs_end_on_stop(spark: SparkSession) -> Iterator[None]:
    """Cancel the Spark jobs that this thread starts inside the block once a stop is asked for.

    Raises:
        StoppedEarly: it was, whatever came of the jobs.
    """
    over = threading.Event()
    context = spark.sparkContext
    group = (
        f"backfill-start-{secrets.token_hex(4)}"  # its future jobs are cancelled too, so the next one has another name
    )

    def watch() -> None:
        while not over.wait(LOOK_EVERY_S):
            if _asked:
                with suppress(Exception):  # the context may have ended first
                    context._jsc.sc().cancelJobGroupAndFutureJobs(group)
                return

    watcher = threading.Thread(target=watch, name="watch for a stop", daemon=True)
    context.setJobGroup(group, "looking before the start", interruptOnCancel=False)
    watcher.start()
    try:
        yield
    except Exception:
        check()
        raise
    finally:
        over.set()
        watcher.join()
        with suppress(Exception):  # Java may be what ended
            for name in ("spark.jobGroup.id", "spark.job.description"):
                context._jsc.setLocalProperty(name, None)
    check()


# ------------------------------------------------------------------ Java beside us
def _after_fork() -> None:
    """In the process that becomes Java: what ends a group of processes must leave Java to us, who stop in order."""
    if _java_starts.is_set():
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def java_left_to_us() -> Iterator[None]:
    """Let a Java that starts inside the block ignore SIGHUP and SIGTERM, as pyspark does with SIGINT.

    A terminal that closes, or a service that ends, sends them to every process of the group. Without Java nothing can be
    sealed any more. Java goes with us: it ends when its standard input does.
    """
    _java_starts.set()
    try:
        yield
    finally:
        _java_starts.clear()
