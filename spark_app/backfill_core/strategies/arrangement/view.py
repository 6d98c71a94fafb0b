"""Progress of an arrangement backfill, for users and the operator."""

from __future__ import annotations

from backfill_core.phases.key_copy import KeyCopy
from backfill_core.phases.replay import Replay
from backfill_core.phases.view import CopyProgress, PinnedView, retention_warnings
from backfill_core.positions.file_order import OrderWatermark
from backfill_core.positions.intervals import IntervalSet
from backfill_core.positions.vnode_positions import NotStarted, UpTo
from backfill_core.protocol.clock import Now
from backfill_core.protocol.strategy import Pinned, StrategyView
from backfill_core.strategies.arrangement.stored import READING, describe_positions

WATERMARK_MAX = 200
"""Maximum characters of a displayed value."""


def of(pinned: Pinned, copy: KeyCopy, replay: Replay, phase: str, activity: str, now: Now) -> StrategyView:
    """Return the current view of the state machine."""
    # Before the first row, the job needs no old versions; afterwards it needs the changes of all copied rows.
    warnings = retention_warnings(replay, replay.consumed_ms() if copy.sealed.started else None, now)
    return PinnedView(pinned, _copied(copy, replay), replay, phase, activity, phase == READING).at(now, warnings)


def _copied(copy: KeyCopy, replay: Replay) -> CopyProgress:
    done, total = copy.rows_read_sealed, copy.rows_read_sealed + copy.rows_left
    return CopyProgress(
        rows=total,
        rows_left=copy.rows_left,
        rows_total=total,
        rows_done=done,
        rows_filtered=done - copy.rows_sealed,
        splits=copy.chunks,
        rows_per_split=copy.rows_per_chunk,
        # Rows are copied in order: all rows up to the position are in the target.
        done=IntervalSet.of([(0, done)]),
        meter=copy.meter,
        rate_limit=copy.rate_limit,
        watermark=_watermark(copy),
        position="; ".join(filter(None, (describe_positions(copy.space, copy.sealed), replay.between_parts))),
    )


def _watermark(copy: KeyCopy) -> OrderWatermark | None:
    """Return the value of the first column that copied rows reach in all vnodes; `None` if the target has all rows or none.

    Rows before the value are in the target. Rows with the value itself may be missing, because values may repeat.
    """
    order, reached = copy.space.order, [*copy.sealed.groups()]
    positions = [group.position for group in reached if isinstance(group, UpTo)]
    if not positions or any(isinstance(group, NotStarted) for group in reached):
        return None
    least = min(positions, key=order.sort_key)
    column = order.columns[0]
    value = column.format_value(least[0])
    return OrderWatermark(column.name, "Descending" if column.descending else "Ascending", value[:WATERMARK_MAX])
