"""What Arrangement stores in the target: a typed value, and its JSON form.

The promise of a stored state: the target holds exactly the rows at or before the position of their vnode, as of `consumed`; once the
announced MERGE is in the target, as of the version that it goes up to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.errors import StateMismatchError
from backfill_core.phases.replay import AnnouncedMerge
from backfill_core.positions.key_order import KeyOrder
from backfill_core.positions.vnode_positions import Completed, KeySpace, NotStarted, Reached, UpTo, VnodePositions
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import OpenRequest, ReadNewest, StoredSummary

READING, CATCH_UP, LIVE = "Reading", "CatchUp", "Live"
PHASES = (READING, CATCH_UP, LIVE)
RUNS_SHOWN_MAX = 3
POSITION_WORDS_MAX = 200
"""Characters of one position that people see."""


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
    key_proven: bool = False
    """Was the key proven in the target, once all rows of the copy were there?"""

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
            "merging": None if merging is None else merging.encode(),
            "keyProven": self.key_proven,
        }


def decode(value: Mapping[str, Any]) -> ArrangementStored:
    """Read what `ArrangementStored.encode` returned.

    Raises:
        StateMismatchError: names the first field that does not fit.
    """
    fields = StoredFields("arrangement", value)
    order = fields.parsed("order", KeyOrder.from_json)
    positions = fields.parsed("positions", lambda found: VnodePositions.from_json(found, order))
    distribution = fields.typed("distribution", list)
    if not all(type(one) is str for one in distribution):
        raise fields.unfit("distribution")
    merging = fields.part("merging")
    return ArrangementStored(
        table_id=fields.typed("tableId", str),
        consumed=fields.typed("consumed", int),
        phase=fields.one_of("phase", PHASES),
        space=KeySpace(order, tuple(distribution), positions.vnodes),
        positions=positions,
        rows=fields.typed("rows", int),
        rows_read=fields.typed("rowsRead", int),
        chunks=fields.typed("chunks", int),
        merging=None if merging is None else AnnouncedMerge.of(merging),
        key_proven=value.get("keyProven") is True,
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
    position, filtered = position_words(stored.space, stored.positions), stored.rows_read - stored.rows
    total = stored.rows_read if stored.positions.complete else None
    return StoredSummary(stored.phase, total, stored.rows_read, filtered, stored.chunks, position)


def position_words(space: KeySpace, positions: VnodePositions) -> str:
    """Return how far the rows of each vnode are in the target, as `rows up to ts = 2026-03-01T00:00:00Z, id = 5`.

    Ranges of vnodes are named where they are not equally far, the first `RUNS_SHOWN_MAX` of them. Empty: nothing is there, or all is.
    """
    if positions.complete or not positions.started:
        return ""
    words: list[str] = []
    first = 0
    for count, reached in positions.runs[:RUNS_SHOWN_MAX]:
        name = "" if count == space.vnodes else f"vnodes {first} to {first + count - 1}: "
        words.append(name + _reached_words(space, reached))
        first += count
    more = len(positions.runs) - len(words)
    return "; ".join([*words, *([f"and {more} more ranges of vnodes"] if more else [])])


def _reached_words(space: KeySpace, reached: Reached) -> str:
    match reached:
        case UpTo(position=position):
            direction = "down" if space.order.columns[0].descending else "up"
            return f"rows {direction} to {space.order.words(position)}"[:POSITION_WORDS_MAX]
        case Completed():
            return "all rows"
        case NotStarted():
            return "no row"
