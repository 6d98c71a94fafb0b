"""Making an attempt: on record first, then its objects; and what the API server said when it refused them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from backfill_api.names import RESTART_ANNOTATION
from backfill_api.status.status import TOKEN_HASHES_MAX, Attempt, AttemptKind, Control
from backfill_core.lifecycle.actions import LaunchDriver, PersistIntent
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.next_look import next_look_ms
from backfill_core.lifecycle.inputs.timestamps import rfc3339
from backfill_core.lifecycle.naming import driver_name
from backfill_core.lifecycle.observation import LaunchFailed
from backfill_core.lifecycle.status.conditions import MESSAGE_CHARACTERS_MAX, ConditionSet
from backfill_core.lifecycle.steps.step import (
    PERSON_MS,
    RETRY_MS,
    StepResult,
    blocked_by,
    delete_unretained,
    planning,
    refetch_pods,
    release,
    without_driver,
)

CONFLICT, FORBIDDEN = 409, 403
REFUSED_FOR_GOOD: Final = frozenset({400, 413, 422})
"""The same objects will be refused again, unless the spec, a policy or a webhook is changed."""

REFUSED_FOR_NOW: Final = frozenset({401, 403, 404, 405})

NOT_THE_PODS_FAULT: Final = ("error looking up service account", "cannot create resource", "is being terminated")
"""Parts of a 403's message: the account is missing, the operator lacks a permission, the namespace is being deleted."""

STILL_THERE: Final = "StillThere"
"""The reason of a refusal: an object of that name is being deleted."""

QUOTA_MS = 10_000
"""The first wait for room in a quota."""

TRIES_GROW: Final = 10
"""The longest wait between two tries, in first ones: what is refused for hours is tried for as long."""

DENIED_LAST_MS: Final = 600_000
"""The longest wait after a denial: it is a Job's."""


def plan_attempt(context: Context) -> StepResult:
    """Put the next attempt on record, and launch it.

    Only the first attempt trusts the cache: its name is unique. The pods of earlier attempts have other names, so any later
    attempt refetches the pods first.
    """
    status = context.status
    last = max(
        [status.attempts, status.attempt.number if status.attempt else 0, *(one.number for one in status.history)]
    )
    number = last + 1
    if number > 1 and not context.observation.live:
        return refetch_pods(context, driver_name(context.observation.name, number))
    kind: AttemptKind = "Plan" if context.plan_first else "Run"
    token_hash = context.observation.token_hash
    attempt = Attempt(
        number=number, kind=kind, state="Planned", pod_name=driver_name(context.observation.name, number),
        start_time=context.timestamp, token_hashes=(token_hash,) if token_hash else None,
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
    """Launch an attempt that is on record and has no pod yet; as often as it takes, its name is always the same."""
    attempt = context.attempt
    assert attempt is not None
    if context.policy.refused:
        return _wait(context, attempt, ConditionSet.stalled("Pending", "SpecRefused", context.policy.refused))
    blocked = blocked_by(context)
    if blocked is not None:
        return blocked
    failed = context.observation.launch_failed
    if failed is None or failed.attempt != attempt.number:
        return _launch_again(context, attempt, _launching(context, attempt))
    if failed.status == CONFLICT and failed.reason not in ("NameCollision", STILL_THERE):
        if not context.observation.live:
            return refetch_pods(context)
        return _launch_again(context, attempt, _launching(context, attempt))
    conditions, first_ms, last_ms = _refused(failed)
    if first_ms == PERSON_MS and context.left_ms(attempt.start_time, PERSON_MS) > 0:
        # What one `kubectl apply` makes comes in any order: an account or a Role may be seconds late.
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
    """Does the API server refuse a pod only because a quota has no room for it? Then there may be room later."""
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
    if failed.status in REFUSED_FOR_GOOD or (failed.status == FORBIDDEN and not _of_surroundings(message)):
        # It may be a policy's or a webhook's, which is corrected without an edit of the spec.
        return ConditionSet.stalled("Pending", "SpecRefused", message), RETRY_MS, DENIED_LAST_MS
    if failed.status in REFUSED_FOR_NOW:
        return ConditionSet.stalled("Pending", "LaunchRefused", message), PERSON_MS, TRIES_GROW * PERSON_MS
    return ConditionSet.reconciling("Launching", "LaunchRefused", message), RETRY_MS, RETRY_MS


def _with_next_try(conditions: ConditionSet, at_ms: int) -> ConditionSet:
    """Return the conditions with the time of the next try, if a person is needed; any other one is seconds away."""
    if not conditions.needs_a_person:
        return conditions
    next_try = (
        f"; the next try is at {rfc3339(at_ms)}, to try now set the annotation {RESTART_ANNOTATION} to a new text"
    )
    return replace(conditions, message=conditions.message[: MESSAGE_CHARACTERS_MAX - len(next_try)] + next_try)


def _of_surroundings(message: str) -> bool:
    """Does a 403 speak of what surrounds the job? Else it speaks of its pod: PodSecurity, a LimitRange, a webhook."""
    return any(one in message.lower() for one in NOT_THE_PODS_FAULT)


def _launch_again(context: Context, attempt: Attempt, conditions: ConditionSet) -> StepResult:
    attempt = _with_token(attempt, context.observation.token_hash)
    control = _as_launched(context, context.status.control or Control())
    result = _wait(replace(context, status=context.status.model_copy(update={"control": control})), attempt, conditions)
    # The attempt is on record already, or was: without the fence a stale observation would bring a dead one back.
    return result.then(PersistIntent(), _launch_action(context, attempt)).requeue_within(RETRY_MS)


def _with_token(attempt: Attempt, token_hash: str) -> Attempt:
    """Put on record that the attempt's Secret may hold another token: the operator that made the first one may be gone.

    An attempt without any is of an earlier version, and so is its Secret, which must stay good.
    """
    known = attempt.token_hashes
    if not known or not token_hash or token_hash in known:
        return attempt
    return attempt.model_copy(update={"token_hashes": (*known, token_hash)[-TOKEN_HASHES_MAX:]})


def _wait(context: Context, attempt: Attempt, conditions: ConditionSet) -> StepResult:
    control = _as_desired(context, context.status.control or Control())
    status = context.status.model_copy(update={"attempt": attempt, "control": control})
    return StepResult(status, without_driver(context, conditions))


def _as_desired(context: Context, control: Control) -> Control:
    """Return the control state of an attempt that starts with what is desired now: it needs no command."""
    desired = context.desired
    return control.model_copy(update=desired.controls)


def _as_launched(context: Context, control: Control) -> Control:
    """Return the control state of an attempt that is launched now: a restart that is requested is done by this."""
    token = context.restart_token or control.restart_token
    return _as_desired(context, control.model_copy(update={"restart_token": token}))


def _launch_action(context: Context, attempt: Attempt) -> LaunchDriver:
    desired = context.desired
    return LaunchDriver(attempt.number, attempt.kind, **desired.controls, token_hashes=attempt.token_hashes or ())


def _launching(context: Context, attempt: Attempt) -> ConditionSet:
    plans = attempt.kind == "Plan"
    return without_driver(context, planning(context) if plans else ConditionSet.reconciling("Launching", "Launching"))
