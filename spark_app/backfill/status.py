"""Progress of a job, reported by its driver or stored in its target; both have the same fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from backfill.lines import clock, current_time
from backfill.shown import ShownReceipt, frame_text, status_html
from backfill_api.spec import spec as api
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Receipt
from backfill_api.status.source_head import SourceHead
from backfill_console.formatting import head_json
from backfill_console.frame import JobFrame
from backfill_console.frames import RESTING, frame_of_driver, frame_of_stored
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Status:
    """Progress of a job; without a driver, that of its last commit."""

    job_id: str
    state: Literal["NotStarted", "Starting", "Running", "Stopped", "Finished"]
    attempt: int = 0
    epoch: int = 0
    phase: str = ""
    percent: int = 0
    rows_total: int | None = None
    rows_done: int = 0
    rows_filtered: int | None = None
    """Rows that the filter left out; `None` if there are none."""

    changes_done: int = 0
    consumed_version: int | None = None
    """Version of the source that the target holds; `None` if the source has no versions."""

    target_version: int | None = None
    paused: str | None = None
    """`History` or `All`; `None` if the job is not paused."""

    throttle_rows_per_second: int | None = None
    receipt: Receipt | None = None
    """The last one."""

    progress: Progress | None = None
    """All fields that the driver reports; without a driver, those of them that the target stores are set. `None` if not started."""

    consumed_position: str = ""
    """Part of the source in the target, for display."""

    position: str = ""
    """Position in the order of a key, such as `rows up to id = 5`; empty without such an order, before the first row, and after the last."""

    bad_records: int = 0
    """Records that the transform cannot parse; they are in the quarantine table."""

    throttle_bytes_per_second: int | None = None
    max_in_flight: int | None = None
    """Most pieces of the snapshot that run at the same time; a value of the width is `None` if it is fixed, or unknown."""

    split_target_seconds: int | None = None
    """Target duration of a split."""

    chunk_rows: int | None = None
    """Most rows of a chunk; 0: as many as take about four seconds."""

    executors: int | None = None
    """Requested number of executors."""

    source_head: SourceHead | None = None
    """The newest position of the source of a job that has ended; `None` before, or if the source cannot be read."""

    def __str__(self) -> str:
        """Return the status in five lines."""
        return frame_text(self.frame(current_time()))

    def _repr_html_(self) -> str:
        return status_html(self.frame(current_time()))

    def frame(self, now: datetime, spec: api.BackfillSpec | None = None) -> JobFrame:
        """Return what a screen shows of this status.

        Args:
            now: Time of the frame.
            spec: Spec of the job, which names strategy and tables.
        """
        progress = self.progress or Progress()
        if self.state in RESTING:
            return frame_of_stored(
                self.job_id, self.state, progress, now=now, spec=spec, receipt=self.receipt, head=self.source_head
            )
        return frame_of_driver(self.job_id, progress, now=now, spec=spec, receipt=self.receipt)

    def to_json(self, *, grid: bool = False) -> dict[str, Any]:
        """Return the status for programs: the same names with and without a driver; a field that is not known is absent.

        Args:
            grid: Add the parts of the snapshot.
        """
        progress = self.progress or Progress()
        left_out = set() if grid else {"grid"}
        fields = progress.model_dump(
            mode="json", by_alias=True, exclude_unset=True, exclude_none=True, exclude=left_out
        )
        receipt = None if self.receipt is None else self.receipt.model_dump(mode="json", by_alias=True)
        ends = {"receipt": receipt, "sourceHead": head_json(self.source_head)}
        optional = {name: value for name, value in ends.items() if value is not None}
        return {"time": clock(), "jobId": self.job_id, "state": self.state, **fields, **optional}


def of_running(job_id: str, progress: Progress, receipt: Receipt | None) -> Status:
    """Return the status of a job whose driver answered, or starts."""
    return _status(job_id, "Running" if progress.attempt else "Starting", progress, receipt)


def _status(
    job_id: str,
    state: Literal["Starting", "Running", "Stopped", "Finished"],
    progress: Progress,
    receipt: Receipt | None,
    head: SourceHead | None = None,
) -> Status:
    return Status(
        job_id,
        state,
        attempt=progress.attempt,
        epoch=progress.epoch,
        phase=progress.phase,
        percent=progress.percent,
        rows_total=progress.rows_total if "rows_total" in progress.model_fields_set else None,
        rows_done=progress.rows_done,
        rows_filtered=progress.rows_filtered or None,
        changes_done=progress.changes_done,
        consumed_version=progress.consumed_version,
        consumed_position=progress.consumed_position,
        position=progress.position,
        target_version=progress.table_version,
        paused=progress.paused,
        throttle_rows_per_second=progress.throttle_rows_per_second,
        throttle_bytes_per_second=progress.throttle_bytes_per_second,
        max_in_flight=progress.max_in_flight,
        split_target_seconds=progress.split_target_seconds,
        chunk_rows=progress.chunk_rows,
        executors=progress.executors,
        receipt=receipt,
        progress=progress,
        bad_records=progress.bad_records,
        source_head=head,
    )


def of_target(
    backfill: api.BackfillResource,
    settings: DriverSettings,
    spark: SparkSession | None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> Status:
    """Return the status that the target holds, and of a job that has ended the newest position of the source, which may be gone.

    Raises:
        BackfillError: the target cannot be opened, or its state belongs to another spec.
    """
    from backfill_spark.control.wire import to_api_receipt
    from backfill_spark.driver.job_context import JobContext
    from backfill_spark.driver.offline_verify import newest_of_source
    from backfill_spark.driver.progress import progress_of_state

    # Kernel reads the state without a Spark job.
    with JobContext.open(backfill, settings, command="status", spark=spark, stop=stop, starting=starting) as target:
        ended = target.state is not None and target.state.finished
        consumed = target.state.consumed if ended and target.state is not None else None
        head = newest_of_source(target, consumed)
    state, stored = target.state, target.progress
    if state is None or stored is None:
        return Status(backfill.job_id, "NotStarted")
    summary = target.plugins.strategy.summarize(stored)
    progress = progress_of_state(state, summary, target.format_position).model_copy(
        update={"table_version": target.stored.table_version}
    )
    receipt = None if state.receipt is None else ShownReceipt.of(to_api_receipt(state.receipt), head)
    return _status(backfill.job_id, "Finished" if state.finished else "Stopped", progress, receipt, head)
