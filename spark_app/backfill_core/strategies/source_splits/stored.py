"""What SourceSplits stores in the target: a typed value, and its JSON form.

The promise of a stored state: of each partition the target holds the records at the offsets that `Split.held` names, each once (R-SRC-40).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import OpenRequest, StoredSummary, Subscribe
from backfill_core.strategies.source_splits.packed import pack, unpack
from backfill_core.strategies.source_splits.split import BACKFILLING, Split

HISTORY, CATCH_UP, LIVE = "History", "CatchUp", "Live"
PHASES = (HISTORY, CATCH_UP, LIVE)

READABLE_MAX = 100
"""Partitions that are stored as semantics 2.4 shows them, 0.2 KiB each; more are packed."""


@dataclass(frozen=True, slots=True)
class SourceSplitsStored:
    """Everything that a new attempt needs; a partition is never forgotten."""

    source_id: str
    phase: str
    splits: Mapping[str, Split]
    """By the name of the partition."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        head = {"sourceId": self.source_id, "phase": self.phase}
        if len(self.splits) > READABLE_MAX:
            return head | {"packed": pack(self.splits)}
        return head | {
            "splits": {name: one.to_json() for name, one in self.splits.items()},
            "starts": {name: one.start for name, one in self.splits.items()},
            "live": {name: one.live for name, one in self.splits.items()},
        }


def decode(value: Mapping[str, Any]) -> SourceSplitsStored:
    """Read what `SourceSplitsStored.encode` returned.

    Raises:
        StateMismatchError: names the first field that does not fit.
    """
    fields = StoredFields("sourceSplits", value)
    return SourceSplitsStored(
        source_id=fields.typed("sourceId", str),
        phase=fields.one_of("phase", PHASES),
        splits=fields.parsed("packed", unpack) if "packed" in value else _readable(fields),
    )


def _readable(fields: StoredFields) -> Mapping[str, Split]:
    starts, live = fields.typed("starts", dict), fields.typed("live", dict)

    def splits(value: Any) -> Mapping[str, Split]:
        if not isinstance(value, dict) or value.keys() != starts.keys() or value.keys() != live.keys():
            raise ValueError(value)
        return {name: Split.from_json(one, start=starts[name], live=live[name]) for name, one in value.items()}

    return fields.parsed("splits", splits)


def open_request(stored: SourceSplitsStored | None) -> OpenRequest:
    """Read on: all offsets that the target does not hold must still be there."""
    if stored is None:
        return Subscribe()
    return Subscribe(
        after={name: one.reached for name, one in stored.splits.items()},
        first={name: one.start for name, one in stored.splits.items()},
        source_id=stored.source_id,
    )


def summarize(stored: SourceSplitsStored) -> StoredSummary:
    """Say how far the job is; offsets stand for rows."""
    return StoredSummary(stored.phase, sum(one.end - one.start for one in stored.splits.values()), None)


def has_history_left(splits: Mapping[str, Split]) -> bool:
    """Is history of any partition missing (R-SRC-24)?"""
    return any(one.state == BACKFILLING for one in splits.values())
