"""How long a Delta table keeps removed files and old versions."""

from __future__ import annotations

import re
from collections.abc import Callable

UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
DEFAULT_LOG_SECONDS, DEFAULT_FILE_SECONDS = 30 * 86_400, 7 * 86_400


def kept_seconds(read: Callable[[str], str | None]) -> int:
    """Return the shorter of the retention of removed files and of the log; `read` gives a table property."""
    log = _seconds(read("delta.logRetentionDuration"), DEFAULT_LOG_SECONDS)
    return min(log, _seconds(read("delta.deletedFileRetentionDuration"), DEFAULT_FILE_SECONDS))


def _seconds(interval: str | None, default: int) -> int:
    found = re.findall(r"(\d+)\s+([a-z]+?)s?\b", (interval or "").lower())
    return sum(int(number) * UNIT_SECONDS.get(unit, 0) for number, unit in found) or default
