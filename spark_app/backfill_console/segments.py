"""Lines of a block: segments of text, each with a role that a renderer turns into a colour."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["plain", "strong", "dim", "good", "warn", "bad", "done", "partial", "open", "spark", "rule"]
"""Meaning of a segment. No fact depends on it: a symbol or a word says the same."""

MORE = "…"
PARTS = re.compile(r", | \(| until |; ")
"""Separators after which a value may end."""

NAME_MIN = 8
"""Minimum of characters that identify a name."""

ASCII = str.maketrans("█▒·░▓─│├└□◇▶‖■✔✖◌→⟳…▁▂▃▄▅▆▇–≈×", "#+.:%-||`o*>=-+xo>@~__..--=-~x")
NOT_ASCII = re.compile(r"[^\x20-\x7e]")


@dataclass(frozen=True)
class Segment:
    """A part of a line."""

    text: str
    role: Role = "plain"


@dataclass(frozen=True)
class Line:
    """A line of a block."""

    segments: tuple[Segment, ...]

    @property
    def text(self) -> str:
        """Return the text without roles."""
        return "".join(segment.text for segment in self.segments)

    @property
    def width(self) -> int:
        """Return the columns that it takes."""
        return width_of(self.text)


def line(*parts: Segment | str) -> Line:
    """Return a line of segments; a string is a segment without a role."""
    segments = (Segment(part) if isinstance(part, str) else part for part in parts)
    return Line(tuple(segment for segment in segments if segment.text))


def ascii_line(shown: Line) -> Line:
    """Return a line of the same width in ASCII."""
    return Line(tuple(Segment(_ascii(segment.text), segment.role) for segment in shown.segments))


def _ascii(text: str) -> str:
    return NOT_ASCII.sub(lambda match: "?" * width_of(match[0]), text.translate(ASCII))


def width_of(text: str) -> int:
    """Return the columns that a string takes on a terminal: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def cut(text: str, columns: int) -> str:
    """Return the part of a string that fits, with an ellipsis if it is not whole."""
    if width_of(text) <= columns:
        return text
    return _head(text, max(0, columns - 1)) + (MORE if columns > 0 else "")


def cut_at_word(text: str, columns: int) -> str:
    """Return a string, cut after the last word that fits."""
    if width_of(text) <= columns:
        return text
    end = _head(text, columns - 1).rfind(" ")
    return f"{text[:end]} {MORE}" if end > 0 else cut(text, columns)


def clipped(shown: Line, columns: int) -> Line:
    """Return a line that fits; a line that does not ends with an ellipsis."""
    if shown.width <= columns:
        return shown
    segments: list[Segment] = []
    left = columns
    for segment in shown.segments:
        segments.append(Segment(cut(segment.text, left), segment.role))
        left -= width_of(segments[-1].text)
        if segments[-1].text != segment.text:
            break
    return line(*segments)


def whole_parts(value: str, columns: int) -> str:
    """Return a value, cut after the last part that fits: a cut number would be another number."""
    ends = [part.start() for part in PARTS.finditer(value) if not _inside(value[: part.start()])]
    fitting = [end for end in ends if width_of(value[:end]) <= columns]
    if width_of(value) <= columns or not fitting:
        return cut_at_word(value, columns)
    return value[: fitting[-1]]


def _inside(text: str) -> bool:
    """Return whether a string ends inside parentheses."""
    return text.count("(") > text.count(")")


def wrapped(text: str, columns: int) -> list[str]:
    """Return a string in lines, broken between words; a word that is too long is broken."""
    lines, rest = [], text.strip()
    while width_of(rest) > columns:
        space = _head(rest, columns + 1).rfind(" ")
        end = space if space > 0 else max(1, len(_head(rest, columns)))
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return [*lines, rest]


def joined(parts: Sequence[Segment], gap: str) -> list[Segment]:
    """Return segments with a gap between them."""
    return [each for part in parts for each in (Segment(gap), part)][1:]


def spread(left: Iterable[Segment], right: Iterable[Segment], columns: int) -> Line:
    """Return a line with a left part, and a right part at its end if both fit."""
    begin, end = line(*left), line(*right)
    gap = columns - begin.width - end.width
    if not end.segments or gap < 2:
        return begin
    return Line((*begin.segments, Segment(" " * gap), *end.segments))


def _head(text: str, columns: int) -> str:
    """Return the longest beginning of a string that fits."""
    used = 0
    for index, character in enumerate(text):
        used += _columns(character)
        if used > columns:
            return text[:index]
    return text
