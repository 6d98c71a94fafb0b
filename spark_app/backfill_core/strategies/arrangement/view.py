"""How far an arrangement backfill is, for people and for the operator."""

from __future__ import annotations

from backfill_core.phases.key_copy import KeyCopy
from backfill_core.phases.replay import Replay
from backfill_core.phases.view import Copied, Look, retention_warnings
from backfill_core.positions.file_order import Watermark
from backfill_core.positions.intervals import IntervalSet
from backfill_core.positions.vnode_positions import NotStarted, UpTo
from backfill_core.protocol.clock import Now
from backfill_core.protocol.strategy import Pinned, StrategyView
from backfill_core.strategies.arrangement.stored import READING, position_words

WATERMARK_MAX = 200
"""Characters of a value that people see."""


def of(pinned: Pinned, copy: KeyCopy, replay: Replay, phase: str, words: str, now: Now) -> StrategyView:
    """Return one look at the machine."""
    # Before the first row nothing is needed of the past; then the changes of all rows that are there.
    warnings = retention_warnings(replay, replay.consumed_ms() if copy.sealed.started else None, now)
    return Look(pinned, _copied(copy), replay, phase, words, phase == READING).at(now, warnings)


def _copied(copy: KeyCopy) -> Copied:
    done, total = copy.rows_read_sealed, copy.rows_read_sealed + copy.rows_left
    return Copied(
        rows=total,
        rows_left=copy.rows_left,
        rows_total=total,
        rows_done=done,
        rows_filtered=done - copy.rows_sealed,
        splits=copy.chunks,
        rows_per_split=copy.rows_per_chunk,
        # Rows are counted in their order: those up to the position are there.
        done=IntervalSet.of([(0, done)]),
        meter=copy.meter,
        rate_limit=copy.rate_limit,
        watermark=_watermark(copy),
        position=position_words(copy.space, copy.sealed),
    )


def _watermark(copy: KeyCopy) -> Watermark | None:
    """Return the value of the first column behind which rows may be missing; None: all are there, or none.

    Ties of it may be missing too, so that what is beyond it is there, and it itself may not be.
    """
    order, reached = copy.space.order, [*copy.sealed.groups()]
    positions = [one.position for one in reached if isinstance(one, UpTo)]
    if not positions or any(isinstance(one, NotStarted) for one in reached):
        return None
    least = min(positions, key=order.sort_key)
    column = order.columns[0]
    value = column.words(least[0])
    return Watermark(column.name, "Descending" if column.descending else "Ascending", value[:WATERMARK_MAX])
