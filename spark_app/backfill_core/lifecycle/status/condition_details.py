"""Conditions in addition to `Ready`: driver, pause, limit, commands, lag, receipt."""

from __future__ import annotations

from typing import Final, Literal, cast

from backfill_api.amounts import counted
from backfill_api.names import REFRESH_ANNOTATION, RESTART_ANNOTATION
from backfill_api.spec.override import given_width
from backfill_api.status.procedure import ProcedureKind
from backfill_api.status.progress import Progress
from backfill_api.status.status import BackfillStatus, Condition, Control
from backfill_core.lifecycle.commands import refusals
from backfill_core.lifecycle.inputs.all_jobs import ALL_JOBS_PAUSED, describe_pause
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.launched_of import WIDTH_NAMES, edited_fields, is_launched_of
from backfill_core.lifecycle.inputs.procedures import CATCH_UP, STOPS, is_switched, requested, waits
from backfill_core.lifecycle.observation import DriverPod, SpecRefused
from backfill_core.lifecycle.status.conditions import ConditionSet, Fact
from backfill_core.protocol.after_end import refused_refresh, unmet_after_end

COMMAND_REFUSED: Final = "CommandRefused"

LIMIT_ENDED: Final = "LimitEnded"
"""Reason of the condition `Throttled` once `throttle.until` is past."""

EXECUTORS_WAITING: Final = "ExecutorsWaiting"
"""Type of a condition, and its reason."""

EDIT_PENDING: Final = "EditPending"
"""Type of a condition, and its reason."""

SWITCHED, REPAIRED = "Switched", "Repaired"
"""Types of conditions about procedures, and reasons."""

COPYING_BACK: Final = "CopyingBack"
COPIES_BACK: Final = "readers and writers use the target, and the source follows it"

FIELDS_SHOWN_MAX: Final = 5
PATH_CHARACTERS_MAX: Final = 100
"""Characters of a shown path; paths come from an annotation, which users may edit."""

EXECUTORS_MISSING: Final = "ExecutorsMissing"
"""Code of a driver's warning."""

JAVA_SILENT: Final = "JavaSilent"
COMMIT_STALLED: Final = "CommitStalled"
STALLED: Final = (JAVA_SILENT, COMMIT_STALLED)
"""Codes of a driver's warnings, and reasons: the driver answers, but commits nothing."""

ABOUT_CLAIMS: Final = ("persistentvolumeclaim", "storageclass")
"""Lower-case parts of a scheduler's messages about volumes."""

_KEPT = ("CaughtUp", "Verified")
"""Conditions that stay true when the attempt is over."""


def without_driver(status: BackfillStatus, *, suspended: str = "") -> dict[str, Fact]:
    """Return the details of a Backfill without a driver.

    Args:
        status: Status of the current step.
        suspended: Reason of `Suspended`; empty if the Backfill is not suspended.
    """
    off = Fact("False", "NotRequested")
    return {
        **_kept(status),
        **_verified(status),
        **_procedures(status),
        "DriverReady": Fact("False", "NoDriver"),
        "Paused": off,
        "Throttled": off,
        "Suspended": Fact("True", suspended) if suspended else off,
    }


def with_driver(context: Context, control: Control) -> dict[str, Fact]:
    """Return the details of an attempt in flight."""
    details = {
        **_kept(context.status, "NonConvergent"),
        **_verified(context.status),
        **_procedures(context.status),
        "DriverReady": _driver(context),
        "Suspended": Fact("False", "NotRequested"),
        "Paused": _in_force(context, control, ("Pause", "Resume"), "Paused"),
        "Throttled": _in_force(context, control, ("Throttle",), "Throttled"),
    }
    if details["DriverReady"].status == "True":
        details["ControlSynced"] = _synced(context, control)
    request = requested(context)
    if request is not None and waits(context, request):
        details[SWITCHED] = Fact("False", "WaitingForCatchUp", CATCH_UP)
    if edited := edit_pending(context):
        details[EDIT_PENDING] = Fact("True", EDIT_PENDING, edited)
    if (executors := executors_wait(context.pod)) and context.pod is not None and not context.pod.over:
        details[EXECUTORS_WAITING] = Fact("True", EXECUTORS_WAITING, with_scratch(context, executors))
    progress = context.progress
    warned = _warnings(progress)
    if EXECUTORS_MISSING in warned:
        # A quota or a policy rejects the pods, so no pod exists that could report the reason.
        details.setdefault(EXECUTORS_WAITING, Fact("True", EXECUTORS_WAITING, warned[EXECUTORS_MISSING]))
    if progress is not None and progress.table_version is not None:
        details["CaughtUp"] = Fact("True", "CaughtUp") if progress.caught_up else Fact("False", "Behind")
        rates = warned.get("NonConvergent", "")
        lags = progress.non_convergent
        details["NonConvergent"] = Fact("True", "NonConvergent", rates) if lags else Fact("False", "Converging")
    return details


def edit_pending(context: Context) -> str:
    """Describe edits that take effect only with the next attempt; empty if the pods match the spec."""
    spec, pod, attempt = context.observation.spec, context.pod, context.attempt
    if pod is None or pod.over or attempt is None or attempt.stop is not None or attempt.kind == "Plan":
        return ""
    if isinstance(spec, SpecRefused):
        return ""
    if pod.launched_fields:
        progress = context.progress
        reported = WIDTH_NAMES if progress is None else given_width(progress).keys()
        paths = [f"spec.{path}" for path in edited_fields(pod.launched_fields, spec, reported)]
        edited, values = _listed(paths), "the old value" if len(paths) == 1 else "the old values"
    else:
        # An earlier version of the operator created the pod, with one hash of all fields.
        same = is_launched_of(pod.launched_of, spec)
        edited, values = "" if same else "the spec was", "the old values"
    if not edited:
        return ""
    return (
        f"{edited} edited after attempt {attempt.number} was launched, whose pods have {values}; this takes effect with the"
        f" next attempt: to start that now, set the annotation {RESTART_ANNOTATION} to a new value"
    )


def _listed(paths: list[str]) -> str:
    """Return the subject and verb of a sentence about fields; empty without fields."""
    more = len(paths) - FIELDS_SHOWN_MAX
    shown = [path[:PATH_CHARACTERS_MAX] for path in paths[:FIELDS_SHOWN_MAX]] + ([f"{more} more"] if more > 0 else [])
    if len(shown) < 2:
        return f"{shown[0]} was" if shown else ""
    return f"{', '.join(shown[:-1])} and {shown[-1]} were"


def without_effect(context: Context) -> str:
    """Describe the part of the spec that has no effect on a complete job; empty if all of it is met."""
    spec = context.observation.spec
    if isinstance(spec, SpecRefused):
        return ""
    if is_switched(context.status):
        return "readers and writers use the target, and the job does not follow the source any more"
    if context.refresh_requested and (refused := refused_refresh(spec)):
        return f"the annotation {REFRESH_ANNOTATION} has no effect: strategy {spec.strategy.type} cannot continue a job that has ended: {refused}"
    receipt = context.status.receipt
    compared = receipt is not None and (receipt.complete or receipt.cut_off_partitions > 0)
    by_bytes = 0 if receipt is None else receipt.files_by_bytes
    match unmet_after_end(spec, compared=compared, files_by_bytes=by_bytes):
        case "Follow":
            return (
                f"spec.after: Follow has no effect: the job has ended, and strategy {spec.strategy.type} cannot continue it;"
                " to follow the source make a new Backfill with another jobId, target and strategy"
            )
        case "Receipt":
            return f"spec.verify: {spec.verify} has no effect: the job has ended without a receipt of all rows; compare with `backfill verify`"
        case "ReceiptByRows":
            return (
                f"spec.verify: FinalByRows has no effect: the job has ended, and its receipt compared {counted(by_bytes, 'file')}"
                " by their bytes; compare with `backfill verify --rows`"
            )
        case None:
            return ""


def _driver(context: Context) -> Fact:
    pod = context.pod
    if pod is None:
        return Fact("False", "NoDriver")
    if context.unreachable:
        return Fact("False", "DriverUnreachable", silent(context))
    if (stalls := stalled(context)) is not None:
        return stalls
    if pod.ready or context.answers:
        return Fact("True", "Running", pod.unready)
    attempt = context.attempt
    if attempt is not None and attempt.ready_time is not None:
        return Fact("False", "DriverUnreachable", silent(context))
    why = pod.waiting or with_scratch(context, pod.unscheduled)
    return Fact("False", "Launching", f"{why}: {pod.waiting_message}" if pod.waiting and pod.waiting_message else why)


def stalled(context: Context) -> Fact | None:
    """Return the warning of a driver that answers but commits nothing, because its Java or a commit hangs; `None` otherwise."""
    warned = _warnings(context.progress)
    return next((Fact("False", code, warned[code]) for code in STALLED if code in warned), None)


def _warnings(progress: Progress | None) -> dict[str, str]:
    return {} if progress is None else dict(zip(progress.warning_codes, progress.warnings, strict=False))


def silent(context: Context) -> str:
    """Describe a driver that was ready and does not answer."""
    pod, cause = context.pod, context.report.unreachable if context.report else ""
    where = "" if pod is None or pod.phase == "Running" else f"its pod is {pod.phase}"
    parts = ("its control server does not answer", cause, where, pod.unready if pod is not None else "")
    return ": ".join(part for part in parts if part)


def executors_wait(pod: DriverPod | None) -> str:
    """Describe why executors of a driver do not start; empty if none is known to wait."""
    if pod is None or pod.executors is None:
        return ""
    executors = pod.executors
    return "executors wait: " + ": ".join(part for part in (executors.waiting, executors.message) if part)


def describe_replacement(pod: DriverPod) -> str:
    """Describe the replacement of a driver's pod after an edit of the spec."""
    if pod.started or pod.phase == "Running":
        why = "the spec was changed while executors of the driver could not start"
        return f"{why}: pod {pod.name} stops at a barrier, and the next one creates executors from the new spec"
    return f"the spec was changed before the driver started: pod {pod.name} is replaced by one from the new spec"


def with_scratch(context: Context, message: str) -> str:
    """Return a scheduler's message about a claim with the storage class of the spec; other messages are unchanged.

    The scheduler names a missing claim, but not always the class that does not exist.
    """
    spec = context.observation.spec
    if isinstance(spec, SpecRefused) or spec.scratch.storage_class_name is None:
        return message
    if not any(part in message.lower() for part in ABOUT_CLAIMS):
        return message
    name = spec.scratch.storage_class_name[:PATH_CHARACTERS_MAX]
    hint = f"spec.scratch.storageClassName {name!r} must exist and provide volumes of {spec.scratch.size}"
    return f"{message}; {hint}; find the reason with kubectl describe pvc"


def missing(context: Context) -> Fact:
    """Return the fact whose transition time is the first time at which the driver's pod was missing."""
    return Fact("Unknown", "DriverMissing", f"pod {context.pod_name} was not seen")


def _in_force(context: Context, control: Control, kinds: tuple[str, ...], type_: str) -> Fact:
    """Return whether the driver acknowledged a pause or limit; a pending command is not in force."""
    desired, progress = context.desired, context.progress
    requested, overridden, commanded = desired.paused is not None, desired.pause_overridden, control.paused is not None
    reported = None if progress is None else progress.paused is not None
    if type_ == "Throttled":
        none = (None, None)
        requested, overridden = (desired.rows_per_second, desired.bytes_per_second) != none, desired.throttle_overridden
        commanded = (control.rows_per_second, control.bytes_per_second) != none
        reported = None
        if progress is not None:
            reported = (progress.throttle_rows_per_second, progress.throttle_bytes_per_second) != none
    if progress is not None and progress.revision < control.acked_revision:
        reported = commanded  # the progress is older than the acknowledgement
    pending = any(command.command.type in kinds for command in control.pending)
    before = context.condition(type_)
    was = before is not None and before.status == "True"
    if pending or (reported is None and requested != commanded):
        return Fact("True" if was else "False", "AcknowledgementPending")
    # After a restart of the operator, acknowledged controls stay in force until the driver reports otherwise.
    in_force = was if reported is None else reported
    ended = "; ".join(desired.ended) if type_ == "Throttled" else ""
    if not in_force and not requested and ended:
        return Fact("False", LIMIT_ENDED, ended)
    if not in_force:
        return Fact("False", "AcknowledgementPending" if requested else "NotRequested")
    if not requested:
        return Fact("True", "AcknowledgementPending")
    if type_ == "Paused" and desired.all_jobs_pause is not None:
        return Fact("True", ALL_JOBS_PAUSED, describe_pause(desired.all_jobs_pause))
    return Fact("True", "Override" if overridden else "AsRequested", ended)


def _synced(context: Context, control: Control) -> Fact:
    if not control.pending:
        return Fact("True", "Acknowledged")
    if refused := refusals(context, control):
        return Fact("False", COMMAND_REFUSED, refused)
    names = ", ".join(f"{pending.command.type} (revision {pending.revision})" for pending in control.pending)
    late = context.left_ms(control.pending_since, context.policy.ack_timeout_ms) <= 0
    return Fact("False", "AcknowledgementTimeout" if late else "AcknowledgementPending", names)


def _verified(status: BackfillStatus) -> dict[str, Fact]:
    receipt = status.receipt
    if receipt is None:
        return {}
    if not receipt.equal:
        differences = (("vnode", receipt.mismatches), ("file", receipt.file_mismatches))
        counts = [
            f"{counted(number, noun)} differ{'s' if number == 1 else ''}" for noun, number in differences if number
        ]
        return {"Verified": Fact("False", "VerificationFailed", ", ".join(counts))}
    if not receipt.complete:
        total = f" of {receipt.rows_total:,}" if receipt.rows_total else ""
        compared = receipt.rows + (receipt.rows_filtered or 0)
        message = f"{compared:,}{total} rows are compared and equal; the snapshot is not copied yet"
        return {"Verified": Fact("Unknown", "PartialReceipt", message)}
    return {"Verified": Fact("True", "Equal")}


def _word(reason: str) -> str:
    """Return a reason that a condition can hold; users may edit a status."""
    return reason if reason.isascii() and reason.isalnum() and reason[0].isalpha() else "Unexpected"


def performing(context: Context, procedure: ProcedureKind) -> ConditionSet:
    """Return the conditions while a driver performs a procedure."""
    if procedure == "FollowBack":
        return ConditionSet.ready("Running", COPYING_BACK, COPIES_BACK)
    return ConditionSet.reconciling("Running", STOPS[procedure], context.step)


def _procedures(status: BackfillStatus) -> dict[str, Fact]:
    """Return what is known about a requested switch-over and a requested repair."""
    facts, run, repair = {}, status.switch, status.repair
    if run is not None:
        shown = {"Source": "False", "Between": "Unknown", "Target": "True", "Released": "True"}[run.place]
        reason = "Switching" if run.state == "Running" else _word(run.reason)
        message = ": ".join(filter(None, (run.step, run.message))) if run.state == "Running" else run.message
        facts[SWITCHED] = Fact(cast("Literal['True', 'False', 'Unknown']", shown), reason, message)
    if repair is not None:
        running, good = repair.state == "Running", repair.state in ("Repaired", "Equal")
        reason = "Repairing" if running else _word(repair.reason)
        facts[REPAIRED] = Fact("Unknown" if running else "True" if good else "False", reason, repair.message)
    return facts


def _kept(status: BackfillStatus, *more: str) -> dict[str, Fact]:
    existing = {condition.type: condition for condition in reversed(status.conditions)}
    return {type_: fact_of(existing[type_]) for type_ in (*_KEPT, *more) if type_ in existing}


def fact_of(condition: Condition) -> Fact:
    """Return a condition without its bookkeeping."""
    return Fact(condition.status, condition.reason, condition.message)
