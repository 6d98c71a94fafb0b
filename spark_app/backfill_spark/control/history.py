"""Runs of jobs on this machine: an append-only file with one JSON line for the start of a run, and one for its end.

A driver that is killed writes no end. Its run then has the outcome `Killed`. A file that cannot be written does not stop a job.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from backfill_core.protocol.receipt import TableReceipt
from backfill_spark.control.local_registry import running

HISTORY_FILE: Final = "history.jsonl"
TEXT_CHARACTERS_MAX: Final = 1000
READ_BYTES_MAX: Final = 8 * 1024 * 1024
"""The newest part of the file that is read: some ten thousand runs."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One run of a job on this machine."""

    job_id: str
    start: str
    """Time, RFC 3339."""

    end: str = ""
    """Time, RFC 3339; empty if no end was written."""

    outcome: str = "Killed"
    """Complete, Stopped or Failed; `Running`, or `Killed` if the driver is gone and wrote no end."""

    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    attempt: int = 0
    """Number of the attempt; 0 if it ended before it had one."""

    rows_done: int = 0
    """Rows of the source that were done at its end, those of earlier runs included."""

    changes_done: int = 0
    receipt: str = ""
    """Verdict of the newest receipt: Equal, Differs, or Partial if it is equal and not about all rows; empty without a receipt."""


class RunRecord:
    """Writes the start and the end of one run."""

    def __init__(self, state_dir: Path, job_id: str) -> None:
        """Take the folder; nothing is written yet."""
        self._file = state_dir / HISTORY_FILE
        self._job_id = job_id
        self._run = ""

    def begin(self, time: str) -> None:
        """Write that the run starts."""
        self._run = secrets.token_hex(8)
        self._append({"start": time})

    def finish(self, run: RecordedRun) -> None:
        """Write how the run ended; nothing if it did not begin, because another driver of the job runs."""
        if self._run:
            fields = {
                "end": run.end, "outcome": run.outcome, "reason": run.reason, "message": run.message[:TEXT_CHARACTERS_MAX],
                "exitCode": run.exit_code, "attempt": run.attempt, "rowsDone": run.rows_done, "changesDone": run.changes_done,
                "receipt": run.receipt,
            }  # fmt: skip
            self._append(fields)

    def _append(self, fields: dict[str, Any]) -> None:
        line = json.dumps({"run": self._run, "jobId": self._job_id} | fields) + "\n"
        try:
            handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(handle, "ab", buffering=0) as out:
                out.write(line.encode())  # one write, so that lines of two drivers do not mix
        except OSError as error:
            _log.warning("%s cannot be written, so `backfill history` lacks this run: %s", self._file, error.strerror)


def verdict_of(receipt: TableReceipt | None) -> str:
    """Return the verdict of a receipt, as `RecordedRun.receipt` has it."""
    if receipt is None:
        return ""
    if not receipt.equal:
        return "Differs"
    return "Equal" if receipt.complete else "Partial"


def recorded_runs(state_dir: Path, job_id: str | None = None) -> list[RecordedRun]:
    """Return the runs on this machine, oldest first; lines of another program, or cut off by a full disk, are left out.

    Args:
        state_dir: Folder of the drivers.
        job_id: Only runs of this job; `None` for all jobs.
    """
    runs: dict[str, RecordedRun] = {}
    for fields in _lines(state_dir / HISTORY_FILE):
        run, job = fields.get("run"), fields.get("jobId")
        if not (isinstance(run, str) and isinstance(job, str)) or job_id not in (None, job):
            continue
        if isinstance(fields.get("start"), str):
            runs[run] = RecordedRun(job, fields["start"])
        elif run in runs:
            runs[run] = _ended(runs[run], fields)
    alive = {address.job_id for address in running(state_dir)}
    newest = {past.job_id: run for run, past in runs.items()}
    for job in alive & newest.keys():
        if not runs[newest[job]].end:
            runs[newest[job]] = replace(runs[newest[job]], outcome="Running")
    return list(runs.values())


def _ended(run: RecordedRun, fields: dict[str, Any]) -> RecordedRun:
    def text(name: str) -> str:
        return str(fields.get(name) or "")

    def number(name: str) -> int | None:
        value = fields.get(name)
        return value if isinstance(value, int) else None

    return replace(
        run,
        end=text("end"),
        outcome=text("outcome"),
        reason=text("reason"),
        message=text("message"),
        exit_code=number("exitCode"),
        attempt=number("attempt") or 0,
        rows_done=number("rowsDone") or 0,
        changes_done=number("changesDone") or 0,
        receipt=text("receipt"),
    )


def _lines(file: Path) -> list[dict[str, Any]]:
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - READ_BYTES_MAX))
            text = stream.read(READ_BYTES_MAX).decode(errors="replace")
    except OSError:
        return []
    return [fields for line in text.split("\n") if isinstance(fields := _parsed(line), dict)]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
