"""How far a job is when no driver runs: what the target itself holds."""

from __future__ import annotations

from typing import Any

from backfill_api.spec.spec import Backfill
from backfill_core.job.state import JobState
from backfill_spark.driver.job_context import JobContext
from backfill_spark.settings import DriverSettings


def stored_words(backfill: Backfill, settings: DriverSettings) -> dict[str, Any]:
    """Return the stored state of a job as names and values for people; writes nothing.

    Raises:
        BackfillError: a table cannot be opened, or the state belongs to another spec.
    """
    # The target alone: Kernel reads its state without a Spark job, and the source may be gone by now.
    with JobContext.open(backfill, settings, command="status") as target:
        state = target.state
        if state is None:
            return {"jobId": backfill.job_id, "state": "not started: the target holds no state of this job"}
        receipt = state.receipt
        return {
            "jobId": backfill.job_id,
            "state": "finished" if state.finished else "not running; `backfill run` goes on from here",
            "phase": state.progress.get("phase", ""),
            "attempt": state.attempt,
            "epoch": state.epoch,
            "percent": 100 if state.finished else state.percent,
            "rowsTotal": state.progress.get("rowsLive", state.progress.get("rows")),
            "rowsDone": state.rows_done,
            **_filtered(state),
            "changesDone": state.changes_done,
            "consumedVersion": state.consumed,
            "targetVersion": target.stored.table_version,
            "paused": state.controls.paused,
            "throttleRowsPerSecond": state.controls.rows_per_s,
            "receipt": None if receipt is None else ("equal" if receipt.equal else "different") + f", {receipt.rows:,} rows",
        }  # fmt: skip


def _filtered(state: JobState) -> dict[str, int]:
    """Return how many rows the filter left out, once every row of history had its turn; of older states nobody knows."""
    progress = state.progress
    if progress["phase"] == "Snapshot" or "rowsLive" not in progress:
        return {}
    left_out = progress["rowsLive"] - progress["rowsRead"]
    return {"rowsFiltered": left_out} if left_out > 0 else {}
