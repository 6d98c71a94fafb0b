"""Reads offsets of some partitions of a source, transforms the records, and stages them."""

from __future__ import annotations

from backfill_core.errors import MADE_AGAIN_HINT, SourceReplacedError
from backfill_core.positions.offsets import OffsetRange, Subscribed, count
from backfill_core.protocol.work import OffsetRangesStaged, ReadOffsetRanges, WorkKind
from backfill_spark.crash_points import crash_point
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsOffsets
from backfill_spark.ports.work import WorkContext
from backfill_spark.rows.counted_rows import CountedPartitions
from backfill_spark.runners.runner import WorkRunner


def _run(work: ReadOffsetRanges, context: WorkContext) -> OffsetRangesStaged:
    crash_point("before_stage")
    job = context.job
    rows = ability(job.source, SupportsOffsets).read_offsets(work.ranges)
    # Records of history are counted by partition; how many new ones there were is told by the files.
    history = work.kind is WorkKind.HISTORY
    counted = CountedPartitions(job.spark, rows, len(work.ranges)) if history else None
    files = context.stage_records(rows if counted is None else counted.frame, what=_words(work.ranges))
    _check_same_source(context)
    crash_point("after_stage")
    return OffsetRangesStaged(work.work_id, files, {} if counted is None else counted.records())


def _words(ranges: tuple[OffsetRange, ...]) -> str:
    first = ranges[0]
    if len(ranges) == 1:
        return f"the offsets {first.start} to {first.stop} of partition {first.partition}"
    return f"{count(ranges)} offsets of {len(ranges)} partitions, from offset {first.start} of partition {first.partition} on"


def _check_same_source(context: WorkContext) -> None:
    """Refuse what was read if the source was made again: another one has other records at these offsets.

    Raises:
        SourceReplacedError: it was, before the read or during it.
    """
    source, opened = context.job.source, context.job.opened.found
    if isinstance(opened, Subscribed) and source.head().source_id != opened.source_id:
        raise SourceReplacedError(
            f"{source.path} is another one than when the attempt began.",
            hint=MADE_AGAIN_HINT,
        )


RUNNER = WorkRunner("ReadOffsetRanges", ReadOffsetRanges, _run)
