"""Situation of a deleted job whose drivers have ended: what its `deletionPolicy` asks for, and then the end of the object."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from backfill_api.status.procedure import ClosingRun
from backfill_core.lifecycle.actions import DRIVERS_LIMITED, RemoveFinalizer
from backfill_core.lifecycle.closing import closing_left_ms, given_up, must_close, running
from backfill_core.lifecycle.inputs.backoff import backoff_ms
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.next_look import next_look_ms
from backfill_core.lifecycle.inputs.procedures import may_refuse_writes, short
from backfill_core.lifecycle.status.conditions import ConditionSet
from backfill_core.lifecycle.steps.step import (
    DEPENDENCY_FIRST_MS,
    DEPENDENCY_LAST_MS,
    Ended,
    StepResult,
    blocked_by,
    orphans,
    without_driver,
)


def close(context: Context) -> StepResult | Ended[Literal["Launchable"]]:
    """Launch the attempt that closes a deleted job, wait for it to be possible, or let the object go.

    No process of the job runs any more, and the pods were read from the API server.
    """
    run = running(context.status)
    if not must_close(context):
        return _gone(context)
    if (end := given_up(context)) is not None:
        before = run or ClosingRun(state="Running", start=context.timestamp)
        over = before.model_copy(update={"state": end.state, "reason": end.state, "message": short(end.message)})
        return _gone(_with(context, over))
    if run is None and context.observation.no_room and not may_refuse_writes(context.status):
        return _without_room(context)
    run = run or ClosingRun(state="Running", start=context.timestamp)
    context = _with(context, run)
    wait_ms, blocked = _wait_ms(context, run), blocked_by(context)
    if blocked is not None:
        shown = blocked.conditions or ConditionSet.reconciling("Terminating", "Closing")
        result = replace(blocked, conditions=replace(shown, phase="Terminating"))
        return result.requeue_within(closing_left_ms(context, run))
    if wait_ms <= 0 and context.termination is None:
        return Ended("Launchable", context)
    message = f"{run.reason}: {run.message}" if run.message else ""
    conditions = ConditionSet.reconciling("Terminating", "Closing", message)
    result = StepResult(context.status, without_driver(context, conditions))
    return result.requeue_within(max(wait_ms, 0), closing_left_ms(context, run))


def _with(context: Context, run: ClosingRun) -> Context:
    return replace(context, status=context.status.model_copy(update={"closing": run}))


def _without_room(context: Context) -> StepResult:
    """Wait for a slot. The time of the closing counts only once a driver may start."""
    conditions = ConditionSet.reconciling("Terminating", DRIVERS_LIMITED, context.observation.no_room)
    before = context.condition("Reconciling")
    since = None if before is None else before.last_transition_time
    look_ms = next_look_ms(context, since, first_ms=DEPENDENCY_FIRST_MS, last_ms=DEPENDENCY_LAST_MS)
    return StepResult(context.status, without_driver(context, conditions), (), look_ms)


def _gone(context: Context) -> StepResult:
    """Let the object go; an end that a driver has just reported is recorded first.

    The pod has the only other record, and another writer may prevent the removal of the finalizer: the next decision would find neither.
    """
    conditions = ConditionSet.reconciling("Terminating", "Draining")
    result = StepResult(context.status, without_driver(context, conditions))
    if context.termination is not None and context.observation.recordable:
        return result.requeue_within(0)
    return result.then(*orphans(context), RemoveFinalizer())


def _wait_ms(context: Context, run: ClosingRun) -> int:
    """Return the milliseconds until the next attempt, after one that closed nothing."""
    attempt, history = context.status.attempt, context.status.history
    if attempt is None or attempt.procedure != "Close" or not history or history[-1].number != attempt.number:
        return 0
    wait_ms = backoff_ms(context.policy, context.observation.uid, attempt.number, max(run.failures, 1))
    return min(context.left_ms(history[-1].end, wait_ms), wait_ms)
