"""The message that an attempt writes to the pod's termination log when it ends."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, cast

from backfill_api.status.ending import Ending
from backfill_api.status.plan import Plan
from backfill_api.status.progress import Progress, ProgressSummary
from backfill_core.errors import BackfillError
from backfill_spark.control.wire import to_api_receipt
from backfill_spark.driver.attempt import RunOutcome
from backfill_spark.settings import DriverSettings


def of_outcome(outcome: RunOutcome) -> Ending:
    """Return the ending of a run."""
    return Ending(
        outcome=cast("Literal['Complete', 'Stopped', 'Failed']", outcome.outcome),
        reason=outcome.reason,
        message=outcome.message[:4096],
        hint=outcome.hint[:4096],
        outside=outcome.error is not None and outcome.error.outside,
        progress=None if outcome.progress is None else _summary(outcome.progress),
        receipt=None if outcome.receipt is None else to_api_receipt(outcome.receipt).summary,
    )


def of_plan(plan: Plan) -> Ending:
    """Return the ending of a plan."""
    return Ending(outcome="Planned", reason="Planned", plan=plan)


def of_error(error: BackfillError) -> Ending:
    """Return the ending of an attempt that did not start."""
    message, hint = error.message[:4096], error.hint[:4096]
    return Ending(outcome="Failed", reason=error.reason, message=message, hint=hint, outside=error.outside)


def leave(settings: DriverSettings, ending: Ending) -> None:
    """Write an ending to the termination log for the kubelet, with the attempt's token; do nothing if no log is set."""
    if settings.termination_log is not None:
        token = ""
        if settings.control_token_file is not None:
            with suppress(OSError, UnicodeDecodeError):  # the driver reports an unreadable token file elsewhere
                token = settings.control_token_file.read_text().strip()[:128]
        signed = ending.model_copy(update={"token": token})
        settings.termination_log.write_text(signed.text(), encoding="utf-8")


def _summary(progress: Progress) -> ProgressSummary:
    return ProgressSummary(**{name: getattr(progress, name) for name in ProgressSummary.model_fields})
