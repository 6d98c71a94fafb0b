"""Bounded form of the done rows of the row index: files that were read in another order leave many gaps."""

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
"""Most files for which a bitmap is stored: it takes 43 KiB of the 64 KiB of a state."""

SPANS_MAX = 2000
"""Most spans of a stored interval set: they take 48 KiB."""


@dataclass(frozen=True, slots=True)
class DoneFiles:
    """A set of rows: one bit per file that is completely in it, and intervals of the other files."""

    bits: bytes
    """File `n` is the bit `n % 8`, the lowest first, of byte `n // 8`."""

    parts: IntervalSet

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return {"files": base64.b64encode(self.bits).decode(), "parts": self.parts.to_json()}


Done = IntervalSet | DoneFiles


def bounded(done: IntervalSet, rows: Sequence[int]) -> Done:
    """Return the form that is stored: intervals if there are few of them; `rows` has the rows of each file in path order."""
    if len(done) <= SPANS_MAX or len(rows) > FILES_MAX:
        return done
    offsets = [0, *accumulate(rows)]
    bits = bytearray(-(-len(rows) // 8))
    parts: list[tuple[int, int]] = []
    for start, stop in done.spans:
        for span in file_ranges(offsets, start, stop):
            if span.whole:
                bits[span.file // 8] |= 1 << span.file % 8
            else:
                parts.append((offsets[span.file] + span.start, offsets[span.file] + span.stop))
    return DoneFiles(bytes(bits), IntervalSet.of(parts))


def in_row_index(done: Done, rows: Sequence[int]) -> IntervalSet:
    """Return the done rows as intervals of the row index; `rows` has the rows of each file in path order.

    Raises:
        StateMismatchError: the state contains another number of files.
    """
    if isinstance(done, IntervalSet):
        return done
    if len(done.bits) != -(-len(rows) // 8):
        raise StateMismatchError(
            f"the target's state describes up to {8 * len(done.bits)} files, but the source has {len(rows)}.",
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
