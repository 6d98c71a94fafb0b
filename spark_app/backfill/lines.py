"""Runs of jobs: as lines for logs, as JSON for programs, and the recorded ones of this machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from backfill_spark.control.history import HISTORY_FILE, RecordedRun, recorded_runs
from backfill_spark.control.local_registry import log_file
from backfill_spark.driver.lines import GOODBYE_S, Lines, clock, json_line, progress_document, progress_in

__all__ = [
    "GOODBYE_S", "HISTORY_FILE", "Lines", "RecordedRun", "clock", "current_time", "json_line", "log_file",
    "progress_document", "progress_in", "recorded_runs",
]  # fmt: skip


def current_time() -> datetime:
    """Return the current time in UTC."""
    return datetime.fromtimestamp(time.time(), UTC)
