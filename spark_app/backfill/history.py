"""Runs of jobs on this machine."""

from __future__ import annotations

from backfill_spark.control.history import RecordedRun, recorded_runs

__all__ = ["RecordedRun", "recorded_runs"]
