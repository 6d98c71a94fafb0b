"""Applies versions of the source's log to the target's files: copies added files, removes removed ones, updates vectors."""

from __future__ import annotations

from backfill_core.log_shipping.folding import beginning, fold
from backfill_core.protocol.work import ShipVersions, VersionsShipped
from backfill_spark.crash_points import crash_point
from backfill_spark.log_shipping.new_columns import new_columns
from backfill_spark.log_shipping.staged_step import check_known, stage_step
from backfill_spark.opening.shipping import reopened_at
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import SupportsShipping
from backfill_spark.ports.source import SupportsFiles, SupportsLog
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext


def _run(work: ShipVersions, context: WorkContext) -> VersionsShipped:
    source, sink = ability(context.tables.source, SupportsLog), ability(context.tables.sink, SupportsShipping)
    crash_point("before_stage")
    versions = beginning(source.log_actions(work.after, work.upto), bytes_max=work.bytes_max)
    files_now = sink.target_files(lambda: _paths_of(work.after, context))
    check_known(files_now, sink.path)
    step = files_now.step(fold(versions))
    upto = versions[-1].version
    # A version with another layout is never combined with others.
    columns = None if versions[0].layout is None else new_columns(versions[0], work.after, context)
    if columns is not None and columns.reopens:
        context = context.with_tables(reopened_at(context.tables, upto, columns))
    files, removed = stage_step(step, upto, context)
    crash_point("after_stage")
    changes = sum(version.rows_changed for version in versions)
    return VersionsShipped(work.work_id, upto, files, removed, changes, columns)


def _paths_of(version: int, context: WorkContext) -> list[str]:
    """Return the paths of the source's files in a version."""
    return [file.path for file in ability(context.tables.source, SupportsFiles).files_of(version)]


RUNNER = WorkRunner("ShipVersions", ShipVersions, _run)
