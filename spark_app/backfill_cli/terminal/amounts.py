"""Parser of rates, durations and sizes that users type."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from backfill import Settings

UNITS = {"": 1, "k": 1_000, "m": 1_000_000}
BYTE_UNITS = {"b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "": 1}
RATE_MAX_ROWS_PER_S = 1_000_000_000
RATE_MAX_BYTES_PER_S = 1_000_000_000_000
DURATION_MAX_S = 7 * 86_400
UNLIMITED = ("none", "unlimited", "off")
_DURATION, _DURATION_PART = re.compile(r"(?:[0-9]{1,9}[smhd])*(?:[0-9]{1,9})?"), re.compile(r"([0-9]{1,9})([smhd]?)")
_NUMBER = r"([0-9][0-9_,]{0,30}(?:\.[0-9]{1,30})?)"


def parse_rate(text: str) -> int | None:
    """Return rows a second: `200k`, `1.5M`, `0`; `none` is unlimited.

    Raises:
        ValueError: The rate is malformed, negative, or too large.
    """
    word = text.strip().lower()
    if word in UNLIMITED:
        return None
    match = re.fullmatch(rf"{_NUMBER}([km]?)", word)
    if match is None:
        raise ValueError(f"invalid rate {text!r}: write 50000, 200k, 1.5M, 0 or none")
    rate = round(_number(match[1]) * UNITS[match[2]])
    if rate > RATE_MAX_ROWS_PER_S:
        raise ValueError(f"{text!r} is above {RATE_MAX_ROWS_PER_S:,} rows/s; for no limit write none")
    return rate


def parse_byte_rate(text: str) -> int | None:
    """Return bytes a second: `50MB`, `1.5GB`, `800kB`, `0`; `none` is unlimited. Units are decimal, as those of networks.

    Raises:
        ValueError: The rate is malformed, negative, or too large.
    """
    word = text.strip().lower()
    if word in UNLIMITED:
        return None
    match = re.fullmatch(rf"{_NUMBER}(b|kb|mb|gb)?(?:/s)?", word)
    # A bare number could be meant in megabytes: only 0 is the same in each unit.
    if match is None or (match[2] is None and _number(match[1])):
        raise ValueError(f"invalid rate {text!r}: write 50MB, 1.5GB, 800kB, 0 or none")
    rate = round(_number(match[1]) * BYTE_UNITS[match[2] or "b"])
    if rate > RATE_MAX_BYTES_PER_S:
        raise ValueError(f"{text!r} is above 1 TB/s; for no limit write none")
    return rate


def _number(text: str) -> float:
    """Parse a number that matches `_NUMBER`; `_` or `,` may separate thousands."""
    return float(re.sub("[_,]", "", text))


def parse_duration_s(text: str) -> int:
    """Return seconds: `30m`, `90s`, `2h`, `1h30m`, `45`.

    Raises:
        ValueError: The duration is malformed, zero, or longer than a week.
    """
    word = text.strip().lower()
    parts = _DURATION_PART.findall(word) if _DURATION.fullmatch(word) else []
    sizes = [SECONDS[unit] for _, unit in parts]
    # 1h30m is one and a half hours; 30m1h and 1h30 could mean anything.
    falling = sizes == sorted(set(sizes), reverse=True) and (len(parts) == 1 or all(unit for _, unit in parts))
    seconds = sum(int(number) * size for (number, _), size in zip(parts, sizes, strict=True))
    if not falling or seconds == 0:
        raise ValueError(f"invalid duration {text!r}: write 90s, 30m, 2h or 1h30m")
    if seconds > DURATION_MAX_S:
        raise ValueError(f"{text!r} is more than a week; leave --for out to keep it")
    return seconds


def parse_until(text: str, now: datetime) -> datetime:
    """Return a future time of RFC 3339: `2026-11-26T18:00:00Z`, `2026-11-26T19:00+01:00`.

    Args:
        text: The time that a user typed.
        now: The current time, with a time zone.

    Raises:
        ValueError: The time is malformed, has no time zone, is past, or is more than a week away.
    """
    form = "write 2026-11-26T18:00:00Z, or give a duration with --for"
    try:
        until = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"invalid time {text!r}: {form}") from None
    if until.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: add Z for UTC, or an offset as +01:00")
    if until <= now:
        raise ValueError(f"{text!r} is past, it is {now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ} now: {form}")
    if until - now > timedelta(seconds=DURATION_MAX_S):
        raise ValueError(f"{text!r} is more than a week away; leave --until out to keep the limit")
    return until


def parse_memory(text: str) -> str:
    """Return a heap size in Java's notation: `4g`, `512m`.

    Raises:
        ValueError: The size is malformed.
    """
    try:
        return Settings(memory=text).memory
    except ValueError as error:
        raise ValueError(f"invalid memory size {text!r}: write 4g or 512m") from error
