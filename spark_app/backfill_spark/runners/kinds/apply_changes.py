"""Brings versions of the source into the target: by MERGE, or staged like a split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.errors import StateMovedError
from backfill_core.protocol.work import ApplyChanges, ChangesApplied
from backfill_spark.crash_points import crash_point
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import SupportsMerge
from backfill_spark.ports.source import SupportsChanges
from backfill_spark.ports.work import WorkContext
from backfill_spark.rows.changes import check_net_changes
from backfill_spark.rows.key_ranges import within
from backfill_spark.runners.runner import WorkRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _run(work: ApplyChanges, context: WorkContext) -> ChangesApplied:
    job, source = context.job, ability(context.job.source, SupportsChanges)
    source.check_versions(work.after, work.upto)
    changes = source.changes(work.after, work.upto)
    bound = None if work.bound is None else within(work.bound)
    rows = job.mode.change_rows(changes, job.transform, key=job.key, epoch=work.epoch, within=bound)
    if job.mode.merges:
        return _merge(work, context, rows)
    files = context.stage(rows, what=f"the changes of versions {work.after + 1} to {work.upto}")
    return ChangesApplied(work.work_id, sum(file.rows for file in files), files)


def _merge(work: ApplyChanges, context: WorkContext, rows: DataFrame) -> ChangesApplied:
    job = context.job
    sink = ability(job.sink, SupportsMerge)
    # Computed once, and not by cache(): Delta refuses a MERGE whose source is cached.
    net = job.sink.as_stored(rows).localCheckpoint()
    changed = check_net_changes(net, job.key)
    if changed == 0:
        return ChangesApplied(work.work_id, 0)
    context.begin_effect()
    crash_point("before_merge")
    sink.merge(net, app_id=job.committer.app_id, txn_version=work.txn_version)
    crash_point("after_merge")
    return ChangesApplied(work.work_id, changed)


def _took_effect(work: ApplyChanges, context: WorkContext) -> ChangesApplied | None:
    """Is a MERGE in the target whose answer was lost?

    Doing it again under another number would be right too, but the state must not say less than the target holds.
    """
    if not context.job.mode.merges:
        return None
    try:
        there = context.job.committer.read_state().txn_version == work.txn_version
    except Exception as error:
        # The reason does not matter: what happened is unknown.
        raise StateMovedError(
            f"the changes up to version {work.upto} may be in the target, which cannot be read now: {error}",
            hint="Start the job again: it looks first.",
        ) from error
    return ChangesApplied(work.work_id, 0) if there else None


RUNNER = WorkRunner("ApplyChanges", ApplyChanges, _run, _took_effect)
