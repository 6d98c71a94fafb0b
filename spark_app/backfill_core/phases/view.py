"""Progress of a copy, and of the replay after it or concurrent with it, for users and for the operator."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

from backfill_core.pacing.retention import warn, warn_short
from backfill_core.phases.change_batch import ChangeMode, RunningBatch
from backfill_core.phases.replay import Replay
from backfill_core.positions.file_order import OrderWatermark
from backfill_core.positions.intervals import IntervalSet
from backfill_core.positions.partitions import PartitionRows
from backfill_core.protocol.clock import Now
from backfill_core.protocol.eta import Eta, RateMeter, estimate
from backfill_core.protocol.strategy import Facts, JobWarning, Pinned, StrategyView

GRID_CELLS_MAX = 64


# A view is created at every event, but the done rows change only with a commit.
@lru_cache(maxsize=4)
def percent_done(rows: int, done: IntervalSet) -> tuple[int, ...]:
    """Return the done percentage of each part of the rows."""
    cells = min(GRID_CELLS_MAX, rows)
    edges = [rows * cell // cells for cell in range(cells + 1)] if cells else [0]
    return tuple(
        100 * (stop - start - done.gaps(start, stop).size) // (stop - start)
        for start, stop in itertools.pairwise(edges)
    )


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Progress of a copy; counts are of durable rows."""

    rows: int
    """All rows of the row index."""

    rows_left: int
    rows_total: int
    """Rows that readers of the source see. Like `rows_left` and all counts but `rows` and `done`, it excludes deleted rows."""

    rows_done: int
    rows_filtered: int
    splits: int
    rows_per_split: int
    done: IntervalSet
    """Durable rows as numbers below `rows`."""

    meter: RateMeter
    rate_limit: float | None
    watermark: OrderWatermark | None
    position: str = ""
    partitions: tuple[PartitionRows, ...] = ()

    def eta(self, now: Now) -> Eta | None:
        """Return the time left at the pace of the last commits; `None` if no row is left or no pace is known."""
        return estimate(self.rows_left, self.meter, now.mono_s) if self.rows_left else None

    @property
    def moves(self) -> bool:
        """True if a row is left and may be read."""
        return bool(self.rows_left) and not self.meter.held

    @property
    def grid(self) -> tuple[int, ...]:
        """Done percentage of each part."""
        return percent_done(self.rows, self.done)


@dataclass(frozen=True, slots=True)
class PinnedView:
    """Inputs of a view in addition to the copy and the replay."""

    pinned: Pinned
    copied: CopyProgress
    replay: Replay
    phase: str
    doing: str
    """Reason why the job is not faster."""

    copying: bool

    def at(self, now: Now, warnings: tuple[JobWarning, ...]) -> StrategyView:
        """Return the progress of the job."""
        pinned, copied, replay = self.pinned, self.copied, self.replay
        lag, moves = replay.lag_versions, copied.moves
        return StrategyView(
            phase=self.phase,
            rows_total=copied.rows_total,
            rows_done=copied.rows_done,
            rows_filtered=copied.rows_filtered,
            splits_done=copied.splits,
            splits_left=-(-copied.rows_left // max(1, copied.rows_per_split)),
            consumed=None if self.copying else replay.consumed,
            head=replay.head,
            lag_versions=lag,
            lag_ms=replay.lag_ms(pinned.timestamp_ms, now.wall_ms),
            rows_per_s=copied.meter.rows_per_s if moves else 0.0,
            caught_up=replay.caught_up,
            non_convergent=replay.trend.non_convergent,
            grid=copied.grid,
            reason=self.doing,
            facts=self._facts(now),
            watermark=copied.watermark,
            position=copied.position,
            warnings=(*warnings, *replay.divergence()),
            partitions=copied.partitions,
        )

    def _facts(self, now: Now) -> Facts:
        copied, replay = self.copied, self.replay
        return Facts(
            rows=copied.rows_total,
            rows_left=copied.rows_left,
            copy=copied.eta(now),
            rows_per_s=copied.meter.measured,
            limit_rows_per_s=copied.meter.limit,
            fresh=copied.meter.fresh,
            versions_done=max(0, replay.consumed - self.pinned.version),
            versions_left=replay.lag_versions,
            version_s=replay.version_s,
            batches=replay.batches,
            versions_per_s=replay.versions_per_s,
        )


def pinned_warnings(
    pinned: Pinned, copied: CopyProgress, replay: Replay, now: Now, *, copying: bool
) -> tuple[JobWarning, ...]:
    """Warn in time before the source deletes versions that the job still needs.

    After the catch-up, only versions with a known commit time count.
    """
    since_ms, head = replay.consumed_ms(), replay.head
    if since_ms is None and not replay.caught_up:
        since_ms = pinned.timestamp_ms
    ending = retention_warnings(replay, since_ms, now)
    if ending or not copying or head is None or since_ms is None:
        return ending
    paces = [copied.rows_left / copied.rate_limit] if copied.rate_limit else []
    eta = copied.eta(now) if copied.moves else None
    longest_s = max([*paces, *([] if eta is None else [eta.seconds])], default=None)
    message = warn_short(longest_s, head.kept_s)
    return () if message is None else (JobWarning("RetentionShort", message),)


def retention_warnings(replay: Replay, since_ms: int | None, now: Now) -> tuple[JobWarning, ...]:
    """Warn in time before the source deletes changes: in a long pause of everything, or during a slow MERGE."""
    head = replay.head
    if head is None or since_ms is None:
        return ()
    message = warn(replay.consumed, since_ms, head.position, head.kept_s, now.wall_ms)
    return () if message is None else (JobWarning("RetentionEnding", message),)


VERBS = {
    ChangeMode.MERGED: "merging the changes",
    ChangeMode.STAGED: "reading the changes",
    ChangeMode.SHIPPED: "shipping the log",
}


def doing(replay: Replay, mode: ChangeMode) -> str:
    """Describe the changes under way; empty if there are none."""
    if isinstance(replay.batch, RunningBatch):
        batch = replay.batch.batch
        first = batch.after + 1
        versions = f"version {first}" if first == batch.upto else f"versions {first} to {batch.upto}"
        parts = replay.parts
        return f"{VERBS[mode]} of {versions}{'' if parts is None else f', part {parts.done + 1} of {parts.of}'}"
    return "waiting for the first poll of the source" if replay.head is None else ""
