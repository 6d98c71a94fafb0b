"""What SourceSplits stores in the target: a typed value, and its JSON form.

The promise of a stored state: of each partition the target holds the records at the offsets that `Split.held` names, each once (R-SRC-40).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backfill_core.positions.offsets import OffsetRange, Offsets, between
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import OpenRequest, StoredSummary, Subscribe
from backfill_core.strategies.source_splits.packed import pack, pack_offsets, unpack, unpack_offsets
from backfill_core.strategies.source_splits.split import BACKFILLING, Split

HISTORY, CATCH_UP, LIVE = "History", "CatchUp", "Live"
PHASES = (HISTORY, CATCH_UP, LIVE)

READABLE_MAX = 100
"""Partitions that are stored as semantics 2.4 shows them, 0.2 KiB each; more are packed."""


@dataclass(frozen=True, slots=True)
class AnnouncedRanges:
    """The MERGE that a commit announces: it happened if the target knows its transaction version."""

    txn: int
    upto: Offsets
    """Of each of its partitions, the offset after the last one that is in it."""


@dataclass(frozen=True, slots=True)
class SourceSplitsStored:
    """Everything that a new attempt needs; a partition is never forgotten."""

    source_id: str
    phase: str
    splits: Mapping[str, Split]
    """By the name of the partition."""

    merging: AnnouncedRanges | None = None
    """Of a target that holds one row a key."""

    aside: Offsets = field(default_factory=dict)
    """Of some partitions, the offset before which all bad records are in their own table, though their neighbours are in no commit."""

    cut_off: Offsets = field(default_factory=dict)
    """High watermarks of partitions that the job ended without reading to, because a transaction stayed open."""

    @property
    def cut_off_ranges(self) -> tuple[OffsetRange, ...]:
        """Offsets that the job left out."""
        return between({name: one.live for name, one in self.splits.items()}, self.cut_off)

    def after_merge(self, last_txn: int | None) -> SourceSplitsStored:
        """Return what the target holds, whose newest transaction is told: with the announced MERGE, if that happened."""
        if self.merging is None or self.merging.txn != last_txn:
            return replace(self, merging=None)
        # Nothing tells how many records it had.
        moved = {
            name: self.splits[name].with_history(stop, 0)
            if self.splits[name].state == BACKFILLING
            else self.splits[name].with_live(stop)
            for name, stop in self.merging.upto.items()
        }
        splits = {**self.splits, **moved}
        aside = {name: stop for name, stop in self.aside.items() if stop > splits[name].reached}
        return replace(self, merging=None, splits=splits, aside=aside)

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        head: dict[str, Any] = {"sourceId": self.source_id, "phase": self.phase}
        if self.merging is not None:
            head["merging"] = {"txn": self.merging.txn, "upto": _encoded(self.merging.upto)}
        if self.aside:
            head["aside"] = _encoded(self.aside)
        if self.cut_off:
            head["cutOff"] = _encoded(self.cut_off)
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
    splits = fields.parsed("packed", unpack) if "packed" in value else _readable(fields)

    def ahead(offsets: Any) -> Offsets:
        return _ahead(offsets, splits)

    part = fields.part("merging") if "merging" in value else None
    merging = None if part is None else AnnouncedRanges(part.typed("txn", int), part.parsed("upto", ahead))
    return SourceSplitsStored(
        source_id=fields.typed("sourceId", str),
        phase=fields.one_of("phase", PHASES),
        splits=splits,
        merging=merging,
        aside=fields.parsed("aside", ahead) if "aside" in value else {},
        cut_off=fields.parsed("cutOff", ahead) if "cutOff" in value else {},
    )


def _encoded(offsets: Offsets) -> dict[str, int] | str:
    return dict(offsets) if len(offsets) <= READABLE_MAX else pack_offsets(offsets)


def _ahead(value: Any, splits: Mapping[str, Split]) -> Offsets:
    """Read offsets that are ahead of what is held of their partitions, within the side that is read.

    Raises:
        ValueError: they are something else.
    """
    found = unpack_offsets(value) if isinstance(value, str) else value
    if not isinstance(found, dict) or not found.keys() <= splits.keys():
        raise ValueError(value)
    for name, stop in found.items():
        one = splits[name]
        if type(stop) is not int or stop <= one.reached or (one.state == BACKFILLING and stop > one.end):
            raise ValueError(value)
    return found


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
    """Return how far the job is; offsets stand for rows."""
    splits = stored.splits.values()
    total, left = sum(split.end - split.start for split in splits), sum(split.end - split.next for split in splits)
    return StoredSummary(stored.phase, total, total - left, 0, sum(split.state != BACKFILLING for split in splits))


def has_history_left(splits: Mapping[str, Split]) -> bool:
    """Is history of any partition missing (R-SRC-24)?"""
    return any(one.state == BACKFILLING for one in splits.values())
