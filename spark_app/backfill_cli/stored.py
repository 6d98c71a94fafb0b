"""How far a job is when no driver runs: what the target itself holds."""

from __future__ import annotations

from typing import Any

from backfill_api.spec import Backfill
from backfill_core.state import JobState
from backfill_spark.opening import as_pinned, open_job
from backfill_spark.session import open_session
from backfill_spark.settings import DriverSettings


def stored_words(backfill: Backfill, settings: DriverSettings) -> dict[str, Any]:
    """Return the stored state of a job as names and values for people; writes nothing.

    Raises:
        BackfillError: a table cannot be opened, or the state belongs to another spec.
    """
    spark = open_session(
        app_name="backfill status",
        cores=settings.cores,
        memory=settings.memory,
        jars_dir=settings.jars_dir,
        java_home=settings.java_home,
        spec_conf=backfill.spec.spark.conf,
    )
    try:
        opened = open_job(spark, backfill)
        state = opened.state
        if state is None:
            return {"jobId": backfill.job_id, "state": "not started: the target holds no state of this job"}
        receipt = state.receipt
        return {
            "jobId": backfill.job_id,
            "state": "finished" if state.finished else "not running; `backfill run` goes on from here",
            "phase": state.progress.get("phase", ""),
            "attempt": state.attempt,
            "epoch": state.epoch,
            "rowsTotal": as_pinned(opened.pinned, state).rows_live,
            "rowsDone": state.rows_done,
            **_filtered(state, opened.pinned.live_rows),
            "changesDone": state.changes_done,
            "consumedVersion": state.consumed,
            "targetVersion": opened.stored.table_version,
            "paused": state.controls.paused,
            "throttleRowsPerSecond": state.controls.rows_per_s,
            "receipt": None if receipt is None else ("equal" if receipt.equal else "different") + f", {receipt.rows:,} rows",
        }  # fmt: skip
    finally:
        spark.stop()


def _filtered(state: JobState, rows_live: int) -> dict[str, int]:
    """Return how many rows the filter left out, once every row of history had its turn."""
    progress = state.progress
    if progress["phase"] == "Snapshot":
        return {}
    left_out = progress.get("rowsLive", rows_live) - progress["rowsRead"]
    return {"rowsFiltered": left_out} if left_out > 0 else {}
