"""The request that an attempt ends: a signal handler or a caller makes it, and whatever runs hears it.

A signal handler runs between two steps of the main thread, which may hold a lock at that moment. So `ask` appends to a list and
calls listeners, and takes no lock.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from backfill_core.protocol.events import StopRequested

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_EVERY_S = 0.1

T = TypeVar("T")


class StoppedEarly(Exception):
    """The attempt was asked to end before it wrote anything."""


class StopSignal:
    """One attempt's request to end. Give every attempt its own: what was asked stays asked."""

    def __init__(self) -> None:
        """Begin unasked."""
        self._asked: list[StopRequested] = []
        self._listeners: list[Callable[[StopRequested], None]] = []

    def ask(self, *, force: bool) -> None:
        """Ask the attempt to end at a barrier; `force` cancels running work first. Safe in a signal handler."""
        request = StopRequested(force)
        self._asked.append(request)
        for listener in self._listeners:
            listener(request)

    @property
    def asked(self) -> bool:
        """Was the attempt asked to end?"""
        return bool(self._asked)

    def check(self) -> None:
        """Raise `StoppedEarly` if the attempt was asked to end."""
        if self._asked:
            raise StoppedEarly

    @contextmanager
    def heard_by(self, listener: Callable[[StopRequested], None]) -> Iterator[None]:
        """Pass every request to `listener` while the block runs, earlier requests included."""
        self._listeners.append(listener)
        for request in tuple(self._asked):
            listener(request)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def run_aside(self, start: Callable[[], T], undo: Callable[[], None] = lambda: None) -> T:
        """Run `start` on a thread of its own, and return its result; a stop ends the wait at once.

        Args:
            start: Runs to its end in any case.
            undo: Called once after `start` has ended, when a stop ended the wait: the result has no owner.

        Raises:
            StoppedEarly: a stop was asked for first.
        """
        results: list[T] = []
        errors: list[BaseException] = []
        owner = threading.Lock()
        given_up = False

        def run() -> None:
            try:
                result = start()
            except BaseException as error:  # noqa: BLE001 - a thread's border: it is raised again below
                errors.append(error)
            else:
                results.append(result)
            with owner:
                ended.set()
            if given_up:
                undo()

        ended = threading.Event()
        threading.Thread(target=run, name="start", daemon=True).start()
        while not self._asked and not ended.wait(LOOK_EVERY_S):
            pass
        if self._asked:
            with owner:
                given_up = not ended.is_set()
            if not given_up:
                undo()
            raise StoppedEarly
        if errors:
            raise errors[0]
        return results[0]

    @contextmanager
    def cancels_jobs_of(self, spark: SparkSession) -> Iterator[None]:
        """Cancel the Spark jobs that this thread starts inside the block once a stop is asked for.

        Raises:
            StoppedEarly: it was, whatever the jobs' result.
        """
        from backfill_spark.jvm.gateway import java_context  # the command line imports this module without pyspark

        over = threading.Event()
        context, inner = spark.sparkContext, java_context(spark)
        # Spark cancels the future jobs of a group too, so every block has a group of its own.
        group = f"backfill-start-{secrets.token_hex(4)}"

        def watch() -> None:
            while not over.wait(LOOK_EVERY_S):
                if self._asked:
                    with suppress(Exception):  # the context may have ended first
                        inner.sc().cancelJobGroupAndFutureJobs(group)
                    return

        watcher = threading.Thread(target=watch, name="watch for a stop", daemon=True)
        context.setJobGroup(group, "looking before the start", interruptOnCancel=False)
        watcher.start()
        try:
            yield
        except Exception:
            self.check()
            raise
        finally:
            over.set()
            watcher.join()
            with suppress(Exception):  # Java may have ended
                for name in ("spark.jobGroup.id", "spark.job.description"):
                    inner.setLocalProperty(name, None)
        self.check()
