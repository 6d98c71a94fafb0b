"""Row counts from the Spark job that writes the rows, for comparison with the rows in the written files."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F

from backfill_core.errors import TransientError
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import java, observed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WAIT_S = 60
"""Seconds to wait for the count: Spark reports it after the job, and under load it may drop the event."""


class Counted:
    """A frame with an aggregate that the first job to compute the frame reports."""

    def __init__(self, spark: SparkSession, rows: DataFrame, what: Column) -> None:
        """Observe the aggregate `what` of the frame; computes nothing yet."""
        self._jvm = java(spark)
        self._observation = Observation()
        self.frame = rows.observe(self._observation, what.alias("counted"))

    def _counted(self) -> Any:
        """Return the Java row with the observed value.

        Raises:
            TransientError: Spark does not report the value in time.
        """
        counted = observed(self._observation)
        limit = self._jvm.scala.concurrent.duration.Duration.apply(WAIT_S, "seconds")
        try:
            return self._jvm.scala.concurrent.Await.result(counted.future(), limit)
        except JAVA_ERRORS as error:
            raise TransientError("Spark does not report how many rows it wrote.") from error


class CountedRows(Counted):
    """A frame with the number of its rows."""

    def __init__(self, spark: SparkSession, rows: DataFrame, only: Column | None = None) -> None:
        """Count the rows of a frame; with `only`, the rows that satisfy that condition."""
        super().__init__(spark, rows, F.count(F.lit(1)) if only is None else F.count_if(only))

    def rows(self) -> int:
        """Return the number of counted rows that the job with `frame` computed.

        Raises:
            TransientError: Spark does not report the number in time.
        """
        return int(self._counted().getLong(0))


class CountedPartitions(Counted):
    """Rows of a source with offsets, with their number per partition."""

    def __init__(self, spark: SparkSession, rows: DataFrame, partitions: int) -> None:
        """Count the rows of a frame with at most `partitions` partitions."""
        # A histogram is exact if it has a bar for each value. Sums per partition would need up to a thousand expressions.
        bars = F.histogram_numeric(F.col("partition").cast("int"), F.lit(max(2, partitions)))
        super().__init__(spark, rows, F.to_json(bars))

    def records(self) -> dict[str, int]:
        """Return the number of rows per partition that the job with `frame` computed, without empty partitions.

        Raises:
            TransientError: Spark does not report the numbers in time.
        """
        counts = Counter[str]()
        for bar in json.loads(self._counted().getString(0) or "[]"):
            counts[str(round(bar["x"]))] += round(bar["y"])
        return dict(counts)
