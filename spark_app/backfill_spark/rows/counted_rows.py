"""Rows counted by the Spark job that writes them, to compare with the rows that the folder holds afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from backfill_core.errors import TransientError
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import java, observed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT_S = 60
"""Spark reports the count after the job; under load it may drop the event."""


class CountedRows:
    """A frame whose rows are counted when a job has computed it, once."""

    def __init__(self, spark: SparkSession, rows: DataFrame) -> None:
        """Take the frame; nothing is computed."""
        self._jvm = java(spark)
        self._observation = Observation()
        self.frame = rows.observe(self._observation, F.count(F.lit(1)).alias("rows"))

    def rows(self) -> int:
        """Return how many rows the job that used `frame` computed.

        Raises:
            TransientError: Spark does not say.
        """
        counted = observed(self._observation)
        limit = self._jvm.scala.concurrent.duration.Duration.apply(WAIT_S, "seconds")
        try:
            return int(self._jvm.scala.concurrent.Await.result(counted.future(), limit).getLong(0))
        except JAVA_ERRORS as error:
            raise TransientError("Spark does not say how many rows it wrote.") from error
