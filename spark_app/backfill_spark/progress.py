"""The core's view in the words of the contract."""

from __future__ import annotations

from backfill_api.progress import Progress
from backfill_core.job import JobView
from backfill_core.ports import Now
from backfill_spark.wire_commands import moment_words


def progress_of(view: JobView, moment: Now) -> Progress:
    """Return what people and the operator see; rounds down, so that 100 percent means all."""
    strategy, controls = view.strategy, view.controls
    grid = strategy.grid
    percent = 100 if strategy.phase != "Snapshot" else sum(grid) // len(grid) if grid else 0
    seals = sorted(view.seal_seconds)
    return Progress(
        attempt=view.attempt,
        epoch=view.epoch,
        phase=strategy.phase,
        percent=percent,
        rows_total=strategy.rows_total,
        rows_done=strategy.rows_done,
        changes_done=view.changes_done,
        bytes_done=view.bytes_done,
        splits_total=strategy.splits_done + strategy.splits_left,
        splits_done=strategy.splits_done,
        rows_per_second=round(strategy.rows_per_s),
        consumed_version=strategy.consumed if strategy.phase != "Snapshot" else None,
        head_version=None if strategy.head is None else strategy.head.version,
        lag_versions=strategy.lag_versions,
        lag_seconds=strategy.lag_ms // 1000,
        eta_seconds=_whole(strategy.eta_s),
        eta_seconds_low=_whole(strategy.eta_low_s),
        eta_seconds_high=_whole(strategy.eta_high_s),
        eta=None if strategy.eta_s is None else moment_words(moment.wall_ms + round(strategy.eta_s * 1000)),
        reason=view.reason,
        warnings=strategy.warnings,
        last_seal_time=None if view.sealed_ms is None else moment_words(view.sealed_ms),
        stopping=view.stopping,
        caught_up=strategy.caught_up,
        non_convergent=strategy.non_convergent,
        paused=controls.paused,
        quiet=view.quiet,
        throttle_rows_per_second=controls.rows_per_s,
        throttle_until=None if controls.until_ms is None else moment_words(controls.until_ms),
        revision=controls.revision,
        table_version=view.table_version if view.table_version >= 0 else None,
        seal_ms_p50=round(seals[len(seals) // 2] * 1000) if seals else None,
        seal_ms_p99=round(seals[min(len(seals) - 1, len(seals) * 99 // 100)] * 1000) if seals else None,
        grid=grid,
    )


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds)
