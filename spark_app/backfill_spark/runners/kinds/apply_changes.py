"""Applies versions of the source to the target: by MERGE, or staged like a split. Appended files are copied if possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.protocol.work import ApplyChanges, ChangesApplied
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsChanges
from backfill_spark.rows.changes import check_net_changes
from backfill_spark.rows.key_ranges import within
from backfill_spark.runners.appended_files import stage_appended
from backfill_spark.runners.merging import is_merged, merge
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _run(work: ApplyChanges, context: WorkContext) -> ChangesApplied:
    tables, source = context.tables, ability(context.tables.source, SupportsChanges)
    source.check_versions(work.after, work.upto)
    copied = None if tables.mode.merges or work.bound is not None else stage_appended(work.after, work.upto, context)
    if copied is not None:
        return ChangesApplied(work.work_id, sum(file.rows for file in copied), copied)
    changes = source.changes(work.after, work.upto)
    bound = None if work.bound is None else within(work.bound)
    rows = tables.mode.change_rows(changes, tables.transform, key=tables.key, epoch=work.epoch, within=bound)
    if tables.mode.merges:
        return _merge(work, context, rows)
    files = context.stage(rows, what=f"the changes of versions {work.after + 1} to {work.upto}")
    return ChangesApplied(work.work_id, sum(file.rows for file in files), files)


def _merge(work: ApplyChanges, context: WorkContext, rows: DataFrame) -> ChangesApplied:
    tables = context.tables
    # Computed once, but not with cache(): Delta rejects a MERGE whose source is cached.
    net = tables.sink.as_stored(rows).localCheckpoint()
    changed = check_net_changes(net, tables.key)
    if changed == 0:
        return ChangesApplied(work.work_id, 0)
    merge(net, context, work.txn_version)
    return ChangesApplied(work.work_id, changed)


def _took_effect(work: ApplyChanges, context: WorkContext) -> ChangesApplied | None:
    if not context.tables.mode.merges:
        return None
    what = f"the changes up to version {work.upto}"
    return ChangesApplied(work.work_id, 0) if is_merged(context, work.txn_version, what) else None


RUNNER = WorkRunner("ApplyChanges", ApplyChanges, _run, _took_effect)
