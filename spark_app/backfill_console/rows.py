"""Names and values in two columns; long values wrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backfill_api.plain_text import printable
from backfill_console.segments import Line, Role, Segment, line, width_of, wrapped

NAME_COLUMNS_MIN = 9
VALUE_MIN = 10


@dataclass(frozen=True)
class Row:
    """A name and its value; an empty name continues the row above."""

    name: str
    value: str = ""
    role: Role = "plain"
    bar: tuple[Segment, ...] = ()
    """Segments instead of a value."""


def named_lines(rows: Sequence[Row], columns: int) -> list[Line]:
    """Return the rows in lines, with all values in one column; nothing is cut off."""
    names = max([NAME_COLUMNS_MIN, *(width_of(printable(row.name)) + 2 for row in rows)])
    room = max(VALUE_MIN, columns - names)
    lines = []
    for row in rows:
        name = printable(row.name)
        name += " " * (names - width_of(name))
        values = [row.bar] if row.bar else [(Segment(text, row.role),) for text in _lines(row.value, room)]
        lines += [line(Segment(" " * names if at else name, "dim"), *value) for at, value in enumerate(values)]
    return lines


def _lines(value: str, columns: int) -> list[str]:
    """Return a value in lines; an indented value stays indented."""
    text = printable(value)
    indent = " " * (len(text) - len(text.lstrip()))
    return [indent + part for part in wrapped(text, max(1, columns - len(indent)))]
