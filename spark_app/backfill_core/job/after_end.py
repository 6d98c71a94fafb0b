"""Endings: requests that an ended job refuses, and the message for a stop before the first commit of an attempt."""

from __future__ import annotations

from backfill_api.amounts import counted
from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import BackfillError, InvalidSpecError
from backfill_core.job.state import JobState
from backfill_core.protocol.after_end import unmet_after_end
from backfill_core.protocol.receipt import TableReceipt


def refuse_after_end(spec: BackfillSpec, receipt: TableReceipt | None) -> BackfillError | None:
    """Return the error if an ended job does not meet its spec; `None` if nothing is missing.

    Args:
        spec: Spec of the new attempt.
        receipt: Last receipt of the job; `None` if it took none.
    """
    compared = receipt is not None and (receipt.complete or bool(receipt.cut_off))
    by_bytes = 0 if receipt is None else receipt.files_by_bytes
    match unmet_after_end(spec, compared=compared, files_by_bytes=by_bytes):
        case "Follow":
            return InvalidSpecError(
                "spec.after is Follow, and the job has ended: a job that has ended does not follow its source.",
                hint="Set after: Exit, or give a new job another jobId and another target.",
            )
        case "Receipt":
            return InvalidSpecError(
                f"spec.verify is {spec.verify}, and the job ended without a receipt of all rows.",
                hint="Compare both tables with `backfill verify`, and set verify: None.",
            )
        case "ReceiptByRows":
            return InvalidSpecError(
                f"spec.verify is FinalByRows, and the receipt compared {counted(by_bytes, 'file')} by their bytes.",
                hint="Compare both tables with `backfill verify --rows`, and set verify: Final.",
            )
        case None:
            return None


def describe_early_stop(state: JobState | None) -> str:
    """Describe the target after a stop that precedes the first commit of an attempt.

    Args:
        state: State from earlier attempts; `None` if the target contains no state, or was not read yet.
    """
    if state is None:
        return "stopped before this attempt wrote anything; run it again"
    done = f"{counted(state.rows_done, 'row')} and {counted(state.changes_done, 'change')}"
    return f"stopped before this attempt wrote anything; the target holds {done} of attempt {state.attempt}; run it again to go on"
