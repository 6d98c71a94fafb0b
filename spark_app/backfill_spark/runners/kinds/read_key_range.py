"""Stages the transformed rows of one version between two key positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.errors import SnapshotExpiredError, TransientError
from backfill_core.positions.key_order import KeyPosition
from backfill_core.positions.key_scan import KeyScan
from backfill_core.protocol.work import KeyRangeStaged, ReadKeyRange
from backfill_spark.crash_points import crash_point
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsKeyRanges
from backfill_spark.rows.columns import check_one_row_a_key
from backfill_spark.rows.counted_rows import CountedRows
from backfill_spark.rows.key_ranges import nth_position, of_vnodes, upto
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _run(work: ReadKeyRange, context: WorkContext) -> KeyRangeStaged:
    crash_point("before_stage")
    try:
        staged = _stage(work, context)
    except Exception as error:
        # Only missing files of an old version are translated; other errors are raised unchanged.
        if _is_expired(work, context, error):
            raise TransientError(
                f"files of version {work.version} of the source are gone; the range is read at a newer version: {error}"
            ) from error
        raise
    crash_point("after_stage")
    return staged


def _stage(work: ReadKeyRange, context: WorkContext) -> KeyRangeStaged:
    tables = context.tables
    rows, last = _rows(work, context)
    # Without a filter, the staged files have the number of rows.
    counted = None if tables.transform.where is None else CountedRows(tables.spark, rows)
    view = tables.transform.apply(rows if counted is None else counted.frame)
    # Spark gives free cores to changes first, but never takes a core from a running task.
    tasks = max(1, tables.spark.sparkContext.defaultParallelism // work.readers)
    files = context.stage(
        tables.mode.history_rows(view, epoch=work.epoch, version=work.version).coalesce(tasks),
        what=f"a range of the key at version {work.version}",
    )
    if work.proves_key:
        check_one_row_a_key(tables.transform.apply(rows), tables.key, what=f"version {work.version} of the source")
    read = sum(file.rows for file in files) if counted is None else counted.rows()
    return KeyRangeStaged(work.work_id, files, read, last, _new_line(work, context) if last is not None else None)


def _new_line(work: ReadKeyRange, context: WorkContext) -> KeyScan | None:
    if not work.takes_cuts:
        return None
    source, cut_rows = context.tables.source, context.tables.spec.strategy.params.rows_per_cut
    return ability(source, SupportsKeyRanges).key_line_at(work.version, work.space, cut_rows=cut_rows)


def _rows(work: ReadKeyRange, context: WorkContext) -> tuple[DataFrame, KeyPosition | None]:
    """Return the rows to read, and the position of the last one; `None` if `rows_max` does not cut the range."""
    source, order = ability(context.tables.source, SupportsKeyRanges), work.space.order
    rows = source.key_range(work.version, order, work.low, work.high).where(of_vnodes(work.space, work.vnodes))
    last = None if work.rows_max is None else nth_position(rows, order, work.rows_max)
    return rows if last is None else rows.where(upto(order, last)), last


def _is_expired(work: ReadKeyRange, context: WorkContext, error: Exception) -> bool:
    """Return True if a VACUUM removed files of a version that is no longer the newest."""
    tables = context.tables
    return isinstance(tables.explain(error), SnapshotExpiredError) and work.version < tables.source.head().position


RUNNER = WorkRunner("ReadKeyRange", ReadKeyRange, _run)
