"""Schedules of five fields, read as Kubernetes reads those of a CronJob.

field           values                      names
-------------   -------------------------   ----------
minute          0-59
hour            0-23
day of month    1-31
month           1-12                        jan to dec
day of week     0-7, both 0 and 7: Sunday   sun to sat

Each field is a list of `*`, `value` or `first-last`, each with an optional `/step`. If both day fields are restricted, either may match.
A time that a change of the clock skips does not exist. One that it repeats comes twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import product
from typing import Final
from zoneinfo import ZoneInfo

MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS: Final[tuple[tuple[str, int, int, tuple[str, ...]], ...]] = (
    ("minute", 0, 59, ()), ("hour", 0, 23, ()), ("day of month", 1, 31, ()), ("month", 1, 12, MONTHS), ("day of week", 0, 7, DAYS),
)  # fmt: skip
NAMED: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
DAYS_OF_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

DAYS_AHEAD_MAX: Final = 366 * 8 + 2
"""29 February may be eight years away, as around 2100."""

LAST_MS: Final = 253_370_764_800_000
"""Start of the year 9999; a calendar ends soon after it."""


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A parsed schedule."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""

    either_day: bool
    """True if both day fields are restricted, so that a day must match only one of them."""

    def next_after_ms(self, now_ms: int, zone: tzinfo) -> int | None:
        """Return the first time of the schedule after a time, in milliseconds since 1970; `None` if the calendar ends before it."""
        at_s = (now_ms // 60_000 + 1) * 60
        while at_s * 1000 < LAST_MS:
            local = datetime.fromtimestamp(at_s, zone)
            wait_s = self._wait_s(local)
            if wait_s == 0:
                return at_s * 1000
            at_s += wait_s
        return None

    def _wait_s(self, local: datetime) -> int:
        """Return 0 if a local time matches, else seconds in which no time matches, whatever the clock does meanwhile."""
        days = self._days_ahead(local.date())
        if days > 2:
            return (days - 2) * 86_400
        later = [minute for minute in self.minutes if minute >= local.minute]
        if days or local.hour not in self.hours or not later:
            return (60 - local.minute) * 60
        return (min(later) - local.minute) * 60

    def _days_ahead(self, first: date) -> int:
        for days in range(DAYS_AHEAD_MAX):
            if self.matches_day(first + timedelta(days=days)):
                return days
        return DAYS_AHEAD_MAX

    def matches_day(self, day: date) -> bool:
        """Return whether the schedule has times on a day."""
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_day or by_weekday if self.either_day else by_day and by_weekday


@lru_cache(maxsize=1024)
def parse_schedule(text: str) -> CronSchedule:
    """Read a schedule.

    Raises:
        ValueError: The message names the field and its text.
    """
    fields = NAMED.get(text.strip().lower(), text).split()
    if len(fields) != len(FIELDS):
        raise ValueError(f"has {len(fields)} fields, and a schedule has {len(FIELDS)}")
    minutes, hours, days, months, weekdays = (
        _values(field, *limits) for field, limits in zip(fields, FIELDS, strict=True)
    )
    any_day, any_weekday = (_is_any(fields[number]) for number in (2, 4))
    if any_weekday and not any(day <= DAYS_OF_MONTH[month - 1] for month, day in product(months, days)):
        raise ValueError(f"names no day that exists: day {fields[2]} of month {fields[3]}")
    week = frozenset(day % 7 for day in weekdays)
    return CronSchedule(minutes, hours, days, months, week, either_day=not (any_day or any_weekday))


@lru_cache(maxsize=256)
def zone_named(name: str) -> tzinfo:
    """Return the time zone of a name of the IANA database, such as `Europe/Berlin`.

    Raises:
        ValueError: The database has no such name.
    """
    if name in ("UTC", "Etc/UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # a folder of the database raises an OSError
        raise ValueError("is not in the time zone database") from error


def _is_any(field: str) -> bool:
    """Return whether a field restricts nothing. As for a CronJob, `*/2` restricts."""
    return any(part in ("*", "?", "*/1", "?/1") for part in field.split(","))


def _values(text: str, field: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(field, text, step_text, 1, high) if slash else 1
        if span in ("*", "?"):
            first, last = low, high
        else:
            start, dash, stop = span.partition("-")
            first = _number(field, text, start, low, high, names)
            last = _number(field, text, stop, low, high, names) if dash else (high if slash else first)
        if last < first:
            raise ValueError(f"{field} {text!r} has the range {span}, which ends before it begins")
        values |= set(range(first, last + 1, step))
    return frozenset(values)


def _number(field: str, text: str, value: str, low: int, high: int, names: tuple[str, ...] = ()) -> int:
    if value.lower() in names:
        return names.index(value.lower()) + low
    if not (value.isascii() and value.isdigit()) or not low <= int(value[:4]) <= high:
        raise ValueError(f"{field} {text!r} has {value!r}, which is no number from {low} to {high}")
    return int(value[:4])
