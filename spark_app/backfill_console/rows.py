"""Names and values in two columns; long values wrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backfill_console.segments import Line, Role, Segment, line, printable, width_of, wrapped

NAME_COLUMNS_MIN = 9
VALUE_MIN = 10


@dataclass(frozen=True)
class Row:
    """A name and its value; an empty name continues the row above."""

    name: str
    value: str
    role: Role = "plain"


def named_lines(rows: Sequence[Row], columns: int) -> list[Line]:
    """Return the rows in lines, with all values in one column; nothing is cut off."""
    names = max([NAME_COLUMNS_MIN, *(width_of(printable(row.name)) + 2 for row in rows)])
    room = max(VALUE_MIN, columns - names)
    return [
        line(Segment(name + " " * (names - width_of(name)), "dim"), Segment(text, row.role))
        for row in rows
        for number, text in enumerate(_lines(row.value, room))
        for name in ["" if number else printable(row.name)]
    ]


def _lines(value: str, columns: int) -> list[str]:
    """Return a value in lines; an indented value stays indented."""
    text = printable(value)
    indent = " " * (len(text) - len(text.lstrip()))
    return [indent + part for part in wrapped(text, max(1, columns - len(indent)))]
