"""Looks at a job that no driver works on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from backfill_api import receipt as words
from backfill_api.spec import Backfill
from backfill_core.errors import StateMismatchError
from backfill_core.sizing import pieces
from backfill_spark.loop import now
from backfill_spark.opening import open_job, session_for
from backfill_spark.settings import DriverSettings
from backfill_spark.verify import differing_rows, take_receipt
from backfill_spark.wire_commands import receipt_words


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
            raise StateMismatchError("the target has no state of this job.", cure="Run the job first.")
        progress = state.progress
        if progress["phase"] == "Snapshot":
            prefix = [0]
            for rows in opened.pinned.rows:
                prefix.append(prefix[-1] + rows)
            done = [piece for start, stop in progress["done"] for piece in pieces(prefix, start, stop)]
            source = opened.source.read(done)
        else:
            source = opened.source.at(progress["consumed"])
        view = opened.sink.as_stored(opened.transform.apply(source))
        target = opened.sink.at(opened.stored.table_version)
        key = backfill.spec.key
        vnodes = backfill.spec.strategy.snapshot.vnodes
        changelog = backfill.spec.target.delta.write_mode == "Changelog"
        receipt = take_receipt(
            view, target, key=key, vnodes=vnodes,
            source_version=progress["consumed"], target_version=opened.stored.table_version, epoch=state.epoch,
            changelog=changelog,
        )  # fmt: skip
        examples = []
        if explain and not receipt.equal:
            wrong = tuple(one.vnode for one in receipt.mismatches)
            examples = differing_rows(view, target, key=key, vnodes=vnodes, wrong=wrong, changelog=changelog)
        return receipt_words(replace(receipt, verified_ms=now().wall_ms)), examples
