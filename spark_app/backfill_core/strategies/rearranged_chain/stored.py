"""What the rearranged chain stores in the target.

Only a state in `Forwarding` is continued. One of before says what the rows in the target are, for those who look while no driver
runs; the next attempt takes these rows out and begins anew (R-CHAIN-15).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from backfill_core.errors import StateMismatchError
from backfill_core.positions.intervals import IntervalSet
from backfill_core.protocol.strategy import OpenRequest, Pinned, PinVersion, StartOver, StoredSummary

REARRANGING, DRAINING, FORWARDING = "Rearranging", "Draining", "Forwarding"
PHASES = (REARRANGING, DRAINING, FORWARDING)


@dataclass(frozen=True, slots=True)
class AnnouncedMerge:
    """A MERGE that the commit announced: it happened if the target knows its transaction version."""

    upto: int
    txn: int


@dataclass(frozen=True, slots=True)
class ChainStored:
    """Bounded, whatever the size of the table; the queue of phantoms is not in it."""

    version: int
    table_id: str
    fingerprint: str
    rows: int
    """Of the row index, deleted ones included."""

    rows_read: int
    """Committed in files of the snapshot."""

    rows_live: int
    splits: int
    phase: str
    done: IntervalSet
    consumed: int
    merging: AnnouncedMerge | None
    key_proven: bool

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        return {
            "version": self.version,
            "tableId": self.table_id,
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "rowsRead": self.rows_read,
            "rowsLive": self.rows_live,
            "splits": self.splits,
            "phase": self.phase,
            "done": self.done.to_json(),
            "consumed": self.consumed,
            "merging": None if self.merging is None else {"upto": self.merging.upto, "txn": self.merging.txn},
            "keyProven": self.key_proven,
        }

    @property
    def forwarding(self) -> bool:
        """Had the job caught up, so that the next attempt goes on?"""
        return self.phase == FORWARDING

    def recall(self, pinned: Pinned) -> Pinned:
        """Return what the pinned version was; nothing of it is read any more, so it may be gone (R-CHAIN-2)."""
        return replace(
            pinned,
            version=self.version,
            table_id=self.table_id,
            fingerprint=self.fingerprint,
            rows=(self.rows,),
            rows_live=self.rows_live,
        )


def decode(value: Mapping[str, Any]) -> ChainStored:
    """Read what `ChainStored.encode` returned.

    Raises:
        StateMismatchError: names the first field that does not fit.
    """
    phase, merging = _field(value, "phase", str), value.get("merging")
    if phase not in PHASES:
        raise _unfit("phase", phase)
    if not isinstance(merging, dict | None):
        raise _unfit("merging", merging)
    try:
        done = IntervalSet.from_json(value.get("done"))
    except ValueError:
        raise _unfit("done", value.get("done")) from None
    return ChainStored(
        version=_field(value, "version", int),
        table_id=_field(value, "tableId", str),
        fingerprint=_field(value, "fingerprint", str),
        rows=_field(value, "rows", int),
        rows_read=_field(value, "rowsRead", int),
        rows_live=_field(value, "rowsLive", int),
        splits=_field(value, "splits", int),
        phase=phase,
        done=done,
        consumed=_field(value, "consumed", int),
        merging=None if merging is None else AnnouncedMerge(_field(merging, "upto", int), _field(merging, "txn", int)),
        key_proven=_field(value, "keyProven", bool),
    )


def _field(value: Mapping[str, Any], name: str, kind: type) -> Any:
    found = value.get(name)
    if type(found) is not kind:
        raise _unfit(name, found)
    return found


def _unfit(name: str, found: object) -> StateMismatchError:
    return StateMismatchError(
        f"the target's state does not fit this release: rearrangedChain.{name} is {str(found)[:80]!r}.",
        hint="Use the release that wrote it, or another target.",
    )


def open_request(stored: ChainStored | None) -> OpenRequest:
    """Go on only behind the end of catching up; what was begun and not finished is dropped with its rows (R-CHAIN-15)."""
    if stored is None:
        return PinVersion()
    if not stored.forwarding:
        return StartOver(drop_rows=True)
    return PinVersion(stored.version, None if stored.consumed == stored.version else stored.consumed, stored.table_id)


def summarize(stored: ChainStored) -> StoredSummary:
    """Say how far the job is; how many rows the filter left out is known once every row had its turn."""
    known = stored.done.size == stored.rows
    return StoredSummary(stored.phase, stored.rows_live, stored.rows_live - stored.rows_read if known else None)
