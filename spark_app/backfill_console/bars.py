"""Bars, sparklines and grids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from backfill_console.segments import Role, Segment

DONE, PARTIAL, OPEN = "█", "▒", "·"
SHADES = "·░▒▓█"
LEVELS = "▁▂▃▄▅▆▇"
MAP_COLUMNS = 16
EQUAL, DIFFERENT = "■", "×"


def bar(done: float, columns: int) -> list[Segment]:
    """Return a bar of which a part from 0 to 1 is done; it is full only if all is done, and empty only if nothing is."""
    cells = int(done * columns)
    started = 0 < done < 1 and cells < columns
    segments = (
        Segment(DONE * cells, "done"),
        Segment(PARTIAL if started else "", "partial"),
        Segment(OPEN * (columns - cells - started), "open"),
    )
    return [segment for segment in segments if segment.text]


def grid_cells(grid: Sequence[int]) -> list[Segment]:
    """Return the parts of the snapshot, a character each."""
    roles: Sequence[Role] = ["open" if cell <= 0 else "done" if cell >= 100 else "partial" for cell in grid]
    cells = groupby(zip(show_grid(grid), roles, strict=True), key=lambda cell: cell[1])
    return [Segment("".join(shade for shade, _ in run), role) for role, run in cells]


def show_grid(grid: Sequence[int]) -> str:
    """Return one character for each part of the snapshot; the lightest shade means any row, a full block all rows."""
    return "".join(SHADES[0 if cell <= 0 else 4 if cell >= 100 else 1 + cell * 3 // 100] for cell in grid)


def sparkline(samples: Sequence[int], columns: int) -> str:
    """Return the newest samples, a character each, in relation to the largest; empty with fewer than two, or for zeros."""
    newest = samples[-columns:] if columns > 0 else ()
    largest = max(newest, default=0)
    if len(newest) < 2 or largest <= 0:
        return ""
    return "".join(LEVELS[sample * (len(LEVELS) - 1) // largest] for sample in newest)


def vnode_map(digits: str) -> list[str]:
    """Return the map of a receipt's vnodes, given as hexadecimal digits, in rows of 16 cells; a bit that is set differs."""
    bits = f"{int(digits, 16):0{4 * len(digits)}b}" if digits else ""
    cells = "".join(DIFFERENT if bit == "1" else EQUAL for bit in bits)
    return [cells[start : start + MAP_COLUMNS] for start in range(0, len(cells), MAP_COLUMNS)]
