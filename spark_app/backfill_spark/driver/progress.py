"""Converts the core's view of a job to the API's `Progress`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from backfill_api.spec.bounds import MESSAGE_MAX, count
from backfill_api.status import progress as api
from backfill_api.status.losses import losses_of
from backfill_api.status.progress import (
    OTHER_PARTITIONS,
    PARTITION_CHARACTERS_MAX,
    WARNINGS_MAX,
    LimitInForce,
    PartitionLag,
    PartitionProgress,
    Progress,
    RefreshProgress,
    StepProgress,
)
from backfill_core.job.controls import Controls
from backfill_core.job.state import JobState
from backfill_core.job.steps import Step
from backfill_core.job.view import JobView
from backfill_core.positions.file_order import OrderWatermark
from backfill_core.positions.offsets import Largest
from backfill_core.positions.partitions import PartitionRows
from backfill_core.protocol.clock import Now
from backfill_core.protocol.eta import Eta
from backfill_core.protocol.refresh import Refresh
from backfill_core.protocol.strategy import JobWarning, StoredSummary
from backfill_core.protocol.work import Position
from backfill_spark.control.wire import format_timestamp
from backfill_spark.ports.source import version_of


def progress_of(view: JobView, moment: Now, say: Callable[[Position | None], str] = lambda _: "") -> Progress:
    """Return the progress that users and the operator see; percentages are rounded down, so that 100 percent means all rows.

    Args:
        view: View of the job.
        moment: Time of the view.
        say: Formats a position as the source displays it.
    """
    strategy, course = view.strategy, view.course
    grid, head = strategy.grid, None if strategy.head is None else strategy.head.position
    seals = sorted(view.seal_seconds)
    return Progress(
        attempt=view.attempt,
        epoch=view.epoch,
        phase=strategy.phase,
        step=course.at,
        steps=tuple(_to_api_step(step) for step in course.steps),
        percent=course.shown,
        rows_total=count(strategy.rows_total),
        rows_done=count(strategy.rows_done),
        rows_filtered=strategy.rows_filtered,
        bad_records=view.bad_records,
        watermark=_to_api_watermark(strategy.watermark),
        position=strategy.position[:MESSAGE_MAX],
        changes_done=count(view.changes_done),
        writer_conflicts=strategy.writer_conflicts,
        bytes_done=count(view.bytes_done),
        splits_total=strategy.splits_done + strategy.splits_left,
        splits_done=strategy.splits_done,
        rows_per_second=count(strategy.rows_per_s),
        consumed_version=version_of(strategy.consumed),
        head_version=version_of(head),
        consumed_position=say(strategy.consumed)[:MESSAGE_MAX],
        head_position=say(head)[:MESSAGE_MAX],
        lag_versions=strategy.lag_versions,
        lag_records=strategy.lag_records,
        lag_by_partition=() if strategy.lag_by_partition is None else tuple(_lags(strategy.lag_by_partition)),
        lag_seconds=count(strategy.lag_ms // 1000),
        **_to_api_eta(course.eta, moment),
        reason=view.reason[:MESSAGE_MAX],
        warnings=tuple(warning.message[:MESSAGE_MAX] for warning in view.warnings),
        warning_codes=tuple(warning.code for warning in view.warnings),
        last_commit_time=None if view.sealed_ms is None else format_timestamp(view.sealed_ms),
        last_barrier_time=None if view.passed_ms is None else format_timestamp(view.passed_ms),
        last_look_time=None if view.looked_ms is None else format_timestamp(view.looked_ms),
        stopping=view.stopping,
        finished=view.finished,
        caught_up=strategy.caught_up,
        executors_lost=losses_of(view.executors_lost),
        non_convergent=strategy.non_convergent,
        quiet=view.quiet,
        **_to_api_controls(view.controls),
        auto_rows_per_second=view.auto_rows_per_s,
        table_version=view.table_version if view.table_version >= 0 else None,
        seal_ms_p50=count(seals[len(seals) // 2] * 1000) if seals else None,
        seal_ms_p99=count(seals[min(len(seals) - 1, len(seals) * 99 // 100)] * 1000) if seals else None,
        grid=grid,
        refresh=_to_api_refresh(view.refresh, say),
        partitions=tuple(map(_to_api_partition, strategy.partitions)),
    )


def while_silent(progress: Progress, warnings: tuple[JobWarning, ...]) -> Progress:
    """Return the newest progress while Java or a commit does not answer: with the warning, without a rate and an ETA."""
    if not warnings:
        return progress
    (warning,) = warnings
    return progress.model_copy(
        update={
            "reason": warning.message,
            "rows_per_second": 0,
            **dict.fromkeys(("eta", "eta_seconds", "eta_seconds_low", "eta_seconds_high")),
            "warnings": (*progress.warnings, warning.message)[-WARNINGS_MAX:],
            "warning_codes": (*progress.warning_codes, warning.code)[-WARNINGS_MAX:],
        }
    )


def progress_of_state(state: JobState, summary: StoredSummary, say: Callable[[Position | None], str]) -> Progress:
    """Return the progress that a target stores; only stored fields are set, with the values that the last driver reported.

    Args:
        state: The stored state.
        summary: The strategy's summary of the state.
        say: Formats a position as the source displays it.
    """
    total = summary.rows_total
    # The output contains only fields that are set, so unknown fields are not set.
    optional: dict[str, Any] = {}
    if total is not None:
        optional |= {"rows_total": total, "splits_total": _splits_total(summary, total)}
    if state.committed_ms is not None:
        optional["last_commit_time"] = format_timestamp(state.committed_ms)
    if state.refresh is not None:
        optional["refresh"] = _to_api_refresh(state.refresh, say)
    return Progress(
        attempt=state.attempt,
        epoch=state.epoch,
        phase=summary.phase,
        percent=100 if state.finished else state.percent,
        rows_done=summary.rows_done,
        rows_filtered=summary.rows_filtered,
        splits_done=summary.splits_done,
        bad_records=state.quarantine.rows,
        position=summary.position[:MESSAGE_MAX],
        changes_done=state.changes_done,
        writer_conflicts=summary.writer_conflicts,
        bytes_done=state.bytes_done,
        consumed_version=version_of(state.consumed),
        consumed_position=say(state.consumed)[:MESSAGE_MAX],
        finished=state.finished,
        **_to_api_controls(state.controls),
        **optional,
    )


def _to_api_refresh(refresh: Refresh | None, say: Callable[[Position | None], str]) -> RefreshProgress | None:
    if refresh is None:
        return None
    return RefreshProgress(
        start=format_timestamp(refresh.began_ms),
        from_version=version_of(refresh.after),
        from_position=say(refresh.after)[:MESSAGE_MAX],
    )


def _splits_total(summary: StoredSummary, rows_total: int) -> int:
    """Estimate the number of splits: the remaining splits have as many rows on average as the finished ones."""
    return summary.splits_done * rows_total // summary.rows_done if summary.rows_done else summary.splits_done


def _to_api_controls(controls: Controls) -> dict[str, Any]:
    until = None if controls.until_ms is None else format_timestamp(controls.until_ms)
    limit = LimitInForce(
        rows_per_second=controls.rows_per_s, bytes_per_second=controls.bytes_per_s, until=until, revision=controls.limited_by,
        origin="Command" if controls.limited_by else "Spec",
    )  # fmt: skip
    return {
        "limit": limit if controls.limited else None,
        "paused": controls.paused,
        "throttle_rows_per_second": controls.rows_per_s,
        "throttle_bytes_per_second": controls.bytes_per_s,
        "throttle_until": until,
        **controls.width.given,
        "revision": controls.revision,
    }


def _to_api_eta(eta: Eta | None, moment: Now) -> dict[str, Any]:
    if eta is None:
        return {}
    seconds = {
        "eta_seconds": count(eta.seconds),
        "eta_seconds_low": count(eta.low),
        "eta_seconds_high": count(eta.high),
    }
    return {"eta": format_timestamp(moment.wall_ms + round(eta.seconds * 1000)), **seconds}


def _lags(lags: Largest) -> Iterator[PartitionLag]:
    for name, records in lags.shown:
        yield PartitionLag(partition=name, records=records)
    if lags.others:
        yield PartitionLag(partition=OTHER_PARTITIONS, records=lags.others_sum)


def _to_api_partition(rows: PartitionRows) -> PartitionProgress:
    return PartitionProgress(
        partition=_cut(OTHER_PARTITIONS if rows.name is None else rows.name, PARTITION_CHARACTERS_MAX),
        rows_done=count(rows.rows_done),
        rows_total=count(rows.rows_total),
        files_done=count(rows.files_done),
        files_total=count(rows.files_total),
    )


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def _to_api_watermark(reached: OrderWatermark | None) -> api.Watermark | None:
    if reached is None:
        return None
    return api.Watermark(column=reached.column, direction=reached.direction, value=reached.value[:MESSAGE_MAX])


def _to_api_step(step: Step) -> StepProgress:
    return StepProgress(
        name=step.name,
        state=step.state,
        seconds=None if step.spent_s is None else count(step.spent_s),
        seconds_left=None if step.left is None else count(step.left.seconds),
    )
