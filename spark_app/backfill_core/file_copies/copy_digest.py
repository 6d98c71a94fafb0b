"""Digest of a copied file, stored as a tag of its `add` action, so that the job's state needs no list of files.

Kernel, Spark and delta-rs keep the tags of a file whose deletion vector changes. OPTIMIZE writes new files without tags.
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
    """Digest of one file that was copied whole."""

    bytes: str
    """CRC-32C of its bytes, hexadecimal."""

    statistics: str
    """Digest of the statistics that were logged with the copy; see `statistics_digest`."""

    @property
    def tags(self) -> dict[str, str]:
        """Return the tags of the `add` action."""
        return {TAG: f"{ALGORITHM}:{self.bytes}:{self.statistics}"}

    @classmethod
    def of_tags(cls, tags: Mapping[str, str | None] | None) -> Self | None:
        """Parse the tags of an `add` action; `None` if they have no digest, or an unknown algorithm."""
        algorithm, *rest = ((tags or {}).get(TAG) or "").split(":")
        return cls(*rest) if algorithm == ALGORITHM and len(rest) == 2 else None


def statistics_digest(statistics: str | None) -> str:
    """Return a digest of statistics in the log's format, JSON.

    It ignores field order, whitespace and `tightBounds`: a deletion vector changes `tightBounds`.
    """
    try:
        values = json.loads(statistics or "{}", parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        values = statistics  # the job writes valid JSON: another writer's statistics
    if isinstance(values, dict):
        values.pop("tightBounds", None)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:_STATISTICS_DIGITS]
