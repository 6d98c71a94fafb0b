"""Rows counted by the Spark job that writes them, to compare with the rows that the folder holds afterwards."""

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
"""Spark reports the count after the job; under load it may drop the event."""


class Counted:
    """A frame of which something is counted when a job has computed it, once."""

    def __init__(self, spark: SparkSession, rows: DataFrame, what: Column) -> None:
        """Take the frame and what is counted; nothing is computed."""
        self._jvm = java(spark)
        self._observation = Observation()
        self.frame = rows.observe(self._observation, what.alias("counted"))

    def _counted(self) -> Any:
        """Return Java's row with what was counted.

        Raises:
            TransientError: Spark does not say.
        """
        counted = observed(self._observation)
        limit = self._jvm.scala.concurrent.duration.Duration.apply(WAIT_S, "seconds")
        try:
            return self._jvm.scala.concurrent.Await.result(counted.future(), limit)
        except JAVA_ERRORS as error:
            raise TransientError("Spark does not say how many rows it wrote.") from error


class CountedRows(Counted):
    """Rows that are counted."""

    def __init__(self, spark: SparkSession, rows: DataFrame, only: Column | None = None) -> None:
        """Take the frame; `only`: count those that fulfil a condition."""
        super().__init__(spark, rows, F.count(F.lit(1)) if only is None else F.count_if(only))

    def rows(self) -> int:
        """Return how many rows the job that used `frame` computed, of those that count.

        Raises:
            TransientError: Spark does not say.
        """
        return int(self._counted().getLong(0))


class CountedPartitions(Counted):
    """Rows of a source with offsets that are counted by partition."""

    def __init__(self, spark: SparkSession, rows: DataFrame, partitions: int) -> None:
        """Take the frame; `partitions`: how many it has at most."""
        # A histogram is exact while it has a bar for each value; a sum for each partition would be a thousand expressions.
        bars = F.histogram_numeric(F.col("partition").cast("int"), F.lit(max(2, partitions)))
        super().__init__(spark, rows, F.to_json(bars))

    def records(self) -> dict[str, int]:
        """Return how many rows of each partition the job that used `frame` computed; those without a row are left out.

        Raises:
            TransientError: Spark does not say.
        """
        found = Counter[str]()
        for bar in json.loads(self._counted().getString(0) or "[]"):
            found[str(round(bar["x"]))] += round(bar["y"])
        return dict(found)
