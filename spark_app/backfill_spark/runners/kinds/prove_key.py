"""Proves that the target holds one row per key."""

from __future__ import annotations

from backfill_core.protocol.work import KeyProven, ProveKey
from backfill_spark.rows.columns import check_one_row_a_key
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext


def _run(work: ProveKey, context: WorkContext) -> KeyProven:
    check_one_row_a_key(context.tables.sink.at(work.target_version), context.tables.key, what="the target")
    return KeyProven(work.work_id)


RUNNER = WorkRunner("ProveKey", ProveKey, _run)
