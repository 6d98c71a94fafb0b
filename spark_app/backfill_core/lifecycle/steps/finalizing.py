"""The object is being deleted, or its job is over: what is left to tidy."""

from __future__ import annotations

from dataclasses import replace

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.status.status import Condition
from backfill_core.lifecycle.actions import Action, DeleteObject, RemoveFinalizer
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.observation import DriverPod
from backfill_core.lifecycle.status import condition_details
from backfill_core.lifecycle.status.conditions import ConditionSet
from backfill_core.lifecycle.steps.idle import reconcile_idle
from backfill_core.lifecycle.steps.running import LAST_GRACE_S, reconcile_running
from backfill_core.lifecycle.steps.step import StepResult, clear_away, not_retained, refetch_pods, stuck_ms


def finalize(context: Context) -> StepResult:
    """Let a deleted object go: after its driver's drain, or at once. Nothing is launched for it any more.

    Without our finalizer nobody waits for us: the garbage collector ends the pods, which stop at a barrier on SIGTERM. So
    does a driver of ours when nothing can be put on record: no status may keep an object that somebody wants gone.
    """
    conditions = ConditionSet.reconciling("Terminating", "Draining").with_details(
        condition_details.without_driver(context)
    )
    result = StepResult(context.status, conditions)
    if DRAIN_FINALIZER not in context.observation.finalizers:
        return result
    alive = _alive(context)
    if not context.policy.drains:
        return result.then(*clear_away(context, alive, grace_s=LAST_GRACE_S), RemoveFinalizer())
    if not alive:
        return result.then(RemoveFinalizer()) if context.observation.live else refetch_pods(context)
    attempt = context.attempt
    if context.observation.recordable and attempt is not None and context.pod is not None and not context.pod.over:
        return reconcile_running(context, attempt, stop="Deleted")
    away = clear_away(context, alive, grace_s=context.policy.drain_s)
    return result.then(*away).requeue_within(stuck_ms(context, alive))


def reconcile_finished(context: Context, over: Condition) -> StepResult:
    """Look after a job that is over: tidy, wait for its time to live, and take up a failed one whose spec was edited."""
    edited = over.observed_generation is not None and context.observation.generation > over.observed_generation
    if over.type == "Failed" and edited and not context.policy.refused:
        fresh = {"failures": 0, "start_time": None, "completion_time": None}
        return reconcile_idle(replace(context, status=context.status.model_copy(update=fresh)))
    conditions = (
        ConditionSet.complete(over.message)
        if over.type == "Complete"
        else ConditionSet.failed(over.reason, over.message)
    )
    alive = _alive(context)
    actions: list[Action] = [*clear_away(context, alive, grace_s=context.policy.drain_s), *not_retained(context)]
    if not alive and DRAIN_FINALIZER in context.observation.finalizers:
        actions.append(RemoveFinalizer())
    result = StepResult(
        context.status, conditions.with_details(condition_details.without_driver(context)), tuple(actions)
    )
    result = result.requeue_within(stuck_ms(context, alive))
    ttl_s, ended = context.policy.ttl_s, context.status.completion_time
    if ttl_s is None or ended is None or context.policy.refused:
        return result
    left_ms = context.left_ms(ended, ttl_s * 1000)
    return result.then(DeleteObject()) if left_ms <= 0 else result.requeue_within(left_ms)


def _alive(context: Context) -> tuple[DriverPod, ...]:
    current = () if context.pod is None or context.pod.over else (context.pod,)
    return (*current, *(pod for pod in context.orphan_pods if pod is not context.pod))
