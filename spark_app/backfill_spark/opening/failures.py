"""Translates errors of opening tables and of Spark jobs: each part of a job, in order, explains its own errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from backfill_core.errors import BackfillError, JavaDiedError, TransientError
from backfill_spark.jvm.errors import whole_text
from backfill_spark.jvm.failures import unexplained
from backfill_spark.jvm.java_process import death, java_died, java_ends
from backfill_spark.jvm.stop_signal import StoppedEarly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ENDING_S = 10.0
"""Seconds to wait for the end of Java, because Spark removes its files first."""

STOPPED = ("stopped SparkContext", "SparkContext was shut down")
STOPPED_HINT = "Executors failed or were refused too often, or another process stopped the session: read the driver's log for the cause."


class Side(Protocol):
    """A part of a job that explains its own failures."""

    def explain_failure(self, error: Exception) -> BackfillError | None:
        """Translate an error; `None` if it concerns another part."""


@contextmanager
def explained(spark: SparkSession, doing: str, *sides: Side) -> Iterator[None]:
    """Translate exceptions of the block into a `BackfillError`."""
    try:
        yield
    except (BackfillError, StoppedEarly):
        raise
    except Exception as error:
        raise explain(error, spark, doing, *sides) from error


def explain(error: Exception, spark: SparkSession, doing: str, *sides: Side) -> BackfillError:
    """Translate an error: as the end of Java, as one of the sides explains it, or else as `unexplained`."""
    if isinstance(error, BackfillError):
        return error
    died = death_of(error, spark)
    if died is not None:
        return died
    if any(text in whole_text(error) for text in STOPPED):
        return TransientError(f"{doing} failed: Spark has stopped.", hint=STOPPED_HINT)
    explanations = (side.explain_failure(error) for side in sides)
    return next((cause for cause in explanations if cause is not None), None) or unexplained(error, doing=doing)


def death_of(error: Exception, spark: SparkSession) -> JavaDiedError | None:
    """Return the error for the end of Java if `error` is a sign of it; `None` if Java still runs.

    A JVM that is out of memory stops Spark before it ends.
    """
    if java_died(spark, error):
        return death(spark, error)
    signs = (*STOPPED, "OutOfMemoryError")
    if any(sign in whole_text(error) for sign in signs) and java_ends(spark, ENDING_S):
        return death(spark, error)
    return None
