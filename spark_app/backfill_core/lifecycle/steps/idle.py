"""Situation without an attempt in flight: suspended, waiting for approval or a slot, backing off, given up, done, or launchable."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from backfill_api.amounts import counted, show_seconds
from backfill_api.status.conditions import Phase
from backfill_core.lifecycle.actions import DRIVERS_LIMITED
from backfill_core.lifecycle.inputs.all_jobs import ALL_JOBS_PAUSED, describe_pause
from backfill_core.lifecycle.inputs.backoff import backoff_ms
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.next_look import next_look_ms
from backfill_core.lifecycle.inputs.procedures import (
    UNRECORDED,
    begins_now,
    copy_back_paused,
    copy_back_unwanted,
    may_refuse_writes,
    unrecorded,
    with_next_procedure,
)
from backfill_core.lifecycle.inputs.termination import UNCOUNTED
from backfill_core.lifecycle.observation import SpecRefused
from backfill_core.lifecycle.status import condition_details
from backfill_core.lifecycle.status.conditions import ConditionSet, Fact
from backfill_core.lifecycle.status.procedure_ends import with_copy_back_unwanted
from backfill_core.lifecycle.steps.step import (
    Ended,
    StepResult,
    blocked_by,
    continues_after_end,
    delete_unretained,
    held_by_dependencies,
    held_by_queue,
    held_launch,
    release,
    without_driver,
)

NO_BACKOFF: Final = frozenset({
    "Suspended", "Paused", "Restarted", "SpecChanged", "Planned", "Switching", "Switched", "Repairing", "Undone", "SwitchRefused", "Repaired",
    "RepairRefused", "EvictedByQueue",
})  # fmt: skip
"""Reasons of requested ends, edits included: the next attempt need not wait."""

FOLLOWS: Final = "the job has ended, and spec.after: Follow continues it from there"

COPY_HELD: Final = "nothing copies back; this continues after the pause"

REJECTED: Final = "PodRejected"
REJECTED_FIRST_MS, REJECTED_LAST_MS = 10_000, 100_000
"""Waits after a kubelet rejected a pod for lack of room. The scheduler learns it within ten seconds; then pods wait for a node."""

PLACE_FIRST_MS, PLACE_LAST_MS = 60_000, 1_800_000
"""The end of another driver wakes a Backfill that waits for a slot; these polls cover an end that was missed."""


def reconcile_idle(context: Context) -> StepResult | Ended[Literal["Launchable"]]:
    """Decide the next action of a Backfill without an attempt in flight, or the reason to wait.

    If an attempt ended in this very decision, no new one is launched: first its end must be on record.
    """
    result = _reconcile(context)
    return result.then(*delete_unretained(context)) if isinstance(result, StepResult) else result


def _reconcile(context: Context) -> StepResult | Ended[Literal["Launchable"]]:
    status, policy, termination = context.status, context.policy, context.termination
    if termination is not None and termination.outcome == "Complete":
        if continues_after_end(context):
            # `after` was edited while the driver ran, which had read the previous spec.
            conditions = ConditionSet.reconciling("Launching", "Launching", FOLLOWS)
            return StepResult(status, without_driver(context, conditions)).requeue_within(0)
        return _finish(context, ConditionSet.complete(condition_details.without_effect(context)))
    if termination is not None and termination.outcome == "Final":
        return _finish(context, ConditionSet.failed(termination.reason, termination.message))
    last_end = _last_end(context)
    if status.failures > policy.backoff_limit:
        # Without retries, the reason of the failure is more useful than the exceeded limit.
        reason = termination.reason if termination and policy.backoff_limit == 0 else "BackoffLimitExceeded"
        return _finish(
            context, ConditionSet.failed(reason, f"{counted(status.failures, 'attempt')} failed; the last: {last_end}")
        )
    blocked = blocked_by(context)
    if blocked is not None and context.orphan_pods:
        return blocked
    if (stalled := _stalled(context)) is not None:
        return StepResult(status, without_driver(context, stalled))
    if context.desired.suspend:
        return _suspended(context)
    context = with_next_procedure(context)
    status = context.status
    if (held := _without_copy_back(context)) is not None:
        return held
    if (waits := blocked or held_by_dependencies(context)) is not None:
        return waits
    if context.plan_first and context.plan_counts:
        return _awaits_approval(context)
    if termination is None and (held := held_launch(context)) is not None:
        return held
    deadline_left_ms = None
    if status.start_time is not None and policy.deadline_s is not None:
        deadline_left_ms = context.left_ms(status.start_time, policy.deadline_s * 1000)
        if deadline_left_ms <= 0:
            message = f"the job took longer than {show_seconds(policy.deadline_s)}; {last_end}"
            return _finish(context, ConditionSet.failed("DeadlineExceeded", message))
    backoff_left_ms = _backoff_left_ms(context)
    if backoff_left_ms > 0 or termination is not None:
        return _between_attempts(context, last_end).requeue_within(backoff_left_ms, deadline_left_ms)
    if context.observation.no_room and not may_refuse_writes(status):
        conditions = ConditionSet.reconciling("Pending", DRIVERS_LIMITED, context.observation.no_room)
        result = StepResult(status, without_driver(context, conditions))
        reconciling = context.condition("Reconciling")
        since = reconciling.last_transition_time if reconciling is not None else None
        look_ms = next_look_ms(context, since, first_ms=PLACE_FIRST_MS, last_ms=PLACE_LAST_MS)
        return result.requeue_within(look_ms, deadline_left_ms)
    return held_by_queue(context) or Ended("Launchable", context)


def _between_attempts(context: Context, last_end: str) -> StepResult:
    """Return the result while the next attempt waits, which describes the end of the last one."""
    reason = _end_reason(context)
    if reason in NO_BACKOFF:
        message = "the spec was changed before its pods could start" if reason == "SpecChanged" else ""
        conditions = ConditionSet.reconciling("Launching", reason, message)
        return StepResult(context.status, without_driver(context, conditions))
    rejected = reason == REJECTED
    phase: Phase = "Pending" if rejected else "Retrying"
    conditions = ConditionSet.reconciling(phase, REJECTED if rejected else "BackingOff", last_end)
    return StepResult(context.status, without_driver(context, conditions), release(context))


def _stalled(context: Context) -> ConditionSet | None:
    """Return why no driver may start until a user acts; `None` if one may."""
    if context.policy.refused:
        return ConditionSet.stalled("Pending", "SpecRefused", context.policy.refused)
    message = unrecorded(context)
    return ConditionSet.stalled("Pending", UNRECORDED, message) if message else None


def _finish(context: Context, conditions: ConditionSet) -> StepResult:
    """End the job; a failed one continues after an edit of the spec."""
    update: dict[str, object] = {"completion_time": context.timestamp}
    refresh = context.status.refresh
    if refresh is not None and context.refreshing:
        reason = conditions.reason if context.termination is None else context.termination.reason
        update["refresh"] = refresh.model_copy(update={"end": context.timestamp, "reason": reason})
    status = context.status.model_copy(update=update)
    return StepResult(status, without_driver(context, conditions), release(context))


def _awaits_approval(context: Context) -> StepResult:
    conditions = ConditionSet.waiting("AwaitingApproval", "AwaitingApproval", _what_approves(context))
    conditions = conditions.with_details({"AwaitingApproval": Fact("True", "AwaitingApproval")})
    # The deadline is for work, not for the time that a user needs to decide.
    status = context.status.model_copy(update={"start_time": None})
    return StepResult(status, without_driver(context, conditions), release(context))


def _what_approves(context: Context) -> str:
    """Describe the fields that a user may set to continue. An approval of another plan is mentioned, because it resembles one of this plan."""
    spec, name = context.observation.spec, context.status.plan_of
    by_name = f"set spec.approvedPlan: {name} to continue"
    if isinstance(spec, SpecRefused) or (spec.approved_plan is None and not spec.approved):
        return (
            f"set spec.approved: true to continue, or spec.approvedPlan: {name} to approve this plan and no later one"
        )
    if spec.approved_plan is not None:
        return f"spec.approvedPlan names another plan than this one; {by_name}"
    return f"the spec was changed after spec.approved was set for another plan; {by_name}"


def _suspended(context: Context) -> StepResult:
    reason = "Override" if context.desired.suspend_overridden else "AsRequested"
    details = condition_details.without_driver(context.status, suspended=reason)
    conditions = ConditionSet.ready("Suspended", reason).with_details(details)
    # The deadline counts from the resumption, as for a Job.
    status = context.status.model_copy(update={"start_time": None})
    return StepResult(status, conditions, release(context))


def _without_copy_back(context: Context) -> StepResult | None:
    """Return the result if no attempt may copy back although one would follow; `None` otherwise."""
    if copy_back_unwanted(context):
        ends = replace(context, status=with_copy_back_unwanted(context.status))
        return _finish(ends, ConditionSet.complete(condition_details.without_effect(ends)))
    return _paused(context) if copy_back_paused(context) else None


def _paused(context: Context) -> StepResult:
    """Return the result while a pause holds the copy back. No driver runs, so the pause is in force."""
    pause, by = context.desired.all_jobs_pause, "Override" if context.desired.pause_overridden else "AsRequested"
    fact = Fact("True", by, COPY_HELD) if pause is None else Fact("True", ALL_JOBS_PAUSED, describe_pause(pause))
    details = condition_details.without_driver(context.status) | {"Paused": fact}
    conditions = ConditionSet.ready("Paused", fact.reason, fact.message).with_details(details)
    # The deadline counts from the resumption.
    status = context.status.model_copy(update={"start_time": None})
    return StepResult(status, conditions, release(context))


def _backoff_left_ms(context: Context) -> int:
    status = context.status
    if not status.history or status.attempt is None:
        return 0
    reason, last = _end_reason(context), status.history[-1]
    if begins_now(status):
        return 0
    if reason == REJECTED:
        if context.observation.generation != context.observation.status.observed_generation:
            return 0
        wait_ms = next_look_ms(context, last.start, first_ms=REJECTED_FIRST_MS, last_ms=REJECTED_LAST_MS)
        return min(context.left_ms(last.end, wait_ms), wait_ms)
    lost = _lost_in_a_row(context)
    if reason in NO_BACKOFF or (max(status.failures, lost) == 0 and reason != "Stopped"):
        return 0  # the end was requested, or an edit of the spec has reset the count
    failures = 1 if reason == "Stopped" else max(status.failures, lost)
    wait_ms = backoff_ms(context.policy, context.observation.uid, status.attempt.number, failures)
    return min(context.left_ms(last.end, wait_ms), wait_ms)


def _lost_in_a_row(context: Context) -> int:
    """Return the number of consecutive attempts that the cluster ended; they do not count as failures, but they wait like failures."""
    attempt = context.status.attempt
    reasons = [past.reason for past in reversed(context.status.history)]
    lost = next((number for number, reason in enumerate(reasons) if reason not in UNCOUNTED), len(reasons))
    return min(lost, 1) if attempt is not None and attempt.committed else lost


def _end_reason(context: Context) -> str:
    """Return the reason of the last attempt's end; empty without an earlier attempt."""
    return context.status.history[-1].reason if context.status.history else ""


def _last_end(context: Context) -> str:
    """Describe the end of the last attempt; once the end is on record, the condition contains the message."""
    history, termination = context.status.history, context.termination
    if termination is not None:
        return f"attempt {history[-1].number} ended with {termination.reason}: {termination.message}".rstrip(": ")
    before = context.condition("Reconciling")
    if before is not None and before.reason in ("BackingOff", REJECTED) and before.message:
        return before.message
    return f"attempt {history[-1].number} ended with {history[-1].reason}" if history else "no attempt was made"
