"""What the counter stores in the target: one offset for each partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.errors import StateMismatchError
from backfill_core.positions.offsets import Offsets
from backfill_core.protocol.strategy import StoredSummary, Subscribe


@dataclass(frozen=True, slots=True)
class CounterStored:
    """Everything that a new attempt needs."""

    ends: Offsets
    """The offset after the last one of each partition's history."""

    consumed: Offsets
    """The offset before which the target holds everything."""

    rows: int
    caught_up: bool

    @property
    def copying(self) -> bool:
        """Is history missing?"""
        return any(self.consumed[partition] < end for partition, end in self.ends.items())

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        partitions = {name: {"end": end, "next": self.consumed[name]} for name, end in self.ends.items()}
        return {"partitions": partitions, "rows": self.rows, "caughtUp": self.caught_up}


def decode(value: Mapping[str, Any]) -> CounterStored:
    """Read what `CounterStored.encode` returned.

    Raises:
        StateMismatchError: names the first field that does not fit.
    """
    partitions, rows = value.get("partitions"), value.get("rows")
    if not isinstance(partitions, dict) or not isinstance(rows, int):
        raise StateMismatchError(
            "the target's state does not fit this release: counter.partitions or counter.rows is not there.",
            hint="Use the release that wrote it, or another target.",
        )
    return CounterStored(
        ends={name: one["end"] for name, one in partitions.items()},
        consumed={name: one["next"] for name, one in partitions.items()},
        rows=rows,
        caught_up=value.get("caughtUp") is True,
    )


def open_request(stored: CounterStored | None) -> Subscribe:
    """Read on after what was consumed."""
    return Subscribe(None if stored is None else stored.consumed)


def summarize(stored: CounterStored) -> StoredSummary:
    """Say how far the job is."""
    total = sum(stored.ends.values())
    done = sum(min(end, stored.consumed.get(name, 0)) for name, end in stored.ends.items())
    return StoredSummary("Copy" if stored.copying else "Follow", total, done, 0, 0)
