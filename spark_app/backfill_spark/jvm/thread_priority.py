"""Lets copying threads yield to the committing thread if both share the cores of one machine.

A commit needs about 80 ms of a core. With two copying threads per core, it waited for another 80 ms. The copy loses
nothing, because a commit takes a tenth of the time. On a cluster, executors have separate machines.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.session import POOLS_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COPIES = "Executor task"
"""Prefix of the names of Spark's task threads, as far as Linux keeps names."""

NICE = 5
"""Niceness of a copying thread: it gets a third of an ordinary thread's share if both compete for a core."""


class CopyPriority:
    """Lowers the priority of an embedded Spark's task threads; on other systems than Linux it does nothing."""

    def __init__(self, spark: SparkSession) -> None:
        """Take the session; nothing is changed yet."""
        # The threads of a caller's session also run other work, and few users have the right to raise a priority again.
        context = spark.sparkContext
        ours = spark.conf.get("spark.scheduler.allocation.file", "") == f"file:{POOLS_FILE}"
        local = ours and context.master.startswith("local")
        pid = int(java(spark).java.lang.ProcessHandle.current().pid()) if local else 0
        self._tasks = Path(f"/proc/{pid}/task")
        self._seen: set[int] = set()
        self._lowered: set[int] = set()

    def lower(self) -> None:
        """Lower the priority of threads that are new since the last call; Spark starts threads on demand."""
        with contextlib.suppress(OSError):
            for task in {int(task.name) for task in self._tasks.iterdir()} - self._seen:
                self._lower(task)

    def _lower(self, task: int) -> None:
        with contextlib.suppress(OSError):  # the thread has ended
            if (self._tasks / str(task) / "comm").read_text().startswith(COPIES):
                os.setpriority(os.PRIO_PROCESS, task, NICE)
                self._lowered.add(task)
            self._seen.add(task)

    def restore(self) -> None:
        """Restore the threads' priorities if the system allows it, because the session may outlive the job."""
        for task in self._lowered:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, task, 0)
        self._lowered.clear()
        self._seen.clear()
