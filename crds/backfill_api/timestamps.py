"""RFC 3339 without a clock and without `datetime`: time is an input, and this module only parses and formats it."""

from __future__ import annotations

import re

_FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", flags=re.ASCII
)
_DAY_MS = 86_400_000
_LAST_MS = 253_402_300_799_000
"""The last second of the year 9999: later years have more than four digits."""


def rfc3339(wall_ms: int) -> str:
    """Return a time as Kubernetes writes it: UTC, whole seconds."""
    days, ms = divmod(min(max(wall_ms, 0), _LAST_MS), _DAY_MS)
    year, month, day = _date(days)
    hours, rest = divmod(ms // 1000, 3600)
    return f"{year:04}-{month:02}-{day:02}T{hours:02}:{rest // 60:02}:{rest % 60:02}Z"


def rfc3339_ms(wall_ms: int) -> str:
    """Return a time as `rfc3339` does, with milliseconds."""
    return f"{rfc3339(wall_ms)[:-1]}.{min(max(wall_ms, 0), _LAST_MS) % 1000:03}Z"


def ms_of(text: str | None) -> int | None:
    """Return milliseconds since 1970; `None` if the string is not a time, because a user may have edited it."""
    match = _FORM.fullmatch(text) if text else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        return None
    fraction_ms = int((match[7] or "0").ljust(3, "0")[:3])
    offset_s = (int(match[9]) * 3600 + int(match[10]) * 60) * (-1 if match[8] == "-" else 1) if match[8] else 0
    seconds = hour * 3600 + minute * 60 + second - offset_s
    return _days(year, month, day) * _DAY_MS + seconds * 1000 + fraction_ms


def _days(year: int, month: int, day: int) -> int:
    """Return days since 1970 in the Gregorian calendar. Years begin in March here, so that the leap day is the last day."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _date(days: int) -> tuple[int, int, int]:
    era, of_era = divmod(days + 719_468, 146_097)
    years = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return era * 400 + years + (month <= 2), month, day
