"""Stages the transformed records of some offset ranges."""

from __future__ import annotations

from backfill_core.protocol.work import OffsetRangesStaged, ReadOffsetRanges, WorkKind
from backfill_spark.crash_points import crash_point
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsOffsets
from backfill_spark.rows.counted_rows import CountedPartitions
from backfill_spark.runners.offset_ranges import check_same_source, describe_ranges, measured
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext


def _run(work: ReadOffsetRanges, context: WorkContext) -> OffsetRangesStaged:
    crash_point("before_stage")
    tables = context.tables
    unread = measured(work, tables.source)
    rows = ability(tables.source, SupportsOffsets).read_offsets(work.ranges)
    # History is counted by partition; for new records, the row count of the files is enough.
    history = work.kind is WorkKind.HISTORY
    counted = CountedPartitions(tables.spark, rows, len(work.ranges)) if history else None
    files = context.stage_records(rows if counted is None else counted.frame, what=describe_ranges(work.ranges))
    check_same_source(context)
    crash_point("after_stage")
    return OffsetRangesStaged(work.work_id, files, {} if counted is None else counted.records(), unread)


RUNNER = WorkRunner("ReadOffsetRanges", ReadOffsetRanges, _run)
