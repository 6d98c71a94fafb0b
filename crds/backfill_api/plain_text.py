"""Strings of users and of other programs, as one line that cannot control a terminal."""

from __future__ import annotations

import unicodedata
from itertools import groupby
from typing import Final

CONTROLS: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Categories of characters that move the cursor, break the line, reverse the text after them, or are invisible."""

JOINERS: Final = frozenset("\u200c\u200d")
"""Invisible characters that letters and emoji of some languages need."""


def printable(text: str) -> str:
    """Return a string in one line; a blank replaces each run of characters that control a terminal."""
    if text.isprintable():
        return text
    return "".join(" " if controls else "".join(run) for controls, run in groupby(text, _controls))


def _controls(character: str) -> bool:
    return unicodedata.category(character) in CONTROLS and character not in JOINERS
