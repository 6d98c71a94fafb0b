"""Claims of jobs to columns of a live table: one transaction id a column, so that the table needs no feature for them.

version    meaning
--------   -------------------------------------------
even       the last job that claimed the column ended
odd        a job fills it; the other bits name the job
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final

START: Final = "backfill-fills-"
"""Start of the transaction ids of columns."""

HASH_DIGITS: Final = 12
"""Hexadecimal digits of a job in a version, which has 64 bits."""


@dataclass(frozen=True, slots=True)
class ColumnClaims:
    """Claims of one job."""

    job_hash: str
    """Hexadecimal hash of the job, `HASH_DIGITS` long at least."""

    columns: tuple[str, ...]

    def ids(self) -> dict[str, str]:
        """Return the columns by their transaction ids; Delta compares names of columns without case."""
        return {START + hashlib.sha256(name.lower().encode()).hexdigest()[:HASH_DIGITS]: name for name in self.columns}

    def version(self, *, ended: bool) -> int:
        """Return the transaction version with which the job claims its columns, or ends its claims."""
        return int(self.job_hash[:HASH_DIGITS], 16) << 1 | (not ended)

    def is_foreign(self, version: int | None) -> bool:
        """Return True if a transaction version is the claim of another job that has not ended."""
        return version is not None and version % 2 == 1 and version != self.version(ended=False)

    def lines(self, *, ended: bool, now_ms: int) -> list[str]:
        """Return the actions of a commit that claims the columns, or ends the claims."""
        version = self.version(ended=ended)
        return [json.dumps({"txn": {"appId": name, "version": version, "lastUpdated": now_ms}}) for name in self.ids()]
