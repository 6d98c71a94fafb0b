"""Result of a repair."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.status import receipt as api
from backfill_core.protocol.receipt import DifferenceCounts


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repair that was made, or only counted."""

    path: str
    before: api.Receipt
    """Receipt before the repair."""

    receipt: api.Receipt
    """Receipt after the repair; the same as `before` if nothing was written."""

    version: int | None
    """Version of the target that contains the repair; `None` if nothing was repaired."""

    rows: DifferenceCounts
    """Rows that differ one by one; rows of copied files are not among them."""

    files_copied: int
    """Files of the source that are copied again."""

    bytes_copied: int
    files_removed: int
    """Files of the target that are replaced or removed."""

    finished: bool
    """True if the job has ended, so that it needs no further run."""
