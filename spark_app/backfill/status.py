"""How far a job is: what its running driver says, or what its target holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from backfill_api.spec import spec as api
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Receipt
from backfill_api.status.source_head import SourceHead
from backfill_spark.settings import DriverSettings
from backfill_spark.stop_signal import StopSignal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Status:
    """How far a job is.

    `progress` is there while a driver runs on this machine. Otherwise the fields are those of the last commit.
    """

    job_id: str
    state: Literal["NotStarted", "Running", "Stopped", "Finished"]
    attempt: int = 0
    epoch: int = 0
    phase: str = ""
    percent: int = 0
    rows_total: int | None = None
    rows_done: int = 0
    rows_filtered: int | None = None
    """Rows that the filter left out; None where there is no filter, or before all rows were read."""

    changes_done: int = 0
    consumed_version: int | None = None
    """Version of the source that the target holds; None where the source has no versions."""

    target_version: int | None = None
    paused: str | None = None
    """`History` or `All`; None: not paused."""

    throttle_rows_per_second: int | None = None
    receipt: Receipt | None = None
    """The last one."""

    progress: Progress | None = None
    consumed_position: str = ""
    """What of the source the target holds, in the source's words."""

    position: str = ""
    """How far the order of a key is, as `rows up to id = 5`; empty where there is none, or before the first row, or after the last."""

    bad_records: int = 0
    """Records that the transform cannot parse: they are in a table of their own."""

    throttle_bytes_per_second: int | None = None
    source_head: SourceHead | None = None
    """The newest position of the source of a job that has ended; `None` before, or if the source cannot be read."""


def of_running(job_id: str, progress: Progress, receipt: Receipt | None) -> Status:
    """Return the status of a job whose driver answered."""
    return Status(
        job_id, "Running", progress.attempt, progress.epoch, progress.phase, progress.percent, progress.rows_total,
        progress.rows_done, progress.rows_filtered, progress.changes_done, progress.consumed_version,
        progress.table_version, progress.paused, progress.throttle_rows_per_second, receipt, progress,
        progress.consumed_position, progress.position, progress.bad_records,
        progress.throttle_bytes_per_second,
    )  # fmt: skip


def of_target(
    backfill: api.Backfill, settings: DriverSettings, spark: SparkSession | None, stop: StopSignal | None = None
) -> Status:
    """Return the status that the target holds, and of a job that has ended the newest position of the source, which may be gone.

    Raises:
        BackfillError: the target cannot be opened, or its state belongs to another spec.
    """
    from backfill_spark.control.wire import receipt_words
    from backfill_spark.driver.job_context import JobContext
    from backfill_spark.driver.offline_verify import newest_of_source
    from backfill_spark.sources import version_of

    # Kernel reads the state without a Spark job.
    with JobContext.open(backfill, settings, command="status", spark=spark, stop=stop) as target:
        ended = target.state is not None and target.state.finished
        consumed = target.state.consumed if ended and target.state is not None else None
        head = newest_of_source(target, consumed)
    state, progress = target.state, target.progress
    if state is None or progress is None:
        return Status(backfill.job_id, "NotStarted")
    summary = target.plugins.strategy.summarize(progress)
    return Status(
        backfill.job_id,
        "Finished" if state.finished else "Stopped",
        attempt=state.attempt,
        epoch=state.epoch,
        phase=summary.phase,
        percent=100 if state.finished else state.percent,
        rows_total=summary.rows_total,
        rows_done=state.rows_done,
        rows_filtered=summary.rows_filtered or None,
        changes_done=state.changes_done,
        consumed_version=version_of(state.consumed),
        consumed_position=target.words(state.consumed),
        position=summary.position,
        target_version=target.stored.table_version,
        paused=state.controls.paused,
        throttle_rows_per_second=state.controls.rows_per_s,
        throttle_bytes_per_second=state.controls.bytes_per_s,
        receipt=None if state.receipt is None else receipt_words(state.receipt),
        bad_records=state.quarantine.rows,
        source_head=head,
    )
