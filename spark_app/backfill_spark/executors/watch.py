"""Watches the executors of a job, and asks Spark for the number in force."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from backfill_core.pacing.executor_losses import ExecutorLosses
from backfill_core.pacing.executors import ExecutorCount, ExecutorRequest, executors_wanted, on_kubernetes
from backfill_core.protocol.strategy import JobWarning
from backfill_spark.executors.calls import executors_removed, executors_there, scale_executors
from backfill_spark.jvm.failures import describe_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSED = "it does not accept the request"


class ExecutorWatch:
    """Counts the executors of a session and those that it lost, and changes their number; for all attempts of a process.

    Spark may take minutes to answer a request, so a thread makes it. A failed request is repeated, and never ends the job.
    """

    def __init__(self, spark: SparkSession, setting: Callable[[str, str], str | None]) -> None:
        """Take the session, and the function that returns one of its settings by name, or the given default."""
        self._spark, self.setting = spark, setting
        self._count = ExecutorCount(executors_wanted(setting))
        self._losses = ExecutorLosses(watched=on_kubernetes(setting))
        self._request = ExecutorRequest(self._count.wanted)
        self._answers: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self._asking: threading.Thread | None = None

    @property
    def lost(self) -> Mapping[str, int]:
        """Lost executors by reason; those that were removed by a request are none of them."""
        return self._losses.counts

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Warnings about the number of executors."""
        return (*self._count.warnings, *self._request.warnings)

    def look(self, executors: int | None, now_s: float) -> None:
        """Count the executors if that is due, and have their number changed if another one is in force.

        Args:
            executors: Number in force; `None` if the number cannot change.
            now_s: Monotonic time.
        """
        self._count = self._count.under(executors)
        with suppress(Py4JError):  # the work reports why Java died
            if self._count.due(now_s):
                self._count = self._count.seen(executors_there(self._spark), now_s)
            if self._losses.due(now_s):
                self._losses = self._losses.seen(executors_removed(self._spark, self._losses.listed), now_s)
        while not self._answers.empty():
            self._request = self._request.answered(*self._answers.get(), now_s)
        idle = self._asking is None or not self._asking.is_alive()
        if executors is not None and idle and self._request.due(self._count, now_s):
            self._asking = threading.Thread(target=self._ask, args=(executors,), name="executors", daemon=True)
            with suppress(RuntimeError):  # the limit of threads is reached; it is tried again at the next view
                self._asking.start()

    def _ask(self, number: int) -> None:
        try:
            failure = "" if scale_executors(self._spark, number) else REFUSED
        except Exception as error:  # noqa: BLE001 - thread boundary
            failure = describe_error(error)
        self._answers.put((number, failure))
