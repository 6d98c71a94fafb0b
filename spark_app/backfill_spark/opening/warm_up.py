"""Prepares a Java that has just started, in threads: the first rows of a job need code that Java has not loaded and compiled yet.

The threads run while the driver checks the job. They write to a temporary folder of this machine only.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from backfill_core.pacing.warm_up import WarmUp
from backfill_spark.jvm.gateway import activate, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASE_TABLES = "org.apache.spark.sql.catalyst.util.CollationAwareUTF8String"
ROWS = 20_000
COLUMNS = (
    "id",
    "concat('value ', id % 5000) AS repeated",
    "concat(id, ' ', id * 7919) AS text",
    "id / 1000D AS number",
    "timestamp_seconds(1700000000 + id) AS time",
)


def start_warm_ups(ours: SparkSession | None, chosen: Collection[WarmUp]) -> list[threading.Thread]:
    """Start preparations in daemon threads, and return the threads; no caller waits for them.

    Args:
        ours: The session that the driver opened; `None` if a caller passed its own, which stays unchanged. Executors on other
            machines are not prepared.
        chosen: Preparations.
    """
    if ours is None or not ours.sparkContext.master.startswith("local"):
        return []
    threads = [
        threading.Thread(target=_run, args=(_WORK[warm_up], ours), name=warm_up.name.lower(), daemon=True)
        for warm_up in chosen
    ]
    for thread in threads:
        thread.start()
    return threads


def _run(work: Callable[[SparkSession], None], spark: SparkSession) -> None:
    with suppress(Exception):  # thread boundary: a preparation only saves time
        work(spark)


def _load_case_tables(spark: SparkSession) -> None:
    java(spark).java.lang.Class.forName(CASE_TABLES)


def _write(spark: SparkSession) -> None:
    activate(spark)
    with tempfile.TemporaryDirectory(prefix="backfill-warm-up-") as folder:
        spark.range(0, ROWS, 1, 1).selectExpr(*COLUMNS).write.parquet(f"file:{folder}/rows")


_WORK: dict[WarmUp, Callable[[SparkSession], None]] = {
    WarmUp.CASE_TABLES: _load_case_tables,
    WarmUp.FIRST_WRITE: _write,
}
