"""State of the counter in the target: one offset for each partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.errors import StateMismatchError
from backfill_core.positions.offsets import Offsets
from backfill_core.protocol.strategy import StoredSummary, Subscribe


@dataclass(frozen=True, slots=True)
class CounterStored:
    """The whole state that a new attempt needs."""

    ends: Offsets
    """The offset after the last one of each partition's history."""

    consumed: Offsets
    """The offset before which the target holds everything."""

    rows: int
    caught_up: bool

    @property
    def copying(self) -> bool:
        """Return whether history is missing."""
        return any(self.consumed[partition] < end for partition, end in self.ends.items())

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        partitions = {name: {"end": end, "next": self.consumed[name]} for name, end in self.ends.items()}
        return {"partitions": partitions, "rows": self.rows, "caughtUp": self.caught_up}


def decode(value: Mapping[str, Any]) -> CounterStored:
    """Decode the result of `CounterStored.encode`.

    Raises:
        StateMismatchError: names the first field that does not fit.
    """
    partitions, rows = value.get("partitions"), value.get("rows")
    if not isinstance(partitions, dict) or not isinstance(rows, int):
        raise StateMismatchError(
            "the target's state does not fit this release: counter.partitions or counter.rows is missing.",
            hint="Use the release that wrote it, or another target.",
        )
    return CounterStored(
        ends={name: partition["end"] for name, partition in partitions.items()},
        consumed={name: partition["next"] for name, partition in partitions.items()},
        rows=rows,
        caught_up=value.get("caughtUp") is True,
    )


def open_request(stored: CounterStored | None) -> Subscribe:
    """Continue after the consumed offsets."""
    return Subscribe(None if stored is None else stored.consumed)


def summarize(stored: CounterStored) -> StoredSummary:
    """Summarize the progress of the job."""
    total = sum(stored.ends.values())
    done = sum(min(end, stored.consumed.get(name, 0)) for name, end in stored.ends.items())
    return StoredSummary("Copy" if stored.copying else "Follow", total, done, 0, 0)
