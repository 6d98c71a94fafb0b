"""What the `add` action of a copy says of the bytes that were read from the source: a tag, so that no state has a list of files.

Kernel, Spark and delta-rs keep the tags of a file that gets another deletion vector. An OPTIMIZE writes other files, which have none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

TAG = "backfill.copied"
ALGORITHM = "crc32c"
_STATISTICS_DIGITS = 16


@dataclass(frozen=True, slots=True)
class CopyDigest:
    """Of one file that was copied whole."""

    bytes: str
    """CRC-32C of its bytes, hexadecimal."""

    statistics: str
    """Of the statistics that the copy was logged with; see `statistics_digest`."""

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the `add` action."""
        return {TAG: f"{ALGORITHM}:{self.bytes}:{self.statistics}"}

    @classmethod
    def of_tags(cls, tags: Mapping[str, str | None] | None) -> Self | None:
        """Read the tags of an `add` action; None: they tell nothing, or in a way that this release does not know."""
        algorithm, *rest = ((tags or {}).get(TAG) or "").split(":")
        return cls(*rest) if algorithm == ALGORITHM and len(rest) == 2 else None


def statistics_digest(statistics: str | None) -> str:
    """Return a digest of statistics, which have the form of the log: JSON.

    The order of fields and spaces are none of it, nor is whether bounds are tight: a deletion vector changes that.
    """
    try:
        values = json.loads(statistics or "{}", parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        values = statistics  # another writer's: none that the job gave
    if isinstance(values, dict):
        values.pop("tightBounds", None)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:_STATISTICS_DIGITS]
