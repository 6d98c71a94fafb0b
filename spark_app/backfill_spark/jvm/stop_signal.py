"""The request to end an attempt: a signal handler or a caller makes it, and it reaches all running parts of the attempt.

A signal handler runs between two steps of the main thread, which may hold a lock at that time. So `ask` only appends to a list and
calls listeners; it takes no lock.
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
    """A stop of the attempt was requested before it wrote anything."""


class StopSignal:
    """Request to end one attempt. Use a separate object for every attempt, because a request cannot be withdrawn."""

    def __init__(self) -> None:
        """Begin without a request."""
        self._requests: list[StopRequested] = []
        self._listeners: list[Callable[[StopRequested], None]] = []

    def ask(self, *, force: bool) -> None:
        """Request that the attempt ends at a barrier; `force` cancels running work first. Safe in a signal handler."""
        request = StopRequested(force)
        self._requests.append(request)
        for listener in self._listeners:
            listener(request)

    @property
    def requested(self) -> bool:
        """True after a request."""
        return bool(self._requests)

    def check(self) -> None:
        """Raise `StoppedEarly` if a stop was requested."""
        if self._requests:
            raise StoppedEarly

    @contextmanager
    def subscribe(self, listener: Callable[[StopRequested], None]) -> Iterator[None]:
        """Pass every request to `listener` at least once while the block runs, earlier requests included."""
        self._listeners.append(listener)
        for request in tuple(self._requests):
            listener(request)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def run_aside(self, start: Callable[[], T], undo: Callable[[], None] = lambda: None) -> T:
        """Run `start` on a separate thread, and return its result; a stop ends the wait at once.

        Args:
            start: Always runs to its end.
            undo: Called once after the end of `start` if a stop ended the wait, because no caller gets the result.

        Raises:
            StoppedEarly: a stop was requested before `start` ended.
        """
        results: list[T] = []
        errors: list[BaseException] = []
        owner = threading.Lock()
        given_up = False

        def run() -> None:
            try:
                result = start()
            except BaseException as error:  # noqa: BLE001 - thread boundary: it is raised again below
                errors.append(error)
            else:
                results.append(result)
            with owner:
                ended.set()
            if given_up:
                undo()

        ended = threading.Event()
        threading.Thread(target=run, name="start", daemon=True).start()
        while not self._requests and not ended.wait(LOOK_EVERY_S):
            pass
        if self._requests:
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
        """Cancel the Spark jobs that this thread starts inside the block when a stop is requested.

        Raises:
            StoppedEarly: a stop was requested, regardless of the jobs' result.
        """
        from backfill_spark.jvm.gateway import java_context  # the command line imports this module without pyspark

        over = threading.Event()
        context, inner = spark.sparkContext, java_context(spark)
        # Spark also cancels future jobs of a group, so every block has a separate group.
        group = f"backfill-start-{secrets.token_hex(4)}"

        def watch() -> None:
            while not over.wait(LOOK_EVERY_S):
                if self._requests:
                    with suppress(Exception):  # the context may have ended first
                        inner.sc().cancelJobGroupAndFutureJobs(group)
                    return

        watcher = threading.Thread(target=watch, name="watch for a stop", daemon=True)
        context.setJobGroup(group, "checks before the start", interruptOnCancel=False)
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
