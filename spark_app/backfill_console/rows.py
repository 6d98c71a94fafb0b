"""Names and values in two columns, of which long values wrap; and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backfill_api.plain_text import printable
from backfill_console.segments import MORE, Line, Role, Segment, cut, line, width_of, wrapped

NAME_COLUMNS_MIN = 9
VALUE_MIN = 10
LAST_COLUMNS_MIN = 20


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


def aligned(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    columns: int | None = None,
    right: frozenset[str] = frozenset(),
    ascii_only: bool = False,
) -> list[str]:
    """Return the lines of a table.

    Args:
        headings: Headings of the columns.
        rows: Cells of each row.
        columns: Width of the screen, for which the last column is cut; `None` for no limit.
        right: Headings of columns that are aligned to the right.
        ascii_only: Mark a cut with three points.
    """
    cells = [[printable(cell).strip() for cell in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(headings[:-1], *(row[:-1] for row in cells), strict=True)]
    room = None if columns is None else max(LAST_COLUMNS_MIN, columns - sum(width + 2 for width in widths))
    lines = []
    for row in ([*headings], *cells):
        shown = []
        for cell, width, heading in zip(row[:-1], widths, headings[:-1], strict=True):
            gap = " " * (width - width_of(cell))
            shown.append(gap + cell if heading in right else cell + gap)
        lines.append("  ".join([*shown, _cut(row[-1], room, ascii_only=ascii_only)]).rstrip())
    return lines


def _cut(text: str, columns: int | None, *, ascii_only: bool) -> str:
    if columns is None or width_of(text) <= columns:
        return text
    return cut(text, columns - 2).replace(MORE, "...") if ascii_only else cut(text, columns)
