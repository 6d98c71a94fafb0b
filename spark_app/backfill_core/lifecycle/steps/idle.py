"""No attempt in flight: suspended, waiting for approval, waiting for its turn, given up; or the next one starts."""

from __future__ import annotations

from backfill_api.names import DRAIN_FINALIZER
from backfill_core.lifecycle.actions import Action, RemoveFinalizer
from backfill_core.lifecycle.inputs.backoff import backoff_ms
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.termination import Termination
from backfill_core.lifecycle.status import condition_details
from backfill_core.lifecycle.status.conditions import ConditionSet, Fact
from backfill_core.lifecycle.steps.launching import blocked_by, plan_attempt
from backfill_core.lifecycle.steps.step import StepResult, not_retained

AT_ONCE = frozenset({"Suspended", "Restarted", "Planned"})
"""Ends that were asked for: the next attempt need not wait."""

NO_ROOM_MS = 60_000
"""Whoever waits for another driver's end is told of it; this is for what is missed."""


def reconcile_idle(context: Context, *, just_ended: Termination | None = None) -> StepResult:
    """Decide what happens while no attempt is in flight.

    Args:
        context: The classified observation.
        just_ended: How the attempt ended in this very round. Then no new one is planned: first the end is on record.
    """
    result = _reconcile_idle(context, just_ended)
    return result if result.conditions is None else result.then(*not_retained(context))


def _reconcile_idle(context: Context, just_ended: Termination | None) -> StepResult:
    status, policy, desired = context.status, context.policy, context.desired
    why = _why(context, just_ended)
    if status.failures > policy.backoff_limit:
        words = f"{status.failures} attempts failed; the last: {why}"
        # Without a single retry the reason of the failure says more than that there was none.
        reason = just_ended.reason if just_ended and policy.backoff_limit == 0 else "BackoffLimitExceeded"
        return give_up(context, reason, words)
    blocked = blocked_by(context)
    if blocked is not None and context.orphan_pods:
        return blocked
    if policy.refused:
        conditions = ConditionSet.stalled("Pending", "SpecRefused", policy.refused)
        return StepResult(status, conditions.with_details(condition_details.without_driver(context)))
    if desired.suspend:
        return _suspended(context)
    if blocked is not None:
        return blocked
    if context.plan_first and status.plan is not None:
        return _awaits_approval(context)
    deadline_left_ms = None
    if status.start_time is not None and policy.deadline_s is not None:
        deadline_left_ms = context.left_ms(status.start_time, policy.deadline_s * 1000)
        if deadline_left_ms <= 0:
            return give_up(context, "DeadlineExceeded", f"the job took longer than {policy.deadline_s} s; {why}")
    left_ms = _wait_ms(context)
    if left_ms > 0 or just_ended is not None:
        again = _ended_as(context) in AT_ONCE
        conditions = (
            ConditionSet.reconciling("Launching", _ended_as(context))
            if again
            else ConditionSet.reconciling("Retrying", "BackingOff", why)
        )
        return StepResult(status, conditions.with_details(condition_details.without_driver(context))).requeue_within(
            left_ms, deadline_left_ms
        )
    if context.observation.no_room:
        conditions = ConditionSet.reconciling("Pending", "DriversLimited", context.observation.no_room)
        return StepResult(status, conditions.with_details(condition_details.without_driver(context))).requeue_within(
            NO_ROOM_MS, deadline_left_ms
        )
    return plan_attempt(context)


def give_up(context: Context, reason: str, words: str) -> StepResult:
    """End the job badly; an edit of the spec takes it up again."""
    status = context.status.model_copy(update={"completion_time": context.timestamp})
    conditions = ConditionSet.failed(reason, words).with_details(condition_details.without_driver(context))
    return StepResult(status, conditions, _released(context))


def finish(context: Context) -> StepResult:
    """End the job well."""
    status = context.status.model_copy(update={"completion_time": context.timestamp})
    return StepResult(
        status, ConditionSet.complete().with_details(condition_details.without_driver(context)), _released(context)
    )


def _awaits_approval(context: Context) -> StepResult:
    conditions = ConditionSet.waiting("AwaitingApproval", "AwaitingApproval", "set spec.approved: true to go on")
    facts = {"AwaitingApproval": Fact("True", "AwaitingApproval")}
    # The deadline is for work, not for people who think.
    status = context.status.model_copy(update={"start_time": None})
    return StepResult(
        status, conditions.with_details(facts | condition_details.without_driver(context)), _released(context)
    )


def _suspended(context: Context) -> StepResult:
    reason = "Override" if context.desired.suspend_overridden else "AsRequested"
    conditions = ConditionSet.ready("Suspended", reason).with_details(
        condition_details.without_driver(context, suspended=reason)
    )
    # The deadline counts from the resumption, as a Job's does: nobody works meanwhile.
    status = context.status.model_copy(update={"start_time": None})
    return StepResult(status, conditions, _released(context))


def _released(context: Context) -> tuple[Action, ...]:
    """Let the object go without us while there is nothing to drain: somebody may uninstall the operator."""
    return (RemoveFinalizer(),) if DRAIN_FINALIZER in context.observation.finalizers and not context.orphan_pods else ()


def _wait_ms(context: Context) -> int:
    status = context.status
    if not status.history or status.attempt is None:
        return 0
    reason = _ended_as(context)
    if reason in AT_ONCE or (status.failures == 0 and reason != "Stopped"):
        return 0  # asked for; or an edit has wiped the slate
    failures = 1 if reason == "Stopped" else status.failures
    wait_ms = backoff_ms(context.policy, context.observation.uid, status.attempt.number, failures)
    return min(context.left_ms(status.history[-1].end, wait_ms), wait_ms)


def _ended_as(context: Context) -> str:
    return context.status.history[-1].reason if context.status.history else ""


def _why(context: Context, just_ended: Termination | None) -> str:
    """Return the words for the last end; they are in the condition once the end is on record."""
    history = context.status.history
    if just_ended is not None:
        return f"attempt {history[-1].number} ended with {just_ended.reason}: {just_ended.message}".rstrip(": ")
    before = context.condition("Reconciling")
    if before is not None and before.reason == "BackingOff" and before.message:
        return before.message
    return f"attempt {history[-1].number} ended with {history[-1].reason}" if history else "no attempt was made"
