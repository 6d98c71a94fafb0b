"""Finished part of the snapshot as a row of equal cells: a list of percents in a driver's report, one text in a status.

Both are named `grid` and mean the same. Programs read the list since the first version, so it stays. A status is stored and
watched, and a list of 64 numbers is four times as long there as 64 digits. In Python both are percents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from backfill_api.spec.bounds import Percent

GRID_CELLS_MAX: Final = 64
_FULL: Final = 15
_DIGITS: Final = "0123456789abcdef"
_PATTERN: Final = r"^([0-9a-f]{64})?$"


def grid_digits(percents: Sequence[int]) -> str:
    """Return a grid as 64 hexadecimal digits, or as an empty text without cells.

    `0`: nothing of the cell is committed. `f`: all of it. `1` to `e`: a part. Fewer cells than 64 are stretched.
    """
    if not percents:
        return ""
    cells = (percents[index * len(percents) // GRID_CELLS_MAX] for index in range(GRID_CELLS_MAX))
    return "".join(_DIGITS[_level(percent)] for percent in cells)


def grid_percents(digits: str) -> tuple[int, ...]:
    """Return the lowest percents that `grid_digits` writes as these digits.

    Raises:
        ValueError: a character is not a lowercase hexadecimal digit.
    """
    return tuple(-(-_DIGITS.index(digit) * 100 // _FULL) for digit in digits)


def rounded_grid(percents: Sequence[int]) -> tuple[int, ...]:
    """Return the grid that a status has after it is written and read."""
    return grid_percents(grid_digits(percents))


def _level(percent: int) -> int:
    if percent <= 0:
        return 0
    return _FULL if percent >= 100 else max(1, percent * _FULL // 100)


def _read(value: Any) -> Any:
    return grid_percents(value) if isinstance(value, str) and len(value) in (0, GRID_CELLS_MAX) else value


Grid = Annotated[tuple[Percent, ...], Field(max_length=GRID_CELLS_MAX), BeforeValidator(_read)]
"""Percents, as a driver reports them; the digits of a status are read too."""

GridDigits = Annotated[
    Grid,
    AfterValidator(rounded_grid),
    PlainSerializer(grid_digits, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "maxLength": GRID_CELLS_MAX, "pattern": _PATTERN}),
]
"""Percents that a document has as 64 hexadecimal digits."""
