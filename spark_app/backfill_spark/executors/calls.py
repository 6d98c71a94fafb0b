"""Calls to Spark about executors."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from backfill_core.pacing.executors import surplus
from backfill_spark.jvm.gateway import java, java_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def executors_there(spark: SparkSession) -> int:
    """Return the number of registered executors."""
    # The driver counts as one executor.
    return int(java_context(spark).sc().getExecutorMemoryStatus().size()) - 1


def executors_removed(spark: SparkSession, reported: Collection[str]) -> dict[str, str]:
    """Return Spark's message for each removed executor that it still lists, by id; empty for ids in `reported`.

    Each message needs a call to Java, so messages that were already reported are not read again.
    """
    store = java_context(spark).sc().statusStore()
    listed = store.executorList(False)
    if listed.size() == store.executorList(True).size():
        return {}
    messages: dict[str, str] = {}
    for index in range(listed.size()):
        executor = listed.apply(index)
        if not executor.isActive():
            name = str(executor.id())
            reason = executor.removeReason()
            messages[name] = str(reason.get()) if name not in reported and reason.isDefined() else ""
    return messages


def scale_executors(spark: SparkSession, number: int) -> bool:
    """Request a number of executors, and remove surplus ones; return whether Spark accepted it.

    Spark only replaces executors up to the requested number, and removes none. Tasks of a removed executor run again on another
    one; they count neither as failed tasks nor as failures of an executor.
    """
    context, classes = java_context(spark).sc(), java(spark)
    # Spark gets no preferred hosts.
    if not context.requestTotalExecutors(number, 0, classes.PythonUtils.toScalaMap(classes.java.util.HashMap())):
        return False
    active, tasks = context.getExecutorIds(), context.taskScheduler()
    names = [str(active.apply(index)) for index in range(active.size())]
    removed = surplus({name: bool(tasks.isExecutorBusy(name)) for name in names}, number)
    if removed:
        # The requested total stays, no task counts as failed, and busy executors end too.
        context.schedulerBackend().killExecutors(classes.PythonUtils.toSeq([*removed]), False, False, True)
    return True
