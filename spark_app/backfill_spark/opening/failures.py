"""What an opening or a Spark job meets, in our words: the parts of a job are asked in order, each knows its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from backfill_core.errors import BackfillError, JavaDiedError, TransientError
from backfill_spark.jvm.errors import whole_text
from backfill_spark.jvm.failures import unexplained
from backfill_spark.jvm.java_process import death, java_died, java_ends
from backfill_spark.stop_signal import StoppedEarly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ENDING_S = 10.0
"""Java ends in order: Spark removes its files first."""

STOPPED = ("stopped SparkContext", "SparkContext was shut down")
STOPPED_HINT = (
    "Executors failed or were refused too often, or the session was stopped from outside: the driver's log says which."
)


class Side(Protocol):
    """A part of a job that knows its own failures."""

    def explain_failure(self, error: Exception) -> BackfillError | None:
        """Return the error in our words; None when it is about another part."""


@contextmanager
def explained(spark: SparkSession, doing: str, *sides: Side) -> Iterator[None]:
    """Turn what the block raises into an error of ours."""
    try:
        yield
    except (BackfillError, StoppedEarly):
        raise
    except Exception as error:
        raise explain(error, spark, doing, *sides) from error


def explain(error: Exception, spark: SparkSession, doing: str, *sides: Side) -> BackfillError:
    """Return an error in our words: as Java's end, as one of the sides knows it, or else as `unexplained`."""
    if isinstance(error, BackfillError):
        return error
    died = death_of(error, spark)
    if died is not None:
        return died
    if any(text in whole_text(error) for text in STOPPED):
        return TransientError(f"{doing} failed: Spark has stopped.", hint=STOPPED_HINT)
    known = (side.explain_failure(error) for side in sides)
    return next((one for one in known if one is not None), None) or unexplained(error, doing=doing)


def death_of(error: Exception, spark: SparkSession) -> JavaDiedError | None:
    """Return the end of Java that an error is a sign of; `None` if Java lives on. Out of memory, it stops Spark before it ends."""
    if java_died(spark, error):
        return death(spark, error)
    signs = (*STOPPED, "OutOfMemoryError")
    if any(sign in whole_text(error) for sign in signs) and java_ends(spark, ENDING_S):
        return death(spark, error)
    return None
