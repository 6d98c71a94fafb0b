"""A Delta table of bad records, beside the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta.sink import DeltaSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DeltaQuarantine(DeltaSink):
    """Satisfies `ports.sink.Quarantine`. Several jobs may share one."""

    def __init__(self, spark: SparkSession, path: str, *, job_id: str) -> None:
        """Take the place of the table; nothing is read or written yet."""
        super().__init__(spark, path, write_mode=APPEND, key=(), existing_rows="Keep", job_id=job_id)

    def staged_by(self, attempt: int, work_id: int) -> list[str]:
        """See `Quarantine`."""
        return self._staging.files(self._staging.of_work(attempt, work_id))
