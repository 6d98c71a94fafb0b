"""The message that an attempt leaves in the pod's termination log when it ends."""

from __future__ import annotations

from typing import Literal, cast

from backfill_api.status.ending import Ending
from backfill_api.status.plan import Plan
from backfill_api.status.progress import Progress, ProgressSummary
from backfill_api.status.receipt import ReceiptSummary
from backfill_core.errors import BackfillError
from backfill_core.protocol.receipt import Receipt
from backfill_spark.driver.attempt import RunOutcome
from backfill_spark.settings import DriverSettings

MISMATCHES_SHOWN_MAX = 16


def of_outcome(outcome: RunOutcome) -> Ending:
    """Return how a run ended."""
    return Ending(
        outcome=cast("Literal['Complete', 'Stopped', 'Failed']", outcome.outcome),
        reason=outcome.reason,
        message=outcome.message[:4096],
        hint=outcome.hint[:4096],
        progress=None if outcome.progress is None else _summary(outcome.progress),
        receipt=None if outcome.receipt is None else _receipt(outcome.receipt),
    )


def of_plan(plan: Plan) -> Ending:
    """Return what a plan found."""
    return Ending(outcome="Planned", reason="Planned", plan=plan)


def of_error(error: BackfillError) -> Ending:
    """Return why something did not start."""
    return Ending(outcome="Failed", reason=error.reason, message=error.message[:4096], hint=error.hint[:4096])


def leave(settings: DriverSettings, ending: Ending) -> None:
    """Write it where the kubelet looks; without such a place, nowhere."""
    if settings.termination_log is not None:
        settings.termination_log.write_text(ending.text(), encoding="utf-8")


def _summary(progress: Progress) -> ProgressSummary:
    return ProgressSummary(**{name: getattr(progress, name) for name in ProgressSummary.model_fields})


def _receipt(receipt: Receipt) -> ReceiptSummary:
    return ReceiptSummary(
        source_version=receipt.source_version,
        target_version=receipt.target_version,
        epoch=receipt.epoch,
        rows=receipt.rows,
        mismatches=len(receipt.mismatches),
        mismatched_vnodes=tuple(one.vnode for one in receipt.mismatches[:MISMATCHES_SHOWN_MAX]),
        digest=receipt.digest,
        complete=receipt.complete,
        rows_filtered=receipt.rows_filtered,
        rows_total=receipt.rows_total,
    )
