"""State of SourceSplits that is stored in the target: a typed value, and its JSON form.

Invariant of a stored state: for each partition the target contains the records at the offsets in `Split.held`, each once (R-SRC-40).
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
"""Maximum partitions in the readable form of semantics 2.4, 0.2 KiB each; larger topics are packed."""


@dataclass(frozen=True, slots=True)
class AnnouncedRanges:
    """The MERGE that a commit announces: it is in the target if the target has its transaction version."""

    txn: int
    upto: Offsets
    """For each of its partitions, the offset after the last merged one."""


@dataclass(frozen=True, slots=True)
class SourceSplitsStored:
    """State that a new attempt resumes from; it keeps every partition."""

    source_id: str
    phase: str
    splits: Mapping[str, Split]
    """Splits by the name of the partition."""

    merging: AnnouncedRanges | None = None
    """The announced MERGE; only for targets with one row for each key."""

    aside: Offsets = field(default_factory=dict)
    """For some partitions, the offset up to which all bad records are quarantined, although no commit has the good records."""

    cut_off: Offsets = field(default_factory=dict)
    """High watermarks of partitions that the job did not read to, because a transaction stayed open."""

    unread: tuple[OffsetRange, ...] = ()
    """Ranges of oversized records: they are not read again, also with more memory, so that a receipt compares the same rows."""

    @property
    def cut_off_ranges(self) -> tuple[OffsetRange, ...]:
        """Return the offsets that the job left out."""
        return between({name: split.live for name, split in self.splits.items()}, self.cut_off)

    def reopened(self) -> SourceSplitsStored:
        """Return the state of a finished job that reads later records, and those that open transactions cut off."""
        return replace(self, phase=CATCH_UP if self.phase == LIVE else self.phase, cut_off={})

    def after_merge(self, last_txn: int | None) -> SourceSplitsStored:
        """Return the state of a target with this newest transaction: with the announced MERGE, if it is in the target."""
        if self.merging is None or self.merging.txn != last_txn:
            return replace(self, merging=None)
        # The number of its records is unknown.
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
        if self.unread:
            head["unread"] = _spans_to_json(self.unread)
        if len(self.splits) > READABLE_MAX:
            return head | {"packed": pack(self.splits)}
        return head | {
            "splits": {name: split.to_json() for name, split in self.splits.items()},
            "starts": {name: split.start for name, split in self.splits.items()},
            "live": {name: split.live for name, split in self.splits.items()},
        }


def decode(value: Mapping[str, Any]) -> SourceSplitsStored:
    """Decode the result of `SourceSplitsStored.encode`.

    Raises:
        StateMismatchError: A field is invalid; the message names the first one.
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
        unread=fields.parsed("unread", _spans) if "unread" in value else (),
    )


def _spans_to_json(ranges: tuple[OffsetRange, ...]) -> dict[str, list[list[int]]]:
    """Return the first offset and the number of offsets of each range, by partition."""
    spans: dict[str, list[list[int]]] = {}
    for span in ranges:
        spans.setdefault(span.partition, []).append([span.start, span.stop - span.start])
    return spans


def _spans(value: Any) -> tuple[OffsetRange, ...]:
    """Parse the output of `_spans_to_json`.

    Raises:
        ValueError, TypeError: The value is malformed.
    """
    if not isinstance(value, dict):
        raise TypeError(value)
    spans = [(name, start, offsets) for name, listed in value.items() for start, offsets in listed]
    if any(
        type(start) is not int or type(offsets) is not int or start < 0 or offsets < 1 for _, start, offsets in spans
    ):
        raise ValueError(value)
    return tuple(OffsetRange(name, start, start + offsets) for name, start, offsets in spans)


def _encoded(offsets: Offsets) -> dict[str, int] | str:
    return dict(offsets) if len(offsets) <= READABLE_MAX else pack_offsets(offsets)


def _ahead(value: Any, splits: Mapping[str, Split]) -> Offsets:
    """Parse offsets, which are after their partition's position and within the side that is being read.

    Raises:
        ValueError: The value is malformed, or an offset is out of range.
    """
    offsets = unpack_offsets(value) if isinstance(value, str) else value
    if not isinstance(offsets, dict) or not offsets.keys() <= splits.keys():
        raise ValueError(value)
    for name, stop in offsets.items():
        split = splits[name]
        if type(stop) is not int or stop <= split.reached or (split.state == BACKFILLING and stop > split.end):
            raise ValueError(value)
    return offsets


def _readable(fields: StoredFields) -> Mapping[str, Split]:
    starts, live = fields.typed("starts", dict), fields.typed("live", dict)

    def splits(value: Any) -> Mapping[str, Split]:
        if not isinstance(value, dict) or value.keys() != starts.keys() or value.keys() != live.keys():
            raise ValueError(value)
        return {name: Split.from_json(split, start=starts[name], live=live[name]) for name, split in value.items()}

    return fields.parsed("splits", splits)


def open_request(stored: SourceSplitsStored | None) -> OpenRequest:
    """Subscribe after the stored positions: all offsets that the target lacks must still exist."""
    if stored is None:
        return Subscribe()
    return Subscribe(
        after={name: split.reached for name, split in stored.splits.items()},
        first={name: split.start for name, split in stored.splits.items()},
        source_id=stored.source_id,
        unread=stored.unread,
    )


def summarize(stored: SourceSplitsStored) -> StoredSummary:
    """Summarize the job's progress; rows are counted as offsets."""
    splits = stored.splits.values()
    total, left = sum(split.end - split.start for split in splits), sum(split.end - split.next for split in splits)
    return StoredSummary(stored.phase, total, total - left, 0, sum(split.state != BACKFILLING for split in splits))


def has_history_left(splits: Mapping[str, Split]) -> bool:
    """Return true if any partition lacks history (R-SRC-24)."""
    return any(split.state == BACKFILLING for split in splits.values())
