"""Looks at a job that no driver works on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from backfill_api.spec.spec import Backfill
from backfill_api.status import receipt as words
from backfill_core.errors import NotFinishedError, StateMismatchError
from backfill_spark.control.wire import receipt_words
from backfill_spark.driver.event_loop import now
from backfill_spark.driver.job_context import JobContext
from backfill_spark.settings import DriverSettings
from backfill_spark.stop_signal import StopSignal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verify_offline(
    backfill: Backfill,
    *,
    settings: DriverSettings,
    explain: bool = False,
    by_rows: bool = False,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
) -> tuple[words.Receipt, list[tuple[str, dict[str, Any]]]]:
    """Take a receipt of a target at its newest version; with `explain` also rows that differ.

    All is compared `by_rows` where that is asked for, also files that were copied.

    Raises:
        StateMismatchError: the target has no state of this job.
        BackfillError: a table cannot be opened.
    """
    stop = stop or StopSignal()
    with (
        JobContext.open(backfill, settings, command="verify", spark=spark, stop=stop) as context,
        stop.cancels_jobs_of(context.spark),
    ):
        state = context.state
        if state is None:
            raise StateMismatchError("the target has no state of this job.", hint="Run the job first.")
        with context.open_job() as job:
            if job.start_over is not None:
                raise NotFinishedError(
                    "the job is not finished, and its next attempt begins anew: there is nothing to compare.",
                    hint="Run it to its end.",
                )
            status, version = job.strategy().status, context.stored.table_version
            compared = job.comparison(
                status.position, target_version=version, covered=status.covered, check=stop.check, by_rows=by_rows
            )
            with job.jobs_explained():
                receipt = compared.receipt(epoch=state.epoch)
                examples = compared.examples(receipt) if explain and not receipt.equal else []
        return receipt_words(replace(receipt, verified_ms=now().wall_ms)), examples
