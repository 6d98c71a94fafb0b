"""Stages file ranges of the pinned version: copies the files that need no decoding, reads and transforms the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.phases.accounting import check_read
from backfill_core.protocol.work import ReadSplit, SplitStaged, StagedFile
from backfill_spark.crash_points import crash_point
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsPin
from backfill_spark.ports.work import WorkContext
from backfill_spark.runners.runner import WorkRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _run(work: ReadSplit, context: WorkContext) -> SplitStaged:
    job, source = context.job, ability(context.job.source, SupportsPin)
    crash_point("before_stage")
    if work.boundaries:
        files = _stage_segments(work, context)
    else:
        files, left = context.copy(work.ranges)
        if left:
            files += context.stage(_history(work, context, source.read(left)), what=_words(work))
    crash_point("after_stage")
    if not job.transform.where and all(one.whole for one in work.ranges):
        read = sum(file.rows for file in files)
        check_read(_words(work), read=read, promised=source.live_rows(work.ranges))
    return SplitStaged(work.work_id, files)


def _stage_segments(work: ReadSplit, context: WorkContext) -> tuple[StagedFile, ...]:
    """Stage all segments of a split in one job, as each would be staged alone."""
    job = context.job
    read, label = ability(job.source, SupportsPin).read_segments(work.segment_ranges)
    return context.stage_segments(_history(work, context, read, label), label=label, what=_words(work))


def _history(work: ReadSplit, context: WorkContext, rows: DataFrame, *labels: str) -> DataFrame:
    job = context.job
    return job.mode.history_rows(job.transform.apply(rows, *labels), epoch=work.epoch, version=job.pinned.version)


def _words(work: ReadSplit) -> str:
    return f"rows {work.start} to {work.stop} of the snapshot"


RUNNER = WorkRunner("ReadSplit", ReadSplit, _run)
