"""Making an attempt: on record first, then its objects; what is in the way; what the API server said."""

from __future__ import annotations

from backfill_api.names import RESTART_ANNOTATION
from backfill_api.status.conditions import Phase
from backfill_api.status.status import TOKEN_HASHES_MAX, Attempt, AttemptKind, Control
from backfill_core.lifecycle.actions import LaunchDriver, PersistIntent
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.naming import driver_name
from backfill_core.lifecycle.observation import LaunchFailed
from backfill_core.lifecycle.status import condition_details
from backfill_core.lifecycle.status.conditions import ConditionSet
from backfill_core.lifecycle.steps.commands import TOKEN_CHARACTERS_MAX
from backfill_core.lifecycle.steps.step import StepResult, clear_away, refetch_pods, stuck_ms

CONFLICT, FORBIDDEN = 409, 403
REFUSED_FOR_GOOD = frozenset({400, 413, 422})
"""The same objects will be refused again; only another spec, or another cluster, changes that."""

REFUSED_FOR_NOW = frozenset({401, 403, 404, 405})

NOT_THE_PODS_FAULT = ("error looking up service account", "cannot create resource", "is being terminated")
"""In what words a 403 says that an account is missing, that the operator itself may not, that the namespace goes."""

SOON_MS, QUOTA_MS, PERSON_MS, SPEC_MS = 5_000, 10_000, 30_000, 300_000
"""When to try again: after a server's trouble; for quota; after a person may have mended it; under the same spec."""


def plan_attempt(context: Context) -> StepResult:
    """Put the next attempt on record, and launch it.

    Only the first attempt trusts the cache: its name is the wall. Any later one looks live, because the attempts before
    it have other names.
    """
    status = context.status
    last = max(
        [status.attempts, status.attempt.number if status.attempt else 0, *(one.number for one in status.history)]
    )
    number = last + 1
    if number > 1 and not context.observation.live:
        return refetch_pods(context, driver_name(context.observation.name, number))
    kind: AttemptKind = "Plan" if context.plan_first else "Run"
    attempt = Attempt(
        number=number, kind=kind, state="Planned", pod_name=driver_name(context.observation.name, number),
        start_time=context.timestamp, token_hashes=(context.observation.token_hash,) if context.observation.token_hash else None,
    )  # fmt: skip
    control = status.control or Control()
    # Whatever asked for a restart before there was anything to restart has got it.
    token = context.observation.annotations.get(RESTART_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]
    control = control.model_copy(update={"restart_token": token or control.restart_token})
    status = status.model_copy(
        update={
            "attempt": attempt,
            "attempts": number,
            "control": _asked(context, control),
            "start_time": status.start_time or context.timestamp,
            "completion_time": None,
        }
    )
    return StepResult(status, _conditions(context, attempt), (PersistIntent(), _launch(context, attempt)), SOON_MS)


def launch(context: Context, attempt: Attempt) -> StepResult:
    """Launch an attempt that is on record and has no pod yet; as often as it takes, its name is always the same."""
    if context.policy.refused:
        return _waits(context, attempt, ConditionSet.stalled("Pending", "SpecRefused", context.policy.refused))
    blocked = blocked_by(context)
    if blocked is not None:
        return blocked
    failed = context.observation.launch_failed
    if failed is None or failed.attempt != attempt.number:
        return _again(context, attempt, _conditions(context, attempt))
    if failed.status == CONFLICT and failed.reason != "NameCollision":
        if not context.observation.live:
            return refetch_pods(context)
        return _again(context, attempt, _conditions(context, attempt))
    conditions, wait_ms = _told(failed)
    left_ms = min(failed.at_ms + wait_ms - context.now_ms, wait_ms)
    edited = context.observation.generation != context.observation.status.observed_generation
    if left_ms <= 0 or edited:
        return _again(context, attempt, conditions)
    return _waits(context, attempt, conditions).requeue_within(left_ms)


def blocked_by(context: Context) -> StepResult | None:
    """Return what to do about pods that must go before a driver may be made; None: there are none."""
    phase: Phase = "Retrying" if context.status.history else "Pending"
    if context.orphan_pods:
        names = ", ".join(pod.name for pod in context.orphan_pods[:3])
        conditions = ConditionSet.reconciling(phase, "DriverStopping", f"{names} must end first")
        away = clear_away(context, context.orphan_pods, grace_s=context.policy.drain_s)
        return StepResult(context.status, _bare(context, conditions), away, SOON_MS).requeue_within(
            stuck_ms(context, context.orphan_pods)
        )
    if not context.foreign_pods:
        return None
    pod = min(context.foreign_pods, key=lambda one: (one.deletion_ms is not None, one.name))
    if pod.deletion_ms is not None:
        conditions = ConditionSet.reconciling(
            phase, "DriverStopping", f"{pod.name} of an earlier Backfill must end first"
        )
        return StepResult(context.status, _bare(context, conditions), (), SOON_MS)
    words = f"pod {pod.name} belongs to somebody else; delete it, or give the Backfill another name"
    return StepResult(
        context.status, _bare(context, ConditionSet.stalled("Pending", "NameCollision", words)), (), PERSON_MS
    )


def _told(failed: LaunchFailed) -> tuple[ConditionSet, int]:
    """Return how the API server's answer looks, and when to ask again."""
    words = failed.message or failed.reason or f"HTTP {failed.status}"
    if failed.status == CONFLICT:
        return ConditionSet.stalled("Pending", "NameCollision", words), PERSON_MS
    if failed.status == FORBIDDEN and "quota" in words.lower():
        return ConditionSet.reconciling("Pending", "QuotaExceeded", words), QUOTA_MS
    if failed.status in REFUSED_FOR_GOOD or (failed.status == FORBIDDEN and not _mendable(words)):
        return ConditionSet.stalled("Pending", "SpecRefused", words), SPEC_MS
    if failed.status in REFUSED_FOR_NOW:
        return ConditionSet.stalled("Pending", "LaunchRefused", words), PERSON_MS
    return ConditionSet.reconciling("Launching", "LaunchRefused", words), SOON_MS


def _mendable(words: str) -> bool:
    """Does a 403 speak of what surrounds the job? Else it speaks of its pod: PodSecurity, a LimitRange, a webhook."""
    return any(one in words.lower() for one in NOT_THE_PODS_FAULT)


def _again(context: Context, attempt: Attempt, conditions: ConditionSet) -> StepResult:
    attempt = _known_by(attempt, context.observation.token_hash)
    result = _waits(context, attempt, conditions)
    # On record already, but perhaps no longer: without the fence a stale look would bring a dead attempt back.
    return result.then(PersistIntent(), _launch(context, attempt)).requeue_within(SOON_MS)


def _known_by(attempt: Attempt, token_hash: str) -> Attempt:
    """Put on record that its Secret may hold another token: the operator that made the first one may be no more.

    An attempt without any is of an earlier version, and so is its Secret, which must stay good.
    """
    known = attempt.token_hashes
    if not known or not token_hash or token_hash in known:
        return attempt
    return attempt.model_copy(update={"token_hashes": (*known, token_hash)[-TOKEN_HASHES_MAX:]})


def _waits(context: Context, attempt: Attempt, conditions: ConditionSet) -> StepResult:
    control = _asked(context, context.status.control or Control())
    status = context.status.model_copy(update={"attempt": attempt, "control": control})
    return StepResult(status, _bare(context, conditions), (), PERSON_MS)


def _asked(context: Context, control: Control) -> Control:
    """An attempt starts with what is wanted now; nobody has to be told."""
    desired = context.desired
    return control.model_copy(update={"paused": desired.paused, "rows_per_second": desired.rows_per_second})


def _launch(context: Context, attempt: Attempt) -> LaunchDriver:
    desired = context.desired
    return LaunchDriver(
        attempt.number, attempt.kind, desired.paused, desired.rows_per_second, token_hashes=attempt.token_hashes or ()
    )


def _conditions(context: Context, attempt: Attempt) -> ConditionSet:
    plans = attempt.kind == "Plan"
    return _bare(
        context,
        ConditionSet.reconciling("Pending", "Planning")
        if plans
        else ConditionSet.reconciling("Launching", "Launching"),
    )


def _bare(context: Context, conditions: ConditionSet) -> ConditionSet:
    return conditions.with_details(condition_details.without_driver(context))
