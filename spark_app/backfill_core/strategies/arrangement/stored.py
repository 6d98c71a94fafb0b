"""What Arrangement stores in the target: a typed value, and its JSON form.

The promise of a stored state: the target holds exactly the rows at or before the position of their vnode, as of `consumed`; once the
announced MERGE is in the target, as of the version that it goes up to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.errors import StateMismatchError
from backfill_core.positions.key_order import KeyOrder
from backfill_core.positions.vnode_positions import KeySpace, VnodePositions
from backfill_core.protocol.strategy import OpenRequest, ReadNewest, StoredSummary

READING, CATCH_UP, LIVE = "Reading", "CatchUp", "Live"
PHASES = (READING, CATCH_UP, LIVE)


@dataclass(frozen=True, slots=True)
class AnnouncedMerge:
    """A MERGE that the commit announced: it happened if the target knows its transaction version."""

    upto: int
    txn: int


@dataclass(frozen=True, slots=True)
class ArrangementStored:
    """Everything that a new attempt needs; bounded, whatever the size of the table."""

    table_id: str
    consumed: int
    phase: str
    space: KeySpace
    positions: VnodePositions
    rows: int
    """Committed in files of chunks."""

    rows_read: int
    """The same with those that the filter left out."""

    chunks: int
    merging: AnnouncedMerge | None

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        merging = self.merging
        return {
            "tableId": self.table_id,
            "consumed": self.consumed,
            "phase": self.phase,
            "order": self.space.order.to_json(),
            "distribution": list(self.space.distribution),
            "positions": self.positions.to_json(self.space.order),
            "rows": self.rows,
            "rowsRead": self.rows_read,
            "chunks": self.chunks,
            "merging": None if merging is None else {"upto": merging.upto, "txn": merging.txn},
        }


def decode(value: Mapping[str, Any]) -> ArrangementStored:
    """Read what `ArrangementStored.encode` returned.

    Raises:
        StateMismatchError: names the first field that does not fit.
    """
    phase = _field(value, "phase", str)
    if phase not in PHASES:
        raise _unfit("phase", phase)
    order = _parsed("order", value, KeyOrder.from_json)
    positions = _parsed("positions", value, lambda found: VnodePositions.from_json(found, order))
    distribution = _field(value, "distribution", list)
    if not all(type(one) is str for one in distribution):
        raise _unfit("distribution", distribution)
    merging = value.get("merging")
    return ArrangementStored(
        table_id=_field(value, "tableId", str),
        consumed=_field(value, "consumed", int),
        phase=phase,
        space=KeySpace(order, tuple(distribution), positions.vnodes),
        positions=positions,
        rows=_field(value, "rows", int),
        rows_read=_field(value, "rowsRead", int),
        chunks=_field(value, "chunks", int),
        merging=None if merging is None else _merging(merging),
    )


def _parsed(name: str, value: Mapping[str, Any], parse: Any) -> Any:
    try:
        return parse(value.get(name))
    except ValueError:
        raise _unfit(name, value.get(name)) from None


def _merging(value: Any) -> AnnouncedMerge:
    if not isinstance(value, dict):
        raise _unfit("merging", value)
    return AnnouncedMerge(_field(value, "upto", int, "merging."), _field(value, "txn", int, "merging."))


def _field(value: Mapping[str, Any], name: str, kind: type, inside: str = "") -> Any:
    found = value.get(name)
    if type(found) is not kind:
        raise _unfit(inside + name, found)
    return found


def _unfit(name: str, found: object) -> StateMismatchError:
    return StateMismatchError(
        f"the target's state does not fit this release: arrangement.{name} is {str(found)[:80]!r}.",
        hint="Use the release that wrote it, or another target.",
    )


def check_same_space(stored: ArrangementStored, space: KeySpace) -> None:
    """Refuse to go on in another order than the one that the positions are of.

    Raises:
        StateMismatchError: columns, types, directions, the distribution or the number of vnodes differ.
    """
    if stored.space != space:
        raise StateMismatchError(
            f"the positions of the target are of {_words(stored.space)}; the job reads by {_words(space)}.",
            hint="Restore the order, the key, vnodes and the types of the columns, or give the job another jobId and target.",
        )


def _words(space: KeySpace) -> str:
    columns = ", ".join(" ".join(one) for one in space.order.to_json())
    return f"({columns}) in {space.vnodes} vnodes of ({', '.join(space.distribution)})"


def open_request(stored: ArrangementStored | None) -> OpenRequest:
    """Read the newest version: the state says up to which version the target is there."""
    return ReadNewest("" if stored is None else stored.table_id)


def summarize(stored: ArrangementStored) -> StoredSummary:
    """Say how far the job is; how many rows there are in all is not known without the source."""
    return StoredSummary(stored.phase, stored.rows_read, stored.rows_read - stored.rows)
