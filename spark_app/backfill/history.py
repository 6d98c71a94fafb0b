"""Runs of jobs on this machine."""

from __future__ import annotations

from backfill_spark.control.history import HISTORY_FILE, RecordedRun, recorded_runs

__all__ = ["HISTORY_FILE", "RecordedRun", "recorded_runs"]
