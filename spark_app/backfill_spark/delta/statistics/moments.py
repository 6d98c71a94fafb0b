"""Timestamps in the statistics of a log, and their maximum distance from the values that they bound.

writer                                     bound                                  true value
----------------------------------------   ------------------------------------   -----------------------------------------
any                                        truncated to milliseconds              up to 1 ms later
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
"""Format of a bound with seconds. A bound without seconds was truncated by another writer, in an unknown way."""


@dataclass(frozen=True, slots=True)
class LoggedMoment:
    """A timestamp in the log; without a zone for TIMESTAMP_NTZ."""

    at: datetime
    error: timedelta = timedelta(0)

    @property
    def earliest(self) -> datetime:
        """Lower bound of the values; valid if this timestamp is a logged minimum.

        Raises:
            OverflowError: the bound is before the year 1.
        """
        return self.at - self.error

    @property
    def latest(self) -> datetime:
        """Upper bound of the values, at most the last microsecond of the year 9999; valid if this timestamp is a logged maximum.

        Delta truncates maximum values to milliseconds too.
        """
        cut = TRUNCATED_TO if not self.at.microsecond % 1000 else timedelta(0)
        last = datetime.max.replace(tzinfo=self.at.tzinfo)
        return self.at + self.error + cut if last - self.at >= self.error + cut else last


def read_moment(text: str, *, zoned: bool) -> LoggedMoment:
    """Parse a timestamp in the statistics of a file.

    Args:
        text: The string in the statistics.
        zoned: True for a TIMESTAMP column, False for a TIMESTAMP_NTZ column.

    Raises:
        ValueError: the distance from the true value is unknown, or Python cannot represent the timestamp.
    """
    timestamp = datetime.fromisoformat(text)
    offset = timestamp.utcoffset()
    if _FORM.fullmatch(text) is None or (zoned and offset is None) or (not zoned and offset):
        raise ValueError(text)
    if not zoned:
        return LoggedMoment(timestamp.replace(tzinfo=None))
    assert offset is not None
    exact = not offset or offset % timedelta(minutes=1) or timestamp >= ZONES_WITHOUT_SECONDS
    return LoggedMoment(timestamp, timedelta(0) if exact else OFFSET_ERROR)
