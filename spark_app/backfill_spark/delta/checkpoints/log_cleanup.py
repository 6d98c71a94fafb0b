"""Deletes expired files of a table's log, as Spark does after its own checkpoints; Kernel does not delete them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from backfill_spark.delta.spark_internals import SparkDeltaLog
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line, is_a
from backfill_spark.jvm.gateway import hadoop_conf, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_S = 86_400


def _today() -> int:
    return int(time.time()) // DAY_S


class LogCleanup:
    """Cleans the log of one table, at most once a day, because Spark's own age limit changes with the day.

    A log of 100,000 commits takes seconds on a disk and an hour in a bucket, so a separate thread cleans it, and nothing waits
    for it. The oldest files are deleted first, so the next clean-up can continue after one that ended early.
    """

    def __init__(self, spark: SparkSession, path: str, today: Callable[[], int] = _today) -> None:
        """Take the table's path; `today` returns the number of the day, in UTC."""
        self._spark, self._path, self._today = spark, path, today
        self._lock = threading.Lock()
        self._cleaned_on = -1
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start a clean-up in the background, unless one was started today. Call it after a checkpoint; at most one runs at a time."""
        today = self._today()
        with self._lock:
            if today == self._cleaned_on or (self._thread is not None and self._thread.is_alive()):
                return
            self._cleaned_on = today
            self._thread = threading.Thread(target=self._clean, name="log-cleanup", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait until no clean-up runs; return `False` if one still does."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    def _clean(self) -> None:
        # If Java ended, the job has ended too, so the error needs no report.
        with suppress(Py4JError, OSError):
            try:
                if not self._began_today():
                    SparkDeltaLog(self._spark, self._path).clean()
            except JAVA_ERRORS as error:
                message = "expired files of the log of %s could not be deleted; the next try is tomorrow: %s"
                logging.getLogger(__name__).warning(message, self._path, first_line(error))

    def _began_today(self) -> bool:
        """Return True if the first commit of the log is from today: no commit has expired, so a short copy need not list the log."""
        first = java(self._spark).org.apache.hadoop.fs.Path(f"{self._path}/_delta_log/{0:020d}.json")
        try:
            written_ms = int(first.getFileSystem(hadoop_conf(self._spark)).getFileStatus(first).getModificationTime())
        except JAVA_ERRORS as error:
            if is_a(error, "FileNotFoundException"):
                return False
            raise
        return written_ms // (1000 * DAY_S) >= self._cleaned_on
