"""Statistics of a data file, as its `add` action stores them: JSON of any writer. What has not the form of Delta counts as absent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Self

ROWS_MAX: Final = 2**40
"""Of one file; a larger count is none, so that the rows are counted."""


@dataclass(frozen=True, slots=True)
class LoggedStatistics:
    """Statistics by physical names; numbers are exact."""

    rows: int | None = None
    """Deleted ones included; `None` if the log has no count."""

    smallest: Mapping[str, Any] = field(default_factory=dict)
    largest: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, Any] = field(default_factory=dict)
    """Counts of nulls; of a struct a mapping."""

    @classmethod
    def of(cls, text: str | None) -> Self:
        """Read the field `stats` of an action."""
        try:
            # A float would round a decimal, and a whole number beyond 2^53.
            found = json.loads(text or "{}", parse_float=Decimal)
        except (ValueError, RecursionError):
            found = {}
        found = found if isinstance(found, dict) else {}
        values = (found.get(name) for name in ("minValues", "maxValues", "nullCount"))
        smallest, largest, nulls = (value if isinstance(value, dict) else {} for value in values)
        return cls(_count(found.get("numRecords")), smallest, largest, nulls)

    def null_count(self, column: str) -> int | None:
        """Return the nulls of a top-level column, deleted rows included; `None` if the log has no count."""
        return _count(self.nulls.get(column))


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= ROWS_MAX else None
