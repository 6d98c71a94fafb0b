"""Readable counts and durations: one format for statuses, warnings, errors and the terminal."""

from __future__ import annotations

import re


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, `noun` in the singular: `1 file`, `2,000 files`."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the regular plural of a noun."""
    if noun.endswith("y") and noun[-2:-1] not in {"a", "e", "o"}:
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def show_seconds(seconds: int) -> str:
    """Return a duration in its two largest units."""
    for size, name, small, small_name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // small
            return f"{seconds // size} {name} {rest} {small_name}" if rest else f"{seconds // size} {name}"
    return f"{seconds} s"


_WITH_UNIT = re.compile(r"([0-9][0-9_,]{0,30}(?:\.[0-9]{1,30})?) ?([a-z]{0,3})(?:/s)?")
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9}


def whole_number(text: str, field: str) -> int | None:
    """Return the number that a user meant who wrote a unit, as `200k`; `None` if it is none, or no whole one.

    Args:
        text: The value.
        field: Name of its field: it ends with `Seconds` or `Ms` if it is a duration.
    """
    match = _WITH_UNIT.fullmatch(text.strip().lower())
    if match is None:
        return None
    number, unit = float(re.sub("[_,]", "", match[1])), match[2]
    if field.endswith("Seconds") or (field.endswith("Ms") and unit):
        size = _SECONDS.get(unit, 0.0) * (1000 if field.endswith("Ms") else 1)
    else:
        size = _COUNTS.get(unit, 0.0)
    amount = number * size
    return round(amount) if size and amount == round(amount) else None
