"""Text for a narrow terminal: whole words and whole facts, instead of half of the last one."""

from __future__ import annotations

import re
from collections.abc import Sequence

MORE = "…"
PARTS = re.compile(r", | \(| until |; ")
"""Separators after which a value may end."""

NAME_MIN = 8
"""Minimum of characters that identify a name."""


def cut_at_word(text: str, columns: int) -> str:
    """Return a string, cut after the last word that fits."""
    if len(text) <= columns:
        return text
    end = text.rfind(" ", 0, columns - 1)
    return f"{text[:end]} {MORE}" if end > 0 else text[: columns - 1] + MORE


def whole_parts(value: str, columns: int) -> str:
    """Return a value, cut after the last part that fits: a cut number would be another number."""
    ends = [part.start() for part in PARTS.finditer(value)]
    fitting = [end for end in ends if end <= columns]
    if len(value) <= columns or not fitting:
        return cut_at_word(value, columns)
    return value[: fitting[-1]]


def title_parts(name: str, attempt: str, phase: str, elapsed: str, columns: int) -> Sequence[str]:
    """Return the parts of a title that fit, two spaces apart; the name and the phase are dropped last."""
    for parts in ((name, attempt, phase, elapsed), (name, attempt, phase), (name, phase)):
        given = [part for part in parts if part]
        if len("  ".join(given)) <= columns:
            return given
    room = columns - len(phase) - 2
    if room >= NAME_MIN:
        return (name[: room - 1] + MORE, phase)
    return (name if len(name) <= columns else name[: columns - 1] + MORE,)
