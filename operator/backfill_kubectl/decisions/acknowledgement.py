"""Decides from a status whether a change is in force, and describes the state that holds now."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

from backfill_api.amounts import counted
from backfill_api.names import REFRESH_ANNOTATION
from backfill_api.spec.override import WIDTH_FIELDS
from backfill_api.spec.spec import BackfillSpec
from backfill_api.wire import CommandType
from backfill_console.commands.acknowledgements import Controls, describe_controls
from backfill_core.lifecycle.inputs.all_jobs import describe_pause
from backfill_core.lifecycle.inputs.desired import Desired, desired_of
from backfill_core.lifecycle.observation import SpecRefused
from backfill_kubectl.decisions.changes import (
    Acknowledgement,
    Approve,
    Change,
    InForce,
    Pause,
    Recorded,
    Rejected,
    RepairTarget,
    Rescale,
    Resume,
    Retry,
    RunAgain,
    Suspend,
    SwitchOver,
    TakeReceipt,
    Throttle,
    Unsuspend,
    Waiting,
)
from backfill_kubectl.decisions.procedures import procedure_answer
from backfill_kubectl.decisions.stored import StoredBackfill

__all__ = ["Acknowledgement", "InForce", "Recorded", "Rejected", "Waiting", "acknowledgement"]

PENDING: Final = "AcknowledgementPending"
_COMMANDS: Final = {
    Pause: ("Pause", "Resume"),
    Resume: ("Pause", "Resume"),
    Throttle: ("Throttle",),
    Rescale: ("Rescale",),
    TakeReceipt: ("Verify",),
}
"""Types of pending commands that a change must wait for."""

COMMAND_OF: Final[dict[type[Any], CommandType]] = {
    Pause: "Pause",
    Resume: "Resume",
    Throttle: "Throttle",
    Rescale: "Rescale",
}


def controls_of(backfill: StoredBackfill, now_ms: int) -> Desired:
    """Return the controls that spec and annotations request now, by the operator's own function."""
    spec: BackfillSpec | SpecRefused
    try:
        spec = BackfillSpec.model_validate(backfill.spec, by_alias=True, by_name=False)
    except ValidationError:
        spec = SpecRefused(())
    return desired_of(spec, backfill.annotations, now_ms, backfill.status.override)


def acknowledgement(
    change: Change, token: str, written: StoredBackfill, now: StoredBackfill, now_ms: int
) -> Acknowledgement:
    """Return whether a change is in force.

    Args:
        change: The requested change.
        token: Value of the annotation of a request that is made once.
        written: The object as the write left it.
        now: The current object.
        now_ms: Current time; a limit past its end is not in force.
    """
    if now.uid != written.uid:
        return Rejected(f"{now.key} was deleted and created again.", "Run the command again.")
    if now.deleting:
        return Rejected(f"{now.key} is being deleted.", "Nothing is left to do: the driver stops at a barrier.")
    control = now.status.control
    match change:
        case Retry():
            if control is not None and control.restart_token == token:
                return InForce(_restarted(now))
            return Waiting(likely_silence(now, "the operator has not restarted the attempt"))
        case RunAgain():
            return _refresh(token, now)
        case TakeReceipt():
            return _receipt(token, now)
        case SwitchOver() | RepairTarget():
            return procedure_answer(
                change, token, now, silence=likely_silence(now, "it begins once the driver of the job runs")
            )
        case Approve():
            return _approved(written, now)
        case _:
            return _control(change, controls_of(written, now_ms), written, now)


def _control(
    change: Pause | Resume | Throttle | Rescale | Suspend | Unsuspend,
    desired: Desired,
    written: StoredBackfill,
    now: StoredBackfill,
) -> Acknowledgement:
    ignored = now.condition("OverrideIgnored")
    if (
        ignored is not None
        and ignored.status == "True"
        and desired.override_error == ""
        and desired.override is not None
    ):
        hint = "Upgrade the operator, or give --how spec."
        if now.status.override != desired.override and now.annotations == written.annotations:
            return Rejected(f"the operator ignores the override annotation: {ignored.message}", hint)
    if now.status.observed_generation < written.generation or now.status.override != desired.override:
        return Waiting(likely_silence(now, "the operator has not read the change"))
    if isinstance(change, Suspend):
        return (
            InForce("suspended; the pods are deleted")
            if now.holds("Suspended")
            else Waiting(_why(now, "the driver stops at a barrier"))
        )
    if isinstance(change, Unsuspend):
        return Waiting(_why(now, "it is still suspended")) if now.holds("Suspended") else InForce(_resumes(now))
    if not now.driver_runs:
        return Recorded(_recorded(change, now))
    if (pause := now.status.all_jobs_pause) is not None and not isinstance(change, Throttle | Rescale):
        return Recorded(
            f"recorded, because {describe_pause(pause)}; `kubectl backfill resume --all-jobs` lifts that pause"
        )
    return commanded(change, desired, now)


def commanded(change: Pause | Resume | Throttle | Rescale, desired: Desired, now: StoredBackfill) -> Acknowledgement:
    """Return whether the driver confirmed a pause or a limit."""
    control, synced = now.status.control, now.condition("ControlSynced")
    pending = () if control is None else control.pending
    if any(command.command.type in _COMMANDS[type(change)] for command in pending):
        if synced is not None and synced.reason == "CommandRefused":
            return Rejected(
                f"the driver refuses the command: {synced.message}",
                "Its version is older. Restart the attempt with `kubectl backfill retry`.",
            )
        return Waiting(_why(now, "the driver has not confirmed it"))
    if isinstance(change, Rescale):
        return _rescaled(change, desired, now)
    in_force = now.condition("Throttled" if isinstance(change, Throttle) else "Paused")
    wanted = desired.paused is not None
    agrees = control is not None and control.paused == desired.paused
    if isinstance(change, Throttle):
        wanted = (desired.rows_per_second, desired.bytes_per_second) != (None, None)
        given = None if control is None else (control.rows_per_second, control.bytes_per_second, control.until)
        agrees = given == (desired.rows_per_second, desired.bytes_per_second, desired.controls["until"])
    if in_force is None or in_force.reason == PENDING or (in_force.status == "True") != wanted or not agrees:
        return Waiting(_why(now, "the driver has not confirmed it"))
    epoch = 0 if control is None else control.epoch
    return InForce(_state(change, desired, now), f"epoch {epoch}")


def _rescaled(change: Rescale, desired: Desired, now: StoredBackfill) -> Acknowledgement:
    """Return whether the driver confirmed each value of a width, or has it since its start.

    A value that the operator does not ask the driver for is fixed in this attempt, or the operator is of an earlier version.
    """
    control = now.status.control
    wanted = {name: value for name, value in desired.width.given.items() if name in change.width.given}
    asked = {} if control is None else {name: value for name in wanted if (value := getattr(control, name)) is not None}
    reported = {name: getattr(now.progress, name) for name in asked}
    if control is None or any({asked[name], reported[name]} - {wanted[name], None} for name in asked):
        return Waiting(_why(now, "the driver has not confirmed it"))
    if later := [WIDTH_FIELDS[name] for name in wanted if name not in asked]:
        return Recorded(
            f"recorded: the running attempt keeps its {' and '.join(later)}; the next one starts with this width"
        )
    return InForce(_state(change, desired, now), f"epoch {control.epoch}")


def _receipt(token: str, now: StoredBackfill) -> Acknowledgement:
    control, receipt = now.status.control, now.status.receipt
    if control is None or control.verify_token != token:
        if not now.driver_runs:
            return Recorded(f"{now.status.phase or 'Pending'}: no driver runs; the next one takes the receipt")
        return Waiting(likely_silence(now, "the operator has not read the request"))
    if control.verify_epoch is not None or any(command.command.type == "Verify" for command in control.pending):
        return Waiting("the driver compares source and target")
    if receipt is None:
        return Waiting("the receipt has not arrived")
    return InForce(describe_receipt(now), f"epoch {receipt.epoch}" if receipt.epoch else "")


def _refresh(token: str, now: StoredBackfill) -> Acknowledgement:
    control, complete = now.status.control, now.condition("Complete")
    if control is not None and control.refresh_token == token:
        return InForce(f"{now.status.phase or 'Pending'}: the job continues from its last position")
    if complete is not None and complete.status == "True" and REFRESH_ANNOTATION in complete.message:
        return Rejected(complete.message, "Create a new Backfill with another jobId, target and strategy.")
    if not now.holds("Complete"):
        return Recorded(f"{now.status.phase or 'Pending'}: the job has not ended; the refresh follows its end")
    return Waiting(likely_silence(now, "the operator has not read the request"))


def describe_receipt(now: StoredBackfill) -> str:
    """Return the verdict of the newest receipt; empty without one."""
    receipt = now.status.receipt
    if receipt is None:
        return ""
    position = receipt.source_position or (
        "" if receipt.source_version is None else f"version {receipt.source_version}"
    )
    at = f" at source {position}, target version {receipt.target_version}" if position else ""
    if not receipt.equal:
        parts = [(receipt.mismatches, "vnode"), (receipt.file_mismatches, "file")]
        differs = " and ".join(counted(number, noun) for number, noun in parts if number)
        return f"source and target differ in {differs}{at}"
    part = "equal" if receipt.complete else "equal so far"
    return f"{part}{at} ({counted(receipt.rows, 'row')})"


def _approved(written: StoredBackfill, now: StoredBackfill) -> Acknowledgement:
    if now.status.observed_generation < written.generation:
        return Waiting(likely_silence(now, "the operator has not read the change"))
    if now.holds("AwaitingApproval"):
        return Waiting(_why(now, "it still waits for an approval"))
    plan = f"plan {written.status.plan_of}" if written.status.plan_of else "the plan"
    return InForce(f"{plan} is approved; {_resumes(now)}")


def _state(change: Pause | Resume | Throttle | Rescale, desired: Desired, now: StoredBackfill) -> str:
    return describe_controls(COMMAND_OF[type(change)], shown_controls(change, desired), now.progress)


def shown_controls(change: Change, desired: Desired) -> Controls:
    """Return requested controls as answers describe them: of a width, only the values that a change sets."""
    changed = change.width.given if isinstance(change, Rescale) else {}
    controls = {name: value for name, value in desired.controls.items() if name not in WIDTH_FIELDS or name in changed}
    return Controls(**controls)


def _recorded(change: Pause | Resume | Throttle | Rescale, now: StoredBackfill) -> str:
    starts: dict[type[Any], str] = {Pause: "starts paused", Resume: "reads at once", Throttle: "starts with this limit"}
    starts |= {Rescale: "starts with this width"}
    return f"{now.status.phase or 'Pending'}: no driver runs; the next one {starts[type(change)]}"


def _restarted(now: StoredBackfill) -> str:
    number = now.status.attempts
    if now.status.phase in ("Running", "Launching", "Pending", "Retrying"):
        return f"{now.status.phase}: attempt {max(number, 1)}"
    return f"the attempt ends at a barrier; attempt {number + 1} follows"


def _resumes(now: StoredBackfill) -> str:
    return f"{(now.status.phase or 'Pending')}: the next attempt resumes from the last commit"


def _why(now: StoredBackfill, default: str) -> str:
    """Return the reason that the operator reports for the wait."""
    for type_ in ("Stalled", "Reconciling", "ControlSynced", "DriverReady"):
        condition = now.condition(type_)
        expected = "True" if type_ in ("Stalled", "Reconciling") else "False"
        if condition is not None and condition.status == expected and condition.message:
            return f"{condition.reason}: {condition.message}"
    return default


def likely_silence(now: StoredBackfill, default: str) -> str:
    """Return the likely reason for an operator that does not answer."""
    if now.status.observed_generation < 0:
        return "no operator has seen this Backfill: none watches the namespace, or none is the leader"
    return default
