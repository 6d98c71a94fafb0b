"""State of Arrangement that is stored in the target: a typed value, and its JSON form.

Invariant of a stored state: the target contains exactly the rows at or before the position of their vnode, as of version `consumed`.
Once the announced MERGE is in the target, it contains them as of the last version of the MERGE. Between two parts of a batch, it contains
the rows of the merged keys as of the last version of the batch, and the other ones as of `consumed`; no position moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.errors import StateMismatchError
from backfill_core.phases.change_batch import AnnouncedMerge, encode_parts, read_parts
from backfill_core.positions.change_parts import ChangeParts
from backfill_core.positions.key_order import KeyOrder
from backfill_core.positions.vnode_positions import Completed, KeySpace, NotStarted, Reached, UpTo, VnodePositions
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import OpenRequest, ReadNewest, StoredSummary

READING, CATCH_UP, LIVE = "Reading", "CatchUp", "Live"
PHASES = (READING, CATCH_UP, LIVE)
RUNS_SHOWN_MAX = 3
POSITION_WORDS_MAX = 200
"""Maximum characters of one displayed position."""


@dataclass(frozen=True, slots=True)
class ArrangementStored:
    """State that a new attempt resumes from; its size does not depend on the size of the table."""

    table_id: str
    consumed: int
    phase: str
    space: KeySpace
    positions: VnodePositions
    rows: int
    """Rows committed in files of chunks."""

    rows_read: int
    """Committed rows plus the rows that the filter dropped."""

    chunks: int
    merging: AnnouncedMerge | None
    key_proven: bool = False
    """True if the key was proven unique in the target after all rows were copied."""

    parts: ChangeParts | None = None
    """Position inside the batch after `consumed`; `None` if no batch is merged in parts."""

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
            **encode_parts(self.parts),
        }


def decode(value: Mapping[str, Any]) -> ArrangementStored:
    """Decode the result of `ArrangementStored.encode`.

    Raises:
        StateMismatchError: A field is invalid; the message names the first one.
    """
    fields = StoredFields("arrangement", value)
    order = fields.parsed("order", KeyOrder.from_json)
    positions = fields.parsed("positions", lambda runs: VnodePositions.from_json(runs, order))
    distribution = fields.typed("distribution", list)
    if not all(type(column) is str for column in distribution):
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
        parts=read_parts(fields),
    )


def check_same_space(stored: ArrangementStored, space: KeySpace) -> None:
    """Refuse to resume in another order than that of the stored positions.

    Raises:
        StateMismatchError: Columns, types, directions, the distribution or the number of vnodes differ.
    """
    if stored.space != space:
        raise StateMismatchError(
            f"the stored positions are for rows ordered by {_describe(stored.space)}; the job reads by {_describe(space)}.",
            hint="Restore the order, the key, vnodes and the types of the columns, or give the job another jobId and target.",
        )


def _describe(space: KeySpace) -> str:
    columns = ", ".join(" ".join(column) for column in space.order.to_json())
    return f"({columns}) in {space.vnodes} vnodes of ({', '.join(space.distribution)})"


def open_request(stored: ArrangementStored | None) -> OpenRequest:
    """Request the newest version: the state records the version that the target is complete up to."""
    return ReadNewest("" if stored is None else stored.table_id)


def summarize(stored: ArrangementStored) -> StoredSummary:
    """Summarize the job's progress; the total number of rows is unknown without the source."""
    parts, filtered = "" if stored.parts is None else stored.parts.describe(), stored.rows_read - stored.rows
    position = "; ".join(filter(None, (describe_positions(stored.space, stored.positions), parts)))
    total = stored.rows_read if stored.positions.complete else None
    return StoredSummary(stored.phase, total, stored.rows_read, filtered, stored.chunks, position)


def describe_positions(space: KeySpace, positions: VnodePositions) -> str:
    """Format the position of each vnode's copied rows, as `rows up to ts = 2026-03-01T00:00:00Z, id = 5`.

    If positions differ, the string names the first `RUNS_SHOWN_MAX` ranges of vnodes. It is empty before the first row, and after the
    last one.
    """
    if positions.complete or not positions.started:
        return ""
    messages: list[str] = []
    first = 0
    for count, reached in positions.runs[:RUNS_SHOWN_MAX]:
        name = "" if count == space.vnodes else f"vnodes {first} to {first + count - 1}: "
        messages.append(name + _describe_reached(space, reached))
        first += count
    more = len(positions.runs) - len(messages)
    return "; ".join([*messages, *([f"and {more} more ranges of vnodes"] if more else [])])


def _describe_reached(space: KeySpace, reached: Reached) -> str:
    match reached:
        case UpTo(position=position):
            direction = "down" if space.order.columns[0].descending else "up"
            return f"rows {direction} to {space.order.format_position(position)}"[:POSITION_WORDS_MAX]
        case Completed():
            return "all rows"
        case NotStarted():
            return "no row"
