"""Timestamps in the statistics of a log, and how far each may be from the value that it bounds.

writer                                     bound                                  true value
----------------------------------------   ------------------------------------   -----------------------------------------
any                                        cut to milliseconds                    up to 1 ms later
Delta 3.2 and 3.3, in a session whose      the zone's offset without its          up to 59 s earlier or later
zone has seconds in its offset             seconds: `+00:09` for `+00:09:21`

The last zone of the tz database with such an offset is Africa/Monrovia, until 1972-01-07. No such offset is shorter than a minute, so
that `Z` is exact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

TRUNCATED_TO = timedelta(milliseconds=1)
OFFSET_ERROR = timedelta(seconds=59)
ZONES_WITHOUT_SECONDS = datetime(1972, 1, 8, tzinfo=UTC)

_FORM = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d.*", re.DOTALL)
"""A text without seconds is a bound that another writer cut: nothing says how."""


@dataclass(frozen=True, slots=True)
class LoggedMoment:
    """A timestamp in the log; without a zone for TIMESTAMP_NTZ."""

    at: datetime
    error: timedelta = timedelta(0)

    @property
    def earliest(self) -> datetime:
        """No value that it bounds from below is smaller.

        Raises:
            OverflowError: that is before the year 1.
        """
        return self.at - self.error

    @property
    def latest(self) -> datetime:
        """No value that it bounds from above is larger; the last microsecond of the year 9999 at most.

        Delta cuts the largest value to milliseconds, too.
        """
        cut = TRUNCATED_TO if not self.at.microsecond % 1000 else timedelta(0)
        last = datetime.max.replace(tzinfo=self.at.tzinfo)
        return self.at + self.error + cut if last - self.at >= self.error + cut else last


def read_moment(text: str, *, zoned: bool) -> LoggedMoment:
    """Return the timestamp that a text of the log stands for.

    Args:
        text: From the statistics of a file.
        zoned: Is it of a TIMESTAMP column? Else it is of a TIMESTAMP_NTZ column.

    Raises:
        ValueError: nothing says how far it is from the value, or Python has no such timestamp.
    """
    found = datetime.fromisoformat(text)
    offset = found.utcoffset()
    if _FORM.fullmatch(text) is None or (zoned and offset is None) or (not zoned and offset):
        raise ValueError(text)
    if not zoned:
        return LoggedMoment(found.replace(tzinfo=None))
    assert offset is not None
    exact = not offset or offset % timedelta(minutes=1) or found >= ZONES_WITHOUT_SECONDS
    return LoggedMoment(found, timedelta(0) if exact else OFFSET_ERROR)
