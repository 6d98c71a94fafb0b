"""What is done of the row index in a bounded form: files that were read in another order leave many gaps."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from backfill_core.errors import StateMismatchError
from backfill_core.positions.file_ranges import file_ranges
from backfill_core.positions.intervals import IntervalSet

FILES_MAX = 1 << 18
"""Files that a bitmap of 43 KiB tells; a state has 64 KiB."""

SPANS_MAX = 2000
"""Spans of an interval set of 48 KiB."""


@dataclass(frozen=True, slots=True)
class DoneFiles:
    """A set of rows as a bit for each file that is whole in it, and the intervals of the other files."""

    bits: bytes
    """File `n` is the bit `n % 8`, the lowest first, of byte `n // 8`."""

    parts: IntervalSet

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return {"files": base64.b64encode(self.bits).decode(), "parts": self.parts.to_json()}


Done = IntervalSet | DoneFiles


def bounded(done: IntervalSet, rows: Sequence[int]) -> Done:
    """Return the form that is stored: intervals while they are few; `rows` are those of each file in path order."""
    if len(done) <= SPANS_MAX or len(rows) > FILES_MAX:
        return done
    offsets = [0, *accumulate(rows)]
    bits = bytearray(-(-len(rows) // 8))
    parts: list[tuple[int, int]] = []
    for start, stop in done.spans:
        for one in file_ranges(offsets, start, stop):
            if one.whole:
                bits[one.file // 8] |= 1 << one.file % 8
            else:
                parts.append((offsets[one.file] + one.start, offsets[one.file] + one.stop))
    return DoneFiles(bytes(bits), IntervalSet.of(parts))


def in_row_index(done: Done, rows: Sequence[int]) -> IntervalSet:
    """Return what is done as intervals of the row index; `rows` are those of each file in path order.

    Raises:
        StateMismatchError: it tells of another number of files.
    """
    if isinstance(done, IntervalSet):
        return done
    if len(done.bits) != -(-len(rows) // 8):
        raise StateMismatchError(
            f"the target's state tells of {8 * len(done.bits)} files, the source has {len(rows)}.",
            hint="Use another target.",
        )
    offsets = [0, *accumulate(rows)]
    whole = [file for file in range(len(rows)) if done.bits[file // 8] >> file % 8 & 1]
    return IntervalSet.of([*((offsets[file], offsets[file + 1]) for file in whole), *done.parts.spans])


def from_json(value: Any) -> Done:
    """Read either stored form.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(value, dict):
        return IntervalSet.from_json(value)
    try:
        bits = base64.b64decode(value["files"], validate=True)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no files: {value!r}"[:200]) from error
    return DoneFiles(bits, IntervalSet.from_json(value.get("parts")))
