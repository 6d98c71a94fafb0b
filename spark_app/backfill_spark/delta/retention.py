"""How long a Delta table keeps removed files and old versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_NUMBER = re.compile("[0-9]{1,15}")
DEFAULT_LOG_SECONDS, DEFAULT_FILE_SECONDS = 30 * 86_400, 7 * 86_400


def kept_seconds(read: Callable[[str], str | None]) -> int:
    """Return the shorter of the retention of removed files and of the log; `read` gives a table property."""
    log = _seconds(read("delta.logRetentionDuration"), DEFAULT_LOG_SECONDS)
    return min(log, _seconds(read("delta.deletedFileRetentionDuration"), DEFAULT_FILE_SECONDS))


def _seconds(interval: str | None, default: int) -> int:
    words = (interval or "").lower().split()
    found = [(number, unit) for number, unit in pairwise(words) if _NUMBER.fullmatch(number)]
    return sum(int(number) * UNIT_SECONDS.get(unit.rstrip("s"), 0) for number, unit in found) or default
