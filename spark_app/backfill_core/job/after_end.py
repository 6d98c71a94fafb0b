"""Endings: the decision of a run of a job that has ended, and the message for a stop before the first commit of an attempt.

A run of an ended job:

run       spec                                source                       decision
-------   ---------------------------------   --------------------------   -----------------------------------------------
any       after: Follow                       not read                     Continue: the job is unfinished from its fence on
run       after: Exit, nothing is missing     not read                     Stay: nothing is read or written
run       after: Exit, no required receipt    not read                     Refuse
refresh   after: Exit                         not read yet                 ReadHead, then one of the next three
refresh   after: Exit, nothing is missing     at the consumed position     Stay: nothing is written
refresh   after: Exit, no required receipt    at the consumed position     Continue: the receipt is taken
refresh   after: Exit                         at another position          Continue
refresh   any                                 another source               Refuse
refresh   a scope of the target               not read                     Refuse
any       Follow, or a refresh: a strategy    not read                     Refuse
          that ends for good
"""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.amounts import counted
from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import (
    RECREATED_HINT,
    BackfillError,
    ChangeFeedExpiredError,
    InvalidSpecError,
    OffsetsExpiredError,
    SnapshotExpiredError,
    SourceReplacedError,
)
from backfill_core.job.state import JobState
from backfill_core.pacing.open_transactions import describe_cut_off
from backfill_core.protocol.actions import Finish
from backfill_core.protocol.after_end import Unmet, unmet_after_end
from backfill_core.protocol.events import Head
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.strategy import StrategyStatus


@dataclass(frozen=True, slots=True)
class Stay:
    """The job stays as it ended."""

    reason: str
    """AlreadyComplete, or UpToDate if the source was read and has nothing new."""

    message: str


@dataclass(frozen=True, slots=True)
class Continue:
    """The job takes the changes after its consumed position."""


@dataclass(frozen=True, slots=True)
class ReadHead:
    """The decision needs the newest position of the source."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The spec or the source does not allow the run."""

    error: BackfillError


AfterEnd = Stay | Continue | ReadHead | Refuse


def decide_after_end(
    spec: BackfillSpec, state: JobState, *, refresh: bool, head: Head | None = None, source_id: str = ""
) -> AfterEnd:
    """Decide what a run of an ended job does; see the module.

    Args:
        spec: Spec of the run.
        state: The finished state.
        refresh: True if the run is a refresh.
        head: Newest position of the source; `None` if the source was not read.
        source_id: Identity of the source that the job read; empty if unknown.
    """
    if refresh and spec.target.params.scope is not None:
        return Refuse(_refused_scope(spec))
    unmet = _unmet(spec, state.receipt)
    if refresh and spec.strategy.params.ENDS_FOR_GOOD:
        return Refuse(_refused_strategy(spec, "a refresh"))
    if unmet == "Follow":
        return Refuse(_refused_strategy(spec, "spec.after: Follow"))
    if spec.after == "Follow":
        return Continue()
    if not refresh:
        return Refuse(_missing(spec, state.receipt, unmet)) if unmet else Stay("AlreadyComplete", ALREADY_COMPLETE)
    if head is None:
        return ReadHead()
    if source_id and head.source_id and head.source_id != source_id:
        return Refuse(SourceReplacedError("another source is at the path since the job ended.", hint=RECREATED_HINT))
    if unmet or _differs(head, state):
        return Continue()
    return Stay("UpToDate", "the source has nothing new since the job ended, so the refresh wrote nothing")


CUT_OFF_HINT = (
    "End these transactions. Then copy the missing records with another job: set partitionStartingOffsets to these offsets, and "
    "set existingRows to Keep."
)


def finish_complete(status: StrategyStatus) -> Finish:
    """Return the end of a complete job: its message names missing records, or the version to which RESTORE undoes the job."""
    if status.cut_off:
        return Finish("Complete", message=describe_cut_off(status.cut_off), hint=CUT_OFF_HINT)
    undo = status.undo_version
    message = f"RESTORE TABLE to version {undo} undoes the job, and later changes of other writers"
    return Finish("Complete", message="" if undo is None else message)


ALREADY_COMPLETE = "the job is already finished, as its state in the target records"


def _differs(head: Head, state: JobState) -> bool:
    consumed = state.consumed
    if isinstance(head.position, int) or consumed is None or isinstance(consumed, int):
        return bool(head.position != consumed)
    # A partition without a record is at offset 0.
    names = head.position.keys() | consumed.keys()
    return any(head.position.get(name, 0) != consumed.get(name, 0) for name in names)


def _refused_strategy(spec: BackfillSpec, requested: str) -> InvalidSpecError:
    return InvalidSpecError(
        f"spec.strategy.type is {spec.strategy.type}, which does not allow {requested} of a job that has ended: "
        f"{spec.strategy.params.ENDS_FOR_GOOD}.",
        hint="Give a new job another jobId, another target and another strategy.",
    )


def _refused_scope(spec: BackfillSpec) -> InvalidSpecError:
    return InvalidSpecError(
        f"spec.target.{spec.target.member}.scope is set, and a job with a scope applies no later changes of its source.",
        hint="Replace the rows of the scope again with another jobId.",
    )


def _unmet(spec: BackfillSpec, receipt: TableReceipt | None) -> Unmet | None:
    compared = receipt is not None and (receipt.complete or bool(receipt.cut_off))
    return unmet_after_end(spec, compared=compared, files_by_bytes=0 if receipt is None else receipt.files_by_bytes)


def _missing(spec: BackfillSpec, receipt: TableReceipt | None, unmet: Unmet) -> InvalidSpecError:
    if unmet == "ReceiptByRows" and receipt is not None:
        return InvalidSpecError(
            f"spec.verify is FinalByRows, and the receipt compared {counted(receipt.files_by_bytes, 'file')} by their bytes.",
            hint="Compare both tables with `backfill verify --rows`, and set verify: Final.",
        )
    return InvalidSpecError(
        f"spec.verify is {spec.verify}, and the job ended without a receipt of all rows.",
        hint="Take the receipt with `backfill run --refresh`, or compare with `backfill verify` and set verify: None.",
    )


EXPIRED_HINT = (
    "The target keeps the rows that it has. Copy everything again with another jobId and another target. To refresh later jobs, "
    "keep old versions or records in the source for longer than the time between two refreshes."
)


def expired_after_end(error: BackfillError, consumed: str) -> BackfillError:
    """Return the error of a run whose source no longer has the changes after the consumed position; other errors are unchanged.

    Args:
        error: Error of opening the source.
        consumed: The position that the target holds, as the source displays it.
    """
    message = f"the changes of the source after {consumed} are gone: {error.message}"
    match error:
        case SnapshotExpiredError() | ChangeFeedExpiredError():
            return SnapshotExpiredError(message, hint=EXPIRED_HINT)
        case OffsetsExpiredError():
            return OffsetsExpiredError(message, hint=EXPIRED_HINT)
        case _:
            return error


def describe_early_stop(state: JobState | None) -> str:
    """Describe the target after a stop that precedes the first commit of an attempt.

    Args:
        state: State from earlier attempts; `None` if the target contains no state, or was not read yet.
    """
    if state is None:
        return "stopped before this attempt wrote anything; run it again"
    done = f"{counted(state.rows_done, 'row')} and {counted(state.changes_done, 'change')}"
    return f"stopped before this attempt wrote anything; the target holds {done} of attempt {state.attempt}; run it again to go on"
