"""Launch of an attempt: first its record, then its objects, and the handling of refusals by the API server."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from backfill_api.names import RESTART_ANNOTATION
from backfill_api.status.status import TOKEN_HASHES_MAX, Attempt, AttemptKind, Control
from backfill_api.timestamps import rfc3339
from backfill_core.lifecycle.actions import DeleteAttemptObjects, LaunchDriver, PersistIntent
from backfill_core.lifecycle.closing import detached, is_closing
from backfill_core.lifecycle.commands import carried_over
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.next_look import next_look_ms
from backfill_core.lifecycle.inputs.procedures import procedure_of
from backfill_core.lifecycle.naming import driver_name
from backfill_core.lifecycle.observation import NOT_BUILT, LaunchFailed
from backfill_core.lifecycle.queue.admission import admitted_by
from backfill_core.lifecycle.status.conditions import MESSAGE_CHARACTERS_MAX, ConditionSet
from backfill_core.lifecycle.steps.step import (
    PERSON_MS,
    RETRY_MS,
    StepResult,
    blocked_by,
    delete_unretained,
    held_by_queue,
    held_launch,
    planning,
    refetch_pods,
    release,
    without_driver,
)

CONFLICT, FORBIDDEN = 409, 403
REFUSED_FOR_GOOD: Final = frozenset({400, 413, 422})
"""The same objects will be refused again, unless the spec, a policy or a webhook changes."""

REFUSED_FOR_NOW: Final = frozenset({401, 403, 404, 405})

NOT_THE_PODS_FAULT: Final = ("error looking up service account", "cannot create resource")
"""Parts of a 403's message, which has no cause: the service account is missing, or the operator lacks a permission."""

STILL_THERE: Final = "StillThere"
"""Reason of a refusal: an object with that name is being deleted."""

QUOTA_MS = 10_000
"""The first wait for room in a quota."""

TRIES_GROW: Final = 10
"""Longest wait between two tries, as a multiple of the first one: a launch that is refused for hours is tried as long."""

DENIED_LAST_MS: Final = 600_000
"""The longest wait after a denial, as for a Job, and each wait after a refusal by the operator itself."""


def plan_attempt(context: Context) -> StepResult:
    """Record the next attempt, and launch it.

    Only the first attempt trusts the cache: its name is unique. The pods of earlier attempts have other names, so any later
    attempt reads the pods again first.
    """
    status = context.status
    last = max(
        [status.attempts, status.attempt.number if status.attempt else 0, *(past.number for past in status.history)]
    )
    number = last + 1
    if number > 1 and not context.observation.live:
        return refetch_pods(context, driver_name(context.observation.name, number))
    closes = procedure_of(status) == "Close"
    kind: AttemptKind = "Plan" if context.plan_first and not closes else "Run"
    procedure = procedure_of(status) if kind == "Run" else None
    token_hash = context.observation.token_hash
    attempt = Attempt(
        number=number, kind=kind, state="Planned", pod_name=driver_name(context.observation.name, number),
        start_time=context.timestamp, token_hashes=(token_hash,) if token_hash else None, procedure=procedure,
        workload_uid=None if closes else admitted_by(context),
    )  # fmt: skip
    status = status.model_copy(
        update={
            "attempt": attempt,
            "attempts": number,
            "control": _as_launched(context, status.control or Control()),
            "start_time": status.start_time or context.timestamp,
            "completion_time": None,
        }
    )
    actions = (PersistIntent(), _launch_action(context, attempt), *delete_unretained(context))
    return StepResult(status, _launching(context, attempt), actions, RETRY_MS)


def launch(context: Context) -> StepResult:
    """Launch an attempt that is on record and has no pod yet. A launch may repeat, because the name is always the same."""
    attempt = context.attempt
    assert attempt is not None
    if context.policy.refused:
        return _wait(context, attempt, ConditionSet.stalled("Pending", "SpecRefused", context.policy.refused))
    blocked = blocked_by(context)
    if blocked is not None:
        return blocked
    # A deleted job reads and writes no rows, so it waits for no pause and no queue.
    if not is_closing(context) and (held := held_launch(context) or held_by_queue(context)) is not None:
        return held
    failed = context.observation.launch_failed
    if failed is None or failed.attempt != attempt.number:
        return _launch_again(context, attempt, _launching(context, attempt))
    if failed.status == CONFLICT and failed.reason not in ("NameCollision", STILL_THERE):
        if not context.observation.live:
            return refetch_pods(context)
        return _launch_again(context, attempt, _launching(context, attempt))
    conditions, first_ms, last_ms = _refused(failed)
    if first_ms == PERSON_MS and context.left_ms(attempt.start_time, PERSON_MS) > 0:
        # Objects of one `kubectl apply` arrive in any order: an account or a Role may be seconds late.
        first_ms = last_ms = RETRY_MS
    wait_ms = next_look_ms(context, attempt.start_time, first_ms=first_ms, last_ms=last_ms, last_look_ms=failed.at_ms)
    left_ms = min(failed.at_ms + wait_ms - context.now_ms, wait_ms)
    conditions = _with_next_try(conditions, failed.at_ms + wait_ms)
    edited = context.observation.generation != context.observation.status.observed_generation
    if left_ms <= 0 or edited or context.restart_requested:
        return _launch_again(context, attempt, conditions)
    result = _wait(context, attempt, conditions).requeue_within(left_ms)
    return result.then(*release(context)) if failed.status == FORBIDDEN else result


def quota_is_full(status: int, message: str) -> bool:
    """Return whether the API server refuses a pod only because a quota has no room, so that a later try may succeed."""
    return status == FORBIDDEN and "quota" in message.lower()


def _refused(failed: LaunchFailed) -> tuple[ConditionSet, int, int]:
    """Return the conditions for the API server's answer, and the first and the longest wait for another try."""
    message = failed.message or failed.reason or f"HTTP {failed.status}"
    if failed.reason == STILL_THERE:
        return ConditionSet.reconciling("Launching", "LaunchRefused", message), RETRY_MS, RETRY_MS
    if failed.status == CONFLICT:
        return ConditionSet.stalled("Pending", "NameCollision", message), PERSON_MS, TRIES_GROW * PERSON_MS
    if quota_is_full(failed.status, message):
        return ConditionSet.reconciling("Pending", "QuotaExceeded", message), QUOTA_MS, TRIES_GROW * QUOTA_MS
    if failed.reason == NOT_BUILT:
        return ConditionSet.stalled("Pending", "SpecRefused", message), DENIED_LAST_MS, DENIED_LAST_MS
    if failed.status in REFUSED_FOR_GOOD or (failed.status == FORBIDDEN and not _of_surroundings(failed, message)):
        # A policy or a webhook may cause it, which can be corrected without an edit of the spec.
        return ConditionSet.stalled("Pending", "SpecRefused", message), RETRY_MS, DENIED_LAST_MS
    if failed.status in REFUSED_FOR_NOW:
        return ConditionSet.stalled("Pending", "LaunchRefused", message), PERSON_MS, TRIES_GROW * PERSON_MS
    return ConditionSet.reconciling("Launching", "LaunchRefused", message), RETRY_MS, RETRY_MS


def _with_next_try(conditions: ConditionSet, at_ms: int) -> ConditionSet:
    """Add the time of the next try to the conditions if a user is needed; otherwise the next try is seconds away."""
    if not conditions.needs_a_person:
        return conditions
    next_try = (
        f"; the next try is at {rfc3339(at_ms)}, to try now set the annotation {RESTART_ANNOTATION} to a new value"
    )
    return replace(conditions, message=conditions.message[: MESSAGE_CHARACTERS_MAX - len(next_try)] + next_try)


def _of_surroundings(failed: LaunchFailed, message: str) -> bool:
    """Return whether a 403 is about the surroundings of the job. Otherwise it is about the pod: PodSecurity, a LimitRange, a webhook."""
    return failed.namespace_ends or any(part in message.lower() for part in NOT_THE_PODS_FAULT)


def _launch_again(context: Context, attempt: Attempt, conditions: ConditionSet) -> StepResult:
    hashes = _hashes_with(attempt.token_hashes, context.observation.token_hash)
    if hashes and len(hashes) > TOKEN_HASHES_MAX:
        return _replace_secret(context, attempt, conditions)
    attempt = attempt.model_copy(
        update={"token_hashes": hashes, "workload_uid": admitted_by(context) or attempt.workload_uid}
    )
    control = _as_launched(context, context.status.control or Control())
    result = _wait(replace(context, status=context.status.model_copy(update={"control": control})), attempt, conditions)
    # The attempt is or was on record already: without the fence, a stale observation could launch a finished one again.
    return result.then(PersistIntent(), _launch_action(context, attempt)).requeue_within(RETRY_MS)


def _replace_secret(context: Context, attempt: Attempt, conditions: ConditionSet) -> StepResult:
    """Delete the Secret of an attempt with too many recorded hashes: any of them may be its own, so none can be dropped alone.

    The hashes are replaced after the deletion, and the next decision launches. A pod that the cache lacks may use the Secret.
    """
    if not context.observation.live:
        return refetch_pods(context, driver_name(context.observation.name, attempt.number))
    attempt = attempt.model_copy(update={"token_hashes": (context.observation.token_hash,)})
    return _wait(context, attempt, conditions).then(DeleteAttemptObjects(attempt.number)).requeue_within(0)


def _hashes_with(recorded: tuple[str, ...] | None, token_hash: str) -> tuple[str, ...] | None:
    """Add the hash of a token that the attempt's Secret may contain; the operator that created the first one may no longer run.

    An attempt without a hash is from an earlier version, and so is its Secret, which must stay valid.
    """
    if not recorded or not token_hash or token_hash in recorded:
        return recorded
    return (*recorded, token_hash)


def _wait(context: Context, attempt: Attempt, conditions: ConditionSet) -> StepResult:
    control = _as_desired(context, context.status.control or Control())
    status = context.status.model_copy(update={"attempt": attempt, "control": control})
    return StepResult(status, without_driver(context, conditions))


def _as_desired(context: Context, control: Control) -> Control:
    """Return the control state of an attempt that starts with the desired controls; only a limit after its `until` needs a command."""
    return control.model_copy(update=context.desired.controls | {"then": None})


def _as_launched(context: Context, control: Control) -> Control:
    """Return the control state of an attempt that is launched now, which also fulfils a requested restart.

    The driver of a deleted job may be gone before its acknowledgement of a Stop is recorded. With that Stop on record, a skipped
    closing would wait for an acknowledgement of the last driver, whose pod may never start.
    """
    token = context.restart_token or control.restart_token
    return _as_desired(context, carried_over(control).model_copy(update={"restart_token": token}))


def _launch_action(context: Context, attempt: Attempt) -> LaunchDriver:
    desired = context.desired
    return LaunchDriver(
        attempt.number,
        attempt.kind,
        **desired.launch,
        refresh=context.refreshing,
        procedure=attempt.procedure,
        detached=detached(context),
        token_hashes=attempt.token_hashes or (),
    )


def _launching(context: Context, attempt: Attempt) -> ConditionSet:
    if attempt.procedure == "Close":
        return without_driver(context, ConditionSet.reconciling("Terminating", "Closing"))
    plans = attempt.kind == "Plan"
    return without_driver(context, planning(context) if plans else ConditionSet.reconciling("Launching", "Launching"))
