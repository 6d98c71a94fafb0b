"""The map of vnodes in a receipt."""

from __future__ import annotations

from typing import Final

EQUAL: Final = "■"
DIFFERENT: Final = "×"
MAP_COLUMNS: Final = 16
BITS_OF_DIGIT: Final = 4


def mismatch_rows(digits: str) -> list[str]:
    """Return a map of hexadecimal digits as rows of 16 cells; the highest bit of the first digit is the first cell."""
    bits = "".join(f"{int(digit, 16):0{BITS_OF_DIGIT}b}" for digit in digits)
    drawn = "".join(DIFFERENT if bit == "1" else EQUAL for bit in bits)
    return [drawn[start : start + MAP_COLUMNS] for start in range(0, len(drawn), MAP_COLUMNS)]


def legend_of_map(digits: str) -> str:
    """Return the legend of a map."""
    cells = sum(int(digit, 16).bit_count() for digit in digits)
    return f"{EQUAL} equal  {DIFFERENT} differs ({cells} of {len(digits) * BITS_OF_DIGIT} groups of vnodes)"
