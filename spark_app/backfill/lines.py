"""A run as lines: for logs, and as JSON for programs."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from backfill_spark.driver.lines import GOODBYE_S, Lines, clock, json_line, progress_document, progress_in

__all__ = ["GOODBYE_S", "Lines", "clock", "current_time", "json_line", "progress_document", "progress_in"]


def current_time() -> datetime:
    """Return the current time in UTC."""
    return datetime.fromtimestamp(time.time(), UTC)
