"""Applies versions of the source to the target: by MERGE, or staged like a split. Appended files are copied if possible.

A batch that is too large for one MERGE is cut into parts of its keys instead; each part is another piece of work (ADR 0063).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.protocol.work import ApplyChanges, ChangesApplied, ChangesCut
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsChanges, SupportsChangeSizes
from backfill_spark.rows.change_cuts import cuts_of, order_of, share_of
from backfill_spark.rows.changes import changed_keys, check_net_changes, net_changes
from backfill_spark.rows.key_ranges import between, within
from backfill_spark.runners.appended_files import stage_appended
from backfill_spark.runners.merging import is_merged, merge
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _run(work: ApplyChanges, context: WorkContext) -> ChangesApplied | ChangesCut:
    tables, source = context.tables, ability(context.tables.source, SupportsChanges)
    source.check_versions(work.after, work.upto)
    copied = None if tables.mode.merges or work.bound is not None else stage_appended(work.after, work.upto, context)
    if copied is not None:
        return ChangesApplied(work.work_id, sum(file.rows for file in copied), copied)
    changes = source.changes(work.after, work.upto)
    bound = None if work.bound is None else within(work.bound)
    cut = _cut(work, context, changes, bound) if tables.mode.merges else None
    if cut is not None:
        return cut
    if work.part is not None:
        part = between(work.part.order, work.part.low, work.part.high)
        return _merge(work, context, net_changes(changes, tables.transform, tables.key, within=bound, part=part))
    rows = tables.mode.change_rows(changes, tables.transform, key=tables.key, epoch=work.epoch, within=bound)
    if tables.mode.merges:
        return _merge(work, context, rows)
    files = context.stage(rows, what=f"the changes of versions {work.after + 1} to {work.upto}")
    return ChangesApplied(work.work_id, sum(file.rows for file in files), files)


def _cut(work: ApplyChanges, context: WorkContext, changes: DataFrame, bound: Column | None) -> ChangesCut | None:
    """Cut changes that are too large for one MERGE; `None` if they are not, or if their keys cannot be cut.

    Of changes within a bound, their share of all images counts.
    """
    source, tables = context.tables.source, context.tables
    if work.part_bytes is None or not isinstance(source, SupportsChangeSizes):
        return None
    size = source.changed_bytes(work.after, work.upto)
    if bound is not None and size > work.part_bytes:
        size = int(size * share_of(changes, bound))
    parts = -(-size // work.part_bytes)
    if parts < 2:
        return None
    keys = changed_keys(changes, tables.transform, tables.key, bound)
    order = order_of(keys.schema)
    cuts = () if order is None else cuts_of(keys, order, parts)
    return ChangesCut(work.work_id, order, cuts) if order is not None and cuts else None


def _merge(work: ApplyChanges, context: WorkContext, rows: DataFrame) -> ChangesApplied:
    tables = context.tables
    # Computed once, but not with cache(): Delta rejects a MERGE whose source is cached.
    net = tables.sink.as_stored(rows).localCheckpoint()
    changed = check_net_changes(net, tables.key)
    if changed == 0:
        return ChangesApplied(work.work_id, 0)
    merge(net, context, work.txn_version, work.part)
    return ChangesApplied(work.work_id, changed)


def _took_effect(work: ApplyChanges, context: WorkContext) -> ChangesApplied | None:
    if not context.tables.mode.merges:
        return None
    what = f"the changes up to version {work.upto}"
    return ChangesApplied(work.work_id, 0) if is_merged(context, work.txn_version, what) else None


RUNNER = WorkRunner("ApplyChanges", ApplyChanges, _run, _took_effect)
