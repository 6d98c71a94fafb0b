"""Rates and durations as people type them."""

from __future__ import annotations

import re

UNITS = {"": 1, "k": 1_000, "m": 1_000_000}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "": 1}


def parse_rate(text: str) -> int | None:
    """Return rows a second: `200k`, `1.5M`, `0`; `none` is unlimited.

    Raises:
        ValueError: it is no such thing, or negative.
    """
    if text.strip().lower() in ("none", "unlimited", "off"):
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([km]?)", text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is no rate; write 50000, 200k, 1.5M, 0 or none")
    return round(float(match[1]) * UNITS[match[2]])


def parse_duration_s(text: str) -> int:
    """Return seconds: `30m`, `90s`, `2h`, `45`.

    Raises:
        ValueError: it is no such thing, or nothing.
    """
    match = re.fullmatch(r"(\d+)([smhd]?)", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is no duration; write 90s, 30m or 2h")
    return int(match[1]) * SECONDS[match[2]]


def show_rows(count: int) -> str:
    """Return a count with thousands marked."""
    return f"{count:,}".replace(",", "\u202f") if count >= 10_000 else str(count)


def show_seconds(seconds: int) -> str:
    """Return a duration in its two largest units."""
    for size, name, small, small_name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size} {name} {seconds % size // small} {small_name}"
    return f"{seconds} s"
