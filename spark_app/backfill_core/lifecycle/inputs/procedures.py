"""Procedures: which one an annotation or the spec requests, and whether it may begin.

A procedure is a switch-over, its undo, its end, a repair, or the end of a deleted job. The job's driver stops at a barrier, and an attempt of its own performs
the procedure. The copy back after a switch-over is a procedure that no annotation requests, and that an undo or an end replaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from backfill_api.names import (
    COMPLETE_SWITCH_ANNOTATION,
    REPAIR_ANNOTATION,
    SWITCH_ANNOTATION,
    UNDO_SWITCH_ANNOTATION,
)
from backfill_api.status.procedure import ProcedureKind, RepairRun, SwitchRun
from backfill_api.status.status import Attempt, BackfillStatus, Control, StopReason
from backfill_core.errors import BackfillError, NotRepairableError, SwitchBlockedError
from backfill_core.lifecycle.inputs.change_claims import NewClaim, new_claim
from backfill_core.lifecycle.inputs.context import TOKEN_CHARACTERS_MAX, Context
from backfill_core.lifecycle.observation import SpecRefused
from backfill_core.switch_over.requests import refused_switch

MAX_LAG_S: Final = 30
"""Largest lag of the target with which a switch-over begins, in seconds, as for `backfill switch`."""

ANNOTATIONS: Final[Mapping[ProcedureKind, tuple[str, str]]] = {
    "UndoSwitch": (UNDO_SWITCH_ANNOTATION, "switch_undo_token"),
    "CompleteSwitch": (COMPLETE_SWITCH_ANNOTATION, "switch_complete_token"),
    "Switch": (SWITCH_ANNOTATION, "switch_token"),
    "Repair": (REPAIR_ANNOTATION, "repair_token"),
}
"""Annotation of each procedure, and the field of `Control` with its last answered value, in the order in which they are answered."""

GOALS: Final[Mapping[ProcedureKind, Literal["Switch", "Undo", "Complete"]]] = {
    "Switch": "Switch", "UndoSwitch": "Undo", "CompleteSwitch": "Complete",
}  # fmt: skip
OF_GOAL: Final = {goal: kind for kind, goal in GOALS.items()}
STOPS: Final[Mapping[ProcedureKind, StopReason]] = {
    "Switch": "Switching", "UndoSwitch": "Switching", "CompleteSwitch": "Switching", "Repair": "Repairing",
}  # fmt: skip
"""Reason of the end of the job's driver that makes room for a procedure."""

UNRECORDED: Final = "SwitchUnrecorded"
MESSAGE_CHARACTERS_MAX: Final = 1024
CATCH_UP: Final = "it begins once the target has caught up with the source"


@dataclass(frozen=True, slots=True)
class Request:
    """A procedure that was requested and not answered yet."""

    kind: ProcedureKind
    token: str
    """Value of its annotation; empty if `spec.switch.when` requests it."""


def procedure_of(status: BackfillStatus) -> ProcedureKind | None:
    """Return the procedure that attempts must perform; `None` if they run the job."""
    if status.closing is not None and status.closing.state == "Running":
        return "Close"
    if status.switch is not None and status.switch.state == "Running":
        return OF_GOAL[status.switch.goal]
    if copies_back(status):
        return "FollowBack"
    return "Repair" if status.repair is not None and status.repair.state == "Running" else None


def copies_back(status: BackfillStatus) -> bool:
    """Return whether the source follows the target after a switch-over."""
    return status.switch is not None and (status.switch.place, status.switch.copy_back) == ("Target", "Running")


def is_switched(status: BackfillStatus) -> bool:
    """Return whether readers and writers use the target, so that the job has nothing to do any more."""
    return status.switch is not None and status.switch.place in ("Target", "Released")


def fences_source(status: BackfillStatus) -> bool:
    """Return whether a switch-over may keep the source read-only until an undo or an end, which this Backfill requests."""
    run = status.switch
    return run is not None and (run.place in ("Between", "Target") or run.state == "Running")


def may_refuse_writes(status: BackfillStatus) -> bool:
    """Return whether drivers of a switch-over or an undo ended without its end, so that a table in use may be read-only."""
    run = status.switch
    if run is None or run.state not in ("Running", "Interrupted"):
        return False
    # An undo at the source continues a switch-over that lost its drivers.
    return run.attempts > 0 or run.place == "Between" or (run.place == "Source" and run.goal != "Switch")


def requested(context: Context) -> Request | None:
    """Return the next procedure to answer; `None` if there is none, or if one is not over yet.

    A job that failed does not go on with its switch-over by itself, so an undo may take its place.
    """
    unfinished = procedure_of(context.status) not in (None, "FollowBack")
    if context.policy.refused or (unfinished and not failed_unreported(context)):
        return None
    control = context.status.control or Control()
    for kind, (annotation, field) in ANNOTATIONS.items():
        token = context.observation.annotations.get(annotation, "")[:TOKEN_CHARACTERS_MAX]
        if token not in ("", getattr(control, field)) and (kind == "UndoSwitch" or not unfinished):
            return Request(kind, token)
    if unfinished:
        return None
    return Request("Switch", "") if _is_verified(context) else None


def failed_unreported(context: Context) -> bool:
    """Return whether the job failed during a switch-over without a report of its end, as with too many lost drivers or a deadline."""
    over, run = context.finished, context.status.switch
    failed = over is not None and over.type == "Failed" and context.attempt is None
    return failed and run is not None and run.state == "Running"


def unrecorded(context: Context) -> str:
    """Return why a new Backfill must not start: it has annotations of a switch-over; empty if it may start.

    It was restored without its status. If it was switched over, its target has no state, and a driver might copy everything again.
    """
    before = context.condition("Stalled")
    is_new = context.observation.status.observed_generation < 0
    if not is_new and (before is None or before.reason != UNRECORDED):
        return ""
    named = [
        name
        for name, _ in ANNOTATIONS.values()
        if name != REPAIR_ANNOTATION and context.observation.annotations.get(name)
    ]
    hint = "remove it if readers and writers use the source, or delete this Backfill if they use the target"
    return (
        f"annotation {named[0]} requests what this new Backfill has no record of, as after a restore: {hint}"
        if named
        else ""
    )


def _is_verified(context: Context) -> bool:
    """Return whether `switch.when: WhenVerified` requests a switch-over: the newest receipt is equal, and no earlier run forbids it."""
    spec, receipt, run = context.observation.spec, context.status.receipt, context.status.switch
    if isinstance(spec, SpecRefused) or spec.switch.when != "WhenVerified" or context.desired.paused is not None:
        return False
    if receipt is None or not (receipt.equal and receipt.complete):
        return False
    if run is None:
        return True
    newer = run.receipt_at != receipt.verified_at
    return run.goal == "Switch" and run.state == "Refused" and run.place == "Source" and newer


def wants_receipt(context: Context, control: Control) -> bool:
    """Return whether `switch.when: WhenVerified` needs a receipt of the whole source: there is none, and none is on its way."""
    spec, receipt, progress = context.observation.spec, context.status.receipt, context.progress
    if isinstance(spec, SpecRefused) or spec.switch.when != "WhenVerified" or context.status.switch is not None:
        return False
    under_way = control.verify_epoch is not None or any(sent.command.type == "Verify" for sent in control.pending)
    if under_way or (receipt is not None and receipt.complete):
        return False
    return progress is not None and progress.caught_up and progress.lag_seconds <= MAX_LAG_S


def refused(context: Context, request: Request) -> BackfillError | None:
    """Return why a procedure cannot begin, whatever its driver would find; `None` if it may."""
    spec, status = context.observation.spec, context.status
    place = "Source" if status.switch is None else status.switch.place
    if isinstance(spec, SpecRefused):
        return None
    match request.kind:
        case "Switch" | "UndoSwitch" | "CompleteSwitch" if place == "Released":
            return SwitchBlockedError("the switch-over was completed.", hint="Move the table back with another job.")
        case "Switch" if place == "Target":
            return SwitchBlockedError(
                "readers and writers use the target already.", hint="Undo or complete that switch-over."
            )
        case "Switch" | "UndoSwitch" | "CompleteSwitch" if place == "Between":
            return _unfinished(status, request.kind)
        case "Switch":
            return refused_switch(spec)
        case "Repair" if place != "Source":
            return NotRepairableError("the job was switched over, so its source is no longer the original.")
        case "Repair" if status.receipt is None and context.attempt is not None:
            return NotRepairableError(
                "the job has no receipt.", hint="Take one with the annotation backfill.dev/verify-requested first."
            )
        case "UndoSwitch" | "CompleteSwitch" if place == "Source" and context.attempt is not None:
            verb = "undo" if request.kind == "UndoSwitch" else "complete"
            return SwitchBlockedError(
                f"there is no switch-over to {verb}: none began, or it was undone.",
                hint="Request one with the annotation backfill.dev/switch-requested.",
            )
    return None


def _unfinished(status: BackfillStatus, kind: ProcedureKind) -> BackfillError | None:
    """Return why an unfinished switch-over does not go on with another goal; an undo is always possible."""
    goal = "Switch" if status.switch is None else status.switch.goal
    if kind == "UndoSwitch" or GOALS[kind] == goal:
        return None
    annotation = ANNOTATIONS[OF_GOAL[goal]][0]
    return SwitchBlockedError(
        f"an earlier request is not finished: {goal}.", hint=f"Continue it with the annotation {annotation}."
    )


def waits(context: Context, request: Request) -> bool:
    """Return whether a switch-over must wait until the target of the running driver has caught up."""
    progress = context.progress
    if request.kind != "Switch" or context.attempt is None:
        return False
    return progress is None or not progress.caught_up or progress.lag_seconds > MAX_LAG_S


def answered(context: Context, request: Request, error: BackfillError | None = None) -> BackfillStatus:
    """Return the status in which a procedure runs, or is refused by an error."""
    status, now = context.status, context.timestamp
    control, claim = status.control or Control(), NewClaim()
    if request.token:
        claim = new_claim(context.observation.annotations, control.claim_of)
        control = control.model_copy(update={ANNOTATIONS[request.kind][1]: request.token})
        if context.attempt is None:  # the command that stops a driver carries the claim, too
            control = control.model_copy(update={"claim_of": claim.claim_of or control.claim_of})
    if error is not None and request.kind in ("UndoSwitch", "CompleteSwitch") and status.switch is None:
        # A restored Backfill has the annotations of a switch-over and of its undo, but no record: do not switch over again.
        token = context.observation.annotations.get(SWITCH_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]
        control = control.model_copy(update={"switch_token": token})
    state = "Running" if error is None else "Refused"
    end = None if error is None else now
    reason = "" if error is None else error.reason
    message = "" if error is None else short(f"{error.message} {error.hint}".strip())
    if request.kind == "Repair":
        repair = RepairRun(
            state=state, start=now, end=end, reason=reason, message=message, by=claim.by, note=claim.note
        )
        return status.model_copy(update={"control": control, "repair": repair})
    before = status.switch
    if before is not None and before.place == "Between" and error is not None:
        kept = before.model_copy(update={"reason": reason, "message": message})
        return status.model_copy(update={"control": control, "switch": kept})
    place = "Source" if before is None else before.place
    run = SwitchRun(
        goal=GOALS[request.kind], state=state, place=place, automatic=not request.token, start=now, end=end,
        reason=reason, message=message, version=None if before is None else before.version,
        copy_back="" if before is None else before.copy_back,
        attempts=before.attempts if before is not None and before.state == "Running" else 0,
        receipt_at=None if status.receipt is None else status.receipt.verified_at, by=claim.by, note=claim.note,
    )  # fmt: skip
    return status.model_copy(update={"control": control, "switch": run})


def short(message: str) -> str:
    """Return a message that a condition can hold."""
    return message[:MESSAGE_CHARACTERS_MAX]


def continued(status: BackfillStatus) -> BackfillStatus:
    """Return the status of a failed job that continues: an interrupted switch-over runs again."""
    run = status.switch
    if run is None or run.state != "Interrupted":
        return status
    return status.model_copy(update={"switch": run.model_copy(update={"state": "Running"})})


def stop_asked(context: Context, attempt: Attempt) -> StopReason | None:
    """Return the reason if a suspension ends an attempt, or if a pause, an edit or another procedure ends one that copies back."""
    if context.desired.suspend and not context.policy.refused:
        return "Suspended"
    if attempt.procedure != "FollowBack":
        return None
    if copy_back_unwanted(context):
        return "SpecChanged"
    if followed_by(context) is not None:
        return "Switching"
    return "Paused" if copy_back_paused(context) else None


def copy_back_paused(context: Context) -> bool:
    """Return whether no attempt may copy back. Its driver takes no pause, so it is stopped, and none is launched.

    With a spec that is not readable only the pause of all jobs counts, as for a driver of the job.
    """
    desired = context.desired
    paused = desired.paused is not None and not (context.policy.refused and desired.all_jobs_pause is None)
    return paused and procedure_of(context.status) == "FollowBack"


def copy_back_unwanted(context: Context) -> bool:
    """Return whether the source must not follow the target any more: `keepSource` was edited after the switch-over."""
    spec = context.observation.spec
    kept = isinstance(spec, SpecRefused) or spec.switch.keep_source == "Following"
    return not kept and procedure_of(context.status) == "FollowBack"


def followed_by(context: Context) -> Request | None:
    """Return the undo or the end of a switch-over that takes the place of its copy back; `None` if none is requested."""
    if procedure_of(context.status) != "FollowBack" or context.observation.deletion_ms is not None:
        return None
    request = requested(context)
    ends = request is not None and request.kind in ("UndoSwitch", "CompleteSwitch")
    return request if request is not None and ends and refused(context, request) is None else None


def with_next_procedure(context: Context) -> Context:
    """Answer an undo or the end of a switch-over while nothing copies back: it need not wait for an attempt that is only stopped."""
    request = followed_by(context)
    return context if request is None else replace(context, status=answered(context, request))


def begins_now(status: BackfillStatus) -> bool:
    """Return whether the next attempt is the first one of an undo or of an end, which waits for no failure of another procedure."""
    run = status.switch
    return run is not None and run.state == "Running" and run.goal != "Switch" and run.attempts == 0


def begun_beside_driver(context: Context, attempt: Attempt) -> tuple[Context, Request | None]:
    """Answer a procedure that cannot begin; return one that begins now, beside a driver of the job that answers."""
    if attempt.kind == "Plan" or attempt.procedure not in (None, "FollowBack") or attempt.stop is not None:
        return context, None
    request = requested(context)
    if request is None or context.observation.deletion_ms is not None or context.desired.suspend:
        return context, None
    if (error := refused(context, request)) is not None:
        return replace(context, status=answered(context, request, error)), None
    if attempt.procedure == "FollowBack":
        return context, request  # it may stop at any time
    fenced = context.progress is not None and context.progress.table_version is not None
    return context, request if context.answers and fenced and not waits(context, request) else None
