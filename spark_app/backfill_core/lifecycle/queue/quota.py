"""The quota of a job: which Workload must exist after a decision, and the actions that bring it about.

| job | Workload |
|---|---|
| waits for its queue, backs off, waits for a slot, has an attempt | exists, made of the current spec |
| is suspended, waits for an approval, a dependency or a user, has no queue | does not exist: its quota is for others |
| has ended | `Finished` |
"""

from __future__ import annotations

from typing import Final

from backfill_api.status.status import Attempt, BackfillStatus
from backfill_core.lifecycle.actions import (
    Action,
    CreateWorkload,
    DeleteWorkload,
    FinishWorkload,
    PersistIntent,
    ReportPodsReady,
    RequeueWorkload,
)
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.naming import base_name
from backfill_core.lifecycle.queue.admission import UNAVAILABLE, WAITING, next_kind, outdated, queue_of
from backfill_core.lifecycle.queue.workload import ObservedWorkload
from backfill_core.lifecycle.status.conditions import ConditionSet

RELEASING: Final = frozenset({"WaitingForDependency", "DependencyMissing"})
"""Reasons of a job that works towards its state, and needs no pods before another job has worked."""


def workload_actions(context: Context, status: BackfillStatus, conditions: ConditionSet) -> tuple[Action, ...]:
    """Return the actions for the job's Workload.

    Args:
        context: The observation.
        status: The status of the decision.
        conditions: Its conditions.
    """
    seen, attempt = context.observation, status.attempt
    workload = seen.workload
    if seen.deletion_ms is not None or (workload is not None and not workload.ours):
        return ()  # the garbage collector deletes the Workload with its Backfill
    if conditions.finished:
        return _finish(context, attempt, conditions)
    if seen.queue_problem:
        return ()
    unused = queue_of(context) is None and (attempt is None or attempt.workload_uid is None)
    if unused and workload is not None and not workload.deleted:
        return (DeleteWorkload(workload.name, workload.uid),)
    if attempt is not None and attempt.state != "Ended":
        up = attempt.ready_time is not None and attempt.stop is None
        if up and workload is not None and workload.uid == attempt.workload_uid and _unreported(workload):
            return (ReportPodsReady(workload.name, workload.uid),)
        if attempt.state != "Planned" or conditions.reason != WAITING or _any_alive(context):
            return ()
    if workload is None:
        return (CreateWorkload(next_kind(context)),) if conditions.reason == WAITING else ()
    return _without_driver(context, workload, conditions)


def _unreported(workload: ObservedWorkload) -> bool:
    return workload.may_run and not workload.pods_ready


def with_fence(actions: tuple[Action, ...], quota: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return all actions. Before quota is returned, the status is written: a stale observation must not take a driver's quota."""
    returns = any(isinstance(action, DeleteWorkload | RequeueWorkload | FinishWorkload) for action in quota)
    fence = (PersistIntent(),) if returns and PersistIntent() not in actions else ()
    return (*fence, *actions, *quota)


def _finish(context: Context, attempt: Attempt | None, conditions: ConditionSet) -> tuple[Action, ...]:
    """Finish the Workload, also one that is not known now: a job that has ended is seldom looked at again."""
    seen = context.observation
    workload, uid = seen.workload, None if attempt is None else attempt.workload_uid
    if workload is not None:
        uid = None if workload.finished or workload.deleted else workload.uid
    elif not seen.queue_problem:
        uid = None
    if uid is None:
        return ()
    message = conditions.message or conditions.reason
    return (FinishWorkload(base_name(seen.name), uid, conditions.state == "Complete", message),)


def _without_driver(context: Context, workload: ObservedWorkload, conditions: ConditionSet) -> tuple[Action, ...]:
    """Return the actions for the Workload of a job without a driver; a deletion waits until no pod of it runs."""
    if workload.deleted or _any_alive(context):
        return ()
    if queue_of(context) is None or _releases(conditions) or outdated(context, workload):
        return (DeleteWorkload(workload.name, workload.uid),)
    evicted = bool(workload.evicted) or not workload.active
    return (RequeueWorkload(workload.name, workload.uid),) if evicted and workload.reserved else ()


def _any_alive(context: Context) -> bool:
    """Return whether a driver of this Backfill may still run."""
    return any(not pod.over for pod in (*context.our_pods, *context.orphan_pods))


def _releases(conditions: ConditionSet) -> bool:
    """Return whether the job needs no pods before a user or another job acts."""
    if conditions.reason in (UNAVAILABLE, "QueueDeactivated"):
        return False
    return conditions.state in ("Ready", "Waiting", "Stalled") or conditions.reason in RELEASING
