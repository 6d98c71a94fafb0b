"""Runner that reads offsets of a source and stages them: a strategy of another distribution brings it for the driver."""

from __future__ import annotations

from backfill_core.positions.offsets import OffsetRange
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsOffsets
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext

from .work import OffsetsRead, ReadOffsets


def _run(work: ReadOffsets, context: WorkContext) -> OffsetsRead:
    tables = context.tables
    rows = ability(tables.source, SupportsOffsets).read_offsets((OffsetRange(work.partition, work.start, work.stop),))
    what = f"the offsets {work.start} to {work.stop} of partition {work.partition}"
    return OffsetsRead(work.work_id, context.stage_records(rows, what=what))


RUNNER = WorkRunner("ReadOffsets", ReadOffsets, _run)
