"""Jobs of this machine for the page: values of a driver, or of the history, in; rows and jobs out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from backfill.lines import RecordedRun
from backfill_api.amounts import counted
from backfill_cli.page.all_local_jobs import NO_ANSWER
from backfill_console.facts import state_of
from backfill_console.frame import JobFrame
from backfill_page.seen import Ended, Group, JobRow, JobSeen, NextCommand

NO_DRIVER: Final = "No driver runs."
COMPLETE: Final = (NextCommand("Compare source and target", "backfill verify -f FILE"),)
UNFINISHED: Final = (
    NextCommand("Resume at the last commit", "backfill run -f FILE"),
    NextCommand("Read the state in the target", "backfill status -f FILE"),
)
GROUPS: Final[dict[str, Group]] = {"Complete": "done", "Stopped": "paused"}
"""Groups of ended runs by their outcome; all others need a person."""


def row_of_driver(job_id: str, frame: JobFrame) -> JobRow:
    """Return the row of a job whose driver answers or starts."""
    progress = frame.progress
    _, state = state_of(frame)
    if not progress.attempt:
        return JobRow(job_id, "waits", "starting", progress.reason)
    differs = frame.receipt is not None and not frame.receipt.equal
    group: Group = "needs a person" if differs or progress.warnings else "paused" if progress.paused else "runs"
    why = "source and target differ" if differs else (*progress.warnings, progress.reason)[0]
    return JobRow(
        job_id, group, state, why,
        percent=progress.percent,
        rows_done=progress.rows_done,
        rows_total=progress.rows_total or None,
        rows_per_second=progress.rows_per_second,
        lag_s=progress.lag_seconds,
        eta_s=progress.eta_seconds,
        all_paused=progress.paused == "All",
    )  # fmt: skip


def row_of_silent(job_id: str, why: str) -> JobRow:
    """Return the row of a job whose driver gives no valid answer."""
    return JobRow(job_id, "needs a person", NO_ANSWER, why)


def row_of_run(run: RecordedRun) -> JobRow:
    """Return the row of a run that has ended."""
    differs = run.receipt == "Differs"
    group = "needs a person" if differs else GROUPS.get(run.outcome, "needs a person")
    why = f"{run.reason}: {run.message}" if run.message else run.reason
    return JobRow(
        run.job_id, group, run.outcome, "source and target differ" if differs else "" if why == run.outcome else why,
        rows_done=run.rows_done or None,
    )  # fmt: skip


def job_of_run(run: RecordedRun, now: datetime, last: JobSeen | None) -> JobSeen:
    """Return a run that has ended.

    Args:
        run: Its record.
        now: Current time.
        last: The job as the page saw it last while it ran; `None` if no browser watched it.
    """
    watched = last is not None and last.frame.progress.attempt == run.attempt
    frame = replace(last.frame, now=now) if last is not None and watched else JobFrame(run.job_id, now)
    phase = "Finished" if run.outcome == "Complete" else "Failed" if run.outcome != "Stopped" else "Stopped"
    changes = f"{counted(run.changes_done, 'change')} applied" if run.changes_done else ""
    ended = Ended(
        outcome=run.outcome,
        good=run.outcome == "Complete" and run.receipt != "Differs",
        reason="" if run.reason == run.outcome else run.reason,
        message="; ".join(part for part in (run.message, changes) if part),
        start=run.start,
        end=run.end,
        receipt={"Equal": "source and target are equal", "Differs": "source and target differ"}.get(
            run.receipt, run.receipt
        ),
        rows_done=run.rows_done or None,
        next_commands=COMPLETE if run.outcome == "Complete" else UNFINISHED,
    )
    return JobSeen(
        run.job_id, replace(frame, phase=phase, resting=run.outcome.lower()), now, ended, unavailable=NO_DRIVER
    )
