"""Merges the last record of each key in some offset ranges into the target, in one MERGE."""

from __future__ import annotations

from backfill_core.protocol.work import MergeOffsetRanges, OffsetRangesMerged
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsOffsets
from backfill_spark.records.folding import PARTITION, SPREAD_HINT, FoldingTransform
from backfill_spark.records.parsing import bad_record, is_bad
from backfill_spark.rows.changes import check_net_changes
from backfill_spark.rows.counted_rows import CountedPartitions, CountedRows
from backfill_spark.runners.merging import is_merged, merge
from backfill_spark.runners.offset_ranges import check_same_source, describe_ranges, measured
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext


def _run(work: MergeOffsetRanges, context: WorkContext) -> OffsetRangesMerged:
    tables, transform, what = context.tables, context.tables.transform, describe_ranges(work.ranges)
    assert isinstance(transform, FoldingTransform), "a target with one row per key has a folding transform"
    unread = measured(work, tables.source)
    records = ability(tables.source, SupportsOffsets).read_offsets(work.ranges)
    of_partitions = CountedPartitions(tables.spark, records, len(work.ranges))
    judged = CountedRows(tables.spark, transform.judged(of_partitions.frame), only=is_bad())
    # Computed once, but not with cache(): Delta rejects a MERGE whose source is cached.
    net = tables.sink.as_stored(transform.folded(judged.frame).drop(PARTITION)).localCheckpoint()
    bad = judged.rows()
    if bad and not work.skips_bad:
        raise bad_record(transform.bad(transform.judged(records)), bad, what)
    changed = check_net_changes(net, tables.key, doubled="has records in several partitions", hint=SPREAD_HINT)
    check_same_source(context)
    if changed:
        merge(net, context, work.txn_version)
    return OffsetRangesMerged(work.work_id, changed, of_partitions.records(), unread)


def _took_effect(work: MergeOffsetRanges, context: WorkContext) -> OffsetRangesMerged | None:
    """Return the result if the target contains the MERGE whose result was lost; its record counts are lost too."""
    if not is_merged(context, work.txn_version, f"the last records of {describe_ranges(work.ranges)}"):
        return None
    return OffsetRangesMerged(work.work_id, 0, {})


RUNNER = WorkRunner("MergeOffsetRanges", MergeOffsetRanges, _run, _took_effect)
