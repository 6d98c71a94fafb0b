"""Did the Java process of a session end? Each call into it fails from then on, in words about sockets."""

from __future__ import annotations

from contextlib import suppress
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from backfill_core.errors import JavaDiedError
from backfill_spark.jvm.errors import JAVA_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DYING_S = 3.0
"""A process that is being killed drops its connections first."""


def java_died(spark: SparkSession | None, error: Exception) -> bool:
    """Is the Java process of a session gone, and the error only what a broken connection looks like?"""
    gateway: Any = getattr(getattr(spark, "_sc", None), "_gateway", None)
    if gateway is None or isinstance(error, JAVA_ERRORS) or not isinstance(error, Py4JError | ConnectionError):
        return False
    process = getattr(gateway, "proc", None)
    if process is not None:
        with suppress(TimeoutExpired):
            process.wait(DYING_S)
        return process.poll() is not None
    try:
        gateway.jvm.java.lang.System.nanoTime()
    except (Py4JError, ConnectionError):
        return True
    return False


def death(error: Exception) -> JavaDiedError:
    """Say so."""
    return JavaDiedError(
        f"the Java process of Spark ended ({type(error).__name__}).",
        hint="Most often it is killed for want of memory: give it more (BACKFILL_MEMORY), then run the job again.",
    )
