"""Looks at a job that no driver works on."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

from backfill_api.spec.spec import Backfill
from backfill_api.status import receipt as words
from backfill_core.errors import StateMismatchError
from backfill_spark.control.wire import receipt_words
from backfill_spark.driver.event_loop import now
from backfill_spark.driver.job_context import open_job, session_for
from backfill_spark.rows.comparison import Comparison
from backfill_spark.settings import DriverSettings


def verify_offline(
    backfill: Backfill, *, settings: DriverSettings, explain: bool = False
) -> tuple[words.Receipt, list[tuple[str, dict[str, Any]]]]:
    """Take a receipt of a target at its newest version; with `explain` also rows that differ.

    Raises:
        StateMismatchError: the target has no state of this job.
        BackfillError: a table cannot be opened.
    """
    with session_for(backfill, settings, app_name="backfill verify", given=None) as spark:
        opened = open_job(spark, backfill)
        state = opened.state
        if state is None:
            raise StateMismatchError("the target has no state of this job.", hint="Run the job first.")
        progress = state.progress
        compared = Comparison(
            source=opened.source,
            sink=opened.sink,
            transform=opened.transform,
            key=backfill.spec.key,
            vnodes=backfill.spec.strategy.params.vnodes,
            prefix=list(accumulate(opened.pinned.rows, initial=0)),
            changelog=backfill.spec.target.params.write_mode == "Changelog",
            source_version=progress["consumed"],
            target_version=opened.stored.table_version,
            done=tuple((start, stop) for start, stop in progress["done"]) if progress["phase"] == "Snapshot" else None,
        )
        with opened.in_our_words():
            receipt = compared.receipt(epoch=state.epoch)
            examples = compared.examples(receipt) if explain and not receipt.equal else []
        return receipt_words(replace(receipt, verified_ms=now().wall_ms)), examples
