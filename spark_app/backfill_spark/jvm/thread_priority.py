"""Threads that copy yield to the one that commits, where both share the cores of one machine.

A commit needs about 80 ms of a core. Between two copying threads a core it waited as long again; the copy loses
nothing, because a commit takes a tenth of the time. On a cluster executors have machines of their own.
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
"""How Spark's threads are named, as far as Linux keeps names."""

NICE = 5
"""A third of an ordinary thread's share when both want the core."""


class CopyPriority:
    """Lowers the priority of an embedded Spark's task threads; on other systems than Linux it does nothing."""

    def __init__(self, spark: SparkSession) -> None:
        """Take the session; nothing is changed yet."""
        # The threads of a session that is not ours are other work's too, and few users may raise a priority again.
        context = spark.sparkContext
        ours = spark.conf.get("spark.scheduler.allocation.file", "") == f"file:{POOLS_FILE}"
        local = ours and context.master.startswith("local")
        pid = int(java(spark).java.lang.ProcessHandle.current().pid()) if local else 0
        self._tasks = Path(f"/proc/{pid}/task")
        self._seen: set[int] = set()
        self._lowered: set[int] = set()

    def lower(self) -> None:
        """Lower the threads that came since the last call; Spark starts them when it needs them."""
        with contextlib.suppress(OSError):
            for task in {int(task.name) for task in self._tasks.iterdir()} - self._seen:
                self._lower(task)

    def _lower(self, task: int) -> None:
        with contextlib.suppress(OSError):  # it has ended
            if (self._tasks / str(task) / "comm").read_text().startswith(COPIES):
                os.setpriority(os.PRIO_PROCESS, task, NICE)
                self._lowered.add(task)
            self._seen.add(task)

    def restore(self) -> None:
        """Give them back what they had, where the system allows it: the session may outlive the job."""
        for task in self._lowered:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, task, 0)
        self._lowered.clear()
        self._seen.clear()
