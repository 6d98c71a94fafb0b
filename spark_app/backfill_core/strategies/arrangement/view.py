"""How far an arrangement backfill is, for people and for the operator."""

from __future__ import annotations

from backfill_core.pacing.eta import estimate
from backfill_core.pacing.retention import warn
from backfill_core.phases.key_copy import KeyCopy
from backfill_core.phases.replay import Replay, Running
from backfill_core.positions.file_order import Watermark
from backfill_core.positions.vnode_positions import NotStarted, UpTo
from backfill_core.protocol.clock import Now
from backfill_core.protocol.strategy import Facts, JobWarning, Pinned, StrategyView
from backfill_core.strategies.arrangement.params import ArrangementSettings
from backfill_core.strategies.arrangement.stored import READING

GRID_CELLS_MAX = 64
WATERMARK_MAX = 200
"""Characters of a value that people see."""


def of(
    pinned: Pinned, copy: KeyCopy, replay: Replay, settings: ArrangementSettings, phase: str, now: Now
) -> StrategyView:
    """Return one look at the machine."""
    left, lag = copy.rows_left, replay.lag_versions
    total = copy.rows_read_sealed + left
    moving = bool(left) and not copy.held
    eta = estimate(left, copy.meter) if left else None
    shown = eta if moving else None
    consumed_ms = replay.consumed_ms()
    since_ms = pinned.timestamp_ms if consumed_ms is None else consumed_ms
    return StrategyView(
        phase=phase,
        rows_total=total,
        rows_done=copy.rows_read_sealed,
        rows_filtered=copy.rows_read_sealed - copy.rows_sealed,
        splits_done=copy.chunks,
        splits_left=-(-left // max(1, copy.rows_per_chunk)),
        consumed=replay.consumed if phase != READING else None,
        head=replay.head,
        lag_versions=lag,
        lag_ms=max(0, now.wall_ms - since_ms) if lag else 0,
        rows_per_s=copy.meter.rows_per_s if moving else 0.0,
        eta_s=None if shown is None else shown.seconds,
        eta_low_s=None if shown is None else shown.low,
        eta_high_s=None if shown is None else shown.high,
        caught_up=replay.caught_up,
        non_convergent=replay.trend.non_convergent,
        grid=_grid(copy.rows_read_sealed, total),
        reason=_reason(replay, settings),
        facts=Facts(
            rows=total,
            rows_left=left,
            copy=eta,
            rows_per_s=copy.meter.rows_per_s,
            versions_done=max(0, replay.consumed - pinned.version),
            versions_left=lag,
            version_s=replay.version_s,
            versions_per_s=replay.versions_per_s,
        ),
        watermark=_watermark(copy),
        warnings=(*_warnings(copy, replay, now), *replay.divergence()),
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


def _warnings(copy: KeyCopy, replay: Replay, now: Now) -> tuple[JobWarning, ...]:
    """Say in time that changes which are still needed will be gone: in a long pause of everything, or beside a slow MERGE."""
    since_ms, head = replay.consumed_ms(), replay.head
    if head is None or since_ms is None or not copy.sealed.started:
        return ()
    message = warn(replay.consumed, since_ms, head.position, head.kept_s, now.wall_ms)
    return () if message is None else (JobWarning("RetentionEnding", message),)


def _grid(done: int, total: int) -> tuple[int, ...]:
    """Return cells of the rows in their order: those up to the position are there."""
    cells = min(GRID_CELLS_MAX, total)
    return tuple(min(100, max(0, 100 * (done * cells - cell * total) // total)) for cell in range(cells))


def _reason(replay: Replay, settings: ArrangementSettings) -> str:
    if isinstance(replay.batch, Running):
        batch = replay.batch.batch
        doing = "merging" if settings.merges else "reading"
        return f"{doing} the changes of versions {batch.after + 1} to {batch.upto}"
    return "waiting for the first look at the source" if replay.head is None else ""
