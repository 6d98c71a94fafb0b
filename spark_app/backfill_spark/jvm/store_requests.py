"""Counts of the requests that this process sends to object stores, from the statistics of Hadoop's S3 client.

The client counts per file system, so per bucket. Executors are other processes: their requests are not counted. Requests of whole
files, of logs and of commits are the driver's own, so they are a sample of what the store refuses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from backfill_core.protocol.events import StoreCounted
from backfill_spark.jvm.gateway import hadoop_conf, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUESTS: Final = "store_io_request"
"""Tries of requests."""

REFUSED: Final = ("store_io_retry", "store_io_throttled")
"""Tries that Amazon's client repeats, and those that it gives up because the store is busy; a test compares them with a store's own count."""


class StoreRequests:
    """Reads the counts of the file systems of some folders."""

    def __init__(self, spark: SparkSession, folders: Iterable[str]) -> None:
        """Find the file systems that count; Hadoop keeps one for each bucket."""
        jvm, conf = java(spark), hadoop_conf(spark)
        self._counters = [
            counters
            for folder in folders
            if (counters := _counters(jvm, jvm.org.apache.hadoop.fs.Path(folder).getFileSystem(conf))) is not None
        ]

    @property
    def counted(self) -> bool:
        """True if a file system counts requests."""
        return bool(self._counters)

    def read(self) -> StoreCounted:
        """Return the sum of the counts of all file systems."""
        requests = sum(int(counters.get(REQUESTS) or 0) for counters in self._counters)
        refused = sum(int(counters.get(name) or 0) for counters in self._counters for name in REFUSED)
        return StoreCounted(requests, refused)


def _counters(jvm: Any, file_system: Any) -> Any:
    """Return the live counters of a file system; `None` if it counts no requests."""
    statistics = jvm.org.apache.hadoop.fs.statistics.IOStatisticsSupport.retrieveIOStatistics(file_system)
    if statistics is None:
        return None
    counters = statistics.counters()
    return counters if counters.get(REQUESTS) is not None else None
