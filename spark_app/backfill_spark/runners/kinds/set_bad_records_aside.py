"""Stages the bad records of some offset ranges for their own table, before the MERGE of the good ones."""

from __future__ import annotations

from backfill_core.protocol.work import BadRecordsAside, SetBadRecordsAside
from backfill_spark.crash_points import crash_point
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsOffsets
from backfill_spark.runners.offset_ranges import check_same_source, describe_ranges, measured
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext


def _run(work: SetBadRecordsAside, context: WorkContext) -> BadRecordsAside:
    unread = measured(work, context.tables.source)
    records = ability(context.tables.source, SupportsOffsets).read_offsets(work.ranges)
    files = context.stage_bad_records(records, what=describe_ranges(work.ranges))
    check_same_source(context)
    crash_point("after_stage")
    return BadRecordsAside(work.work_id, files, unread)


RUNNER = WorkRunner("SetBadRecordsAside", SetBadRecordsAside, _run)
