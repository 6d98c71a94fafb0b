"""Statistics of a data file in its `add` action: JSON of any writer. A malformed part counts as absent."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Self

ROWS_MAX: Final = 2**40
"""Largest plausible row count of one file; a larger count is ignored, so that the rows are counted."""

_COUNT_FIRST: Final = re.compile(r'\{"numRecords":(\d{1,19})[,}]')
"""Beginning of statistics that begin with the row count."""


@dataclass(frozen=True, slots=True)
class LoggedStatistics:
    """Statistics by physical names; numbers are exact."""

    rows: int | None = None
    """Row count including deleted rows; `None` if the log has no count."""

    smallest: Mapping[str, Any] = field(default_factory=dict)
    largest: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, Any] = field(default_factory=dict)
    """Null counts; a mapping for a struct."""

    @classmethod
    def of(cls, text: str | None) -> Self:
        """Read the field `stats` of an action."""
        try:
            # A float would round decimals, and integers beyond 2^53.
            statistics = json.loads(text or "{}", parse_float=Decimal)
        except (ValueError, RecursionError):
            statistics = {}
        statistics = statistics if isinstance(statistics, dict) else {}
        values = (statistics.get(name) for name in ("minValues", "maxValues", "nullCount"))
        smallest, largest, nulls = (value if isinstance(value, dict) else {} for value in values)
        return cls(_count(statistics.get("numRecords")), smallest, largest, nulls)

    @classmethod
    def of_rows(cls, text: str | None) -> Self:
        """Read the row count, and the rest only if the count is not first, as Delta and Kernel write it."""
        # The rest is a kilobyte per file, and a table may have a million files.
        first = _COUNT_FIRST.match(text or "")
        return cls.of(text) if first is None else cls(_count(int(first[1])))

    def null_count(self, column: str) -> int | None:
        """Return the null count of a top-level column, including deleted rows; `None` if the log has no count."""
        return _count(self.nulls.get(column))


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= ROWS_MAX else None
