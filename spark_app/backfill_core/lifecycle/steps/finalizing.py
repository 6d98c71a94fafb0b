"""Situation of a deleted object or a finished job: the remaining cleanup."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import BackfillStatus, Control, RefreshRun
from backfill_core.lifecycle.actions import Action, DeleteObject, RemoveFinalizer
from backfill_core.lifecycle.closing import given_up, is_closing
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.procedures import (
    answered,
    continued,
    failed_unreported,
    fences_source,
    procedure_of,
    refused,
    requested,
)
from backfill_core.lifecycle.observation import DriverPod
from backfill_core.lifecycle.refresh_times import refresh_is_due, with_started
from backfill_core.lifecycle.status.condition_details import without_effect
from backfill_core.lifecycle.status.conditions import ConditionSet
from backfill_core.lifecycle.steps.step import (
    STOP_GRACE_S,
    Ended,
    StepResult,
    can_refresh,
    continues_after_end,
    delete_pods,
    delete_unretained,
    orphans,
    refetch_pods,
    release,
    stuck_ms,
    without_driver,
)


def finalize(context: Context) -> StepResult | Ended[Literal["DriverToDrain", "Drained"]]:
    """Release a deleted object: after its driver's drain and what its policy asks for, or at once. The job never runs again.

    Without the finalizer the object no longer exists: the garbage collector ends the pods, and a driver stops at a barrier
    on SIGTERM. A driver is ended in the same way if the status cannot be written: no status may block a deletion.
    """
    result = StepResult(context.status, without_driver(context, ConditionSet.reconciling("Terminating", "Draining")))
    if DRAIN_FINALIZER not in context.observation.finalizers:
        return result
    alive, recordable = _alive(context), context.observation.recordable
    if not context.policy.drains:
        return result.then(*delete_pods(context, alive, grace_s=STOP_GRACE_S), *orphans(context), RemoveFinalizer())
    if not alive and not context.observation.live:
        return refetch_pods(context)
    pod = context.pod
    if recordable and is_closing(context):
        waits = pod is None and not alive and given_up(context) is not None
        return Ended("Drained" if waits else "DriverToDrain", context)
    if not alive:
        return Ended("Drained", context)
    if recordable and context.attempt is not None and pod is not None and not pod.over:
        return Ended("DriverToDrain", context)
    result = result.then(*delete_pods(context, alive, grace_s=context.policy.drain_s))
    return result.requeue_within(stuck_ms(context, alive))


def reconcile_finished(context: Context) -> StepResult | Ended[Literal["Reopened"]]:
    """Clean up after a finished job, and delete it once its time to live has passed.

    A failed job continues after an edit of its spec or a requested restart. A complete job continues with `after: Follow`, a requested
    refresh, or a time of its schedule, and so does a job whose last refresh failed. Both continue for a procedure.
    """
    context, begins = _with_request(context)
    finished, policy = context.finished, context.policy
    assert finished is not None
    seen_generation = finished.observed_generation
    edited = seen_generation is not None and context.observation.generation > seen_generation
    failed = finished.type == "Failed"
    resumes = edited or context.restart_requested if failed else continues_after_end(context)
    resumes = resumes or begins or (not failed and procedure_of(context.status) is not None)
    due = refresh_is_due(context) and (not failed or context.refreshing)
    refreshes = not resumes and (due or (not failed and can_refresh(context)))
    if (resumes or refreshes) and not policy.refused:
        reopened = _reopened(context, refreshes=refreshes)
        return Ended("Reopened", replace(context, status=reopened))
    if finished.type == "Complete":
        conditions = ConditionSet.complete(without_effect(context) or ("" if edited else finished.message))
    else:
        conditions = ConditionSet.failed(finished.reason, finished.message)
    alive = _alive(context)
    actions: list[Action] = [*delete_pods(context, alive, grace_s=policy.drain_s), *delete_unretained(context)]
    if not alive:
        actions += release(context)
    result = StepResult(context.status, without_driver(context, conditions), tuple(actions))
    result = result.requeue_within(stuck_ms(context, alive))
    completed = context.status.completion_time
    if policy.ttl_s is None or completed is None or policy.refused or _records_a_fence(context):
        return result
    left_ms = context.left_ms(completed, policy.ttl_s * 1000)
    return result.then(DeleteObject()) if left_ms <= 0 else result.requeue_within(left_ms)


def _records_a_fence(context: Context) -> bool:
    """Return whether only this object shows that the source is fenced, and a deletion by time would leave it so."""
    spec, run = context.observation.spec, context.status.switch
    opens = isinstance(spec, BackfillSpec) and spec.deletion_policy == "Release"
    switched = run is not None and run.place == "Target"
    return fences_source(context.status) and not (opens and switched)


def _with_request(context: Context) -> tuple[Context, bool]:
    """Answer a requested procedure; return whether it begins. A failed job may be repaired, and a switch-over may go on or be undone."""
    request = requested(context)
    if request is None:
        return context, False
    failed = context.finished is not None and context.finished.type == "Failed"
    goes_on = context.status.switch is not None and context.status.switch.place in ("Between", "Target")
    goes_on = goes_on or failed_unreported(context)
    error = refused(context, request)
    if error is None and failed and request.kind != "Repair" and not goes_on:
        return context, False
    return replace(context, status=answered(context, request, error)), error is None


def _reopened(context: Context, *, refreshes: bool) -> BackfillStatus:
    """Return the status of a job that is over no more; a failed refresh is tried again as a refresh."""
    status, token = continued(context.status), context.refresh_requested
    fresh: dict[str, object] = {"failures": 0, "start_time": None, "completion_time": None}
    if refreshes:
        control = status.control or Control()
        control = control.model_copy(update={"refresh_token": token or control.refresh_token})
        fresh |= {"control": control, "refresh": RefreshRun(start=context.timestamp)}
        status = with_started(status, context.now_ms)
    elif status.refresh is not None and context.refreshing:
        fresh["refresh"] = RefreshRun(start=status.refresh.start)
    return status.model_copy(update=fresh)


def _alive(context: Context) -> tuple[DriverPod, ...]:
    """Return pods of this Backfill in which a process may still run."""
    current = () if context.pod is None or context.pod.over else (context.pod,)
    return (*current, *(pod for pod in context.orphan_pods if pod is not context.pod))
