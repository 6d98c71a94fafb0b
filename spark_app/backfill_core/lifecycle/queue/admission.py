"""Admission of a job by its queue: the reason to wait, and the end of an attempt whose Workload is evicted."""

from __future__ import annotations

from typing import Final

from backfill_api.status.status import Attempt, AttemptKind
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.dependencies import Wait
from backfill_core.lifecycle.observation import SpecRefused
from backfill_core.lifecycle.queue.workload import INADMISSIBLE, ObservedWorkload, made_of

EVICTED: Final = "EvictedByQueue"
WAITING: Final = "WaitingForQueue"
UNAVAILABLE: Final = "QueueUnavailable"


def queue_of(context: Context) -> str | None:
    """Return the queue of the spec; `None` without one."""
    spec = context.observation.spec
    return None if isinstance(spec, SpecRefused) else spec.queue


def next_kind(context: Context) -> AttemptKind:
    """Return the kind of the attempt that is recorded, or else of the next one."""
    if context.attempt is not None:
        return context.attempt.kind
    return "Plan" if context.plan_first else "Run"


def outdated(context: Context, workload: ObservedWorkload) -> bool:
    """Return whether a Workload of this Backfill cannot admit its next attempt: it has finished, or is of another spec."""
    spec = context.observation.spec
    if isinstance(spec, SpecRefused):
        return False
    return workload.finished or workload.made_of != made_of(spec, next_kind(context))


def admitted_by(context: Context) -> str | None:
    """Return the UID of the Workload that admits an attempt now; `None` without a queue."""
    workload = context.observation.workload
    return None if queue_of(context) is None or workload is None else workload.uid


def evicted(context: Context, attempt: Attempt) -> bool:
    """Return whether the Workload that admitted an attempt holds no quota for it any more.

    Unknown Workloads evict nothing: an API server that does not list them must not end drivers.
    """
    observation = context.observation
    if attempt.workload_uid is None or observation.queue_problem:
        return False
    workload = observation.workload
    return workload is None or workload.uid != attempt.workload_uid or not workload.may_run


def describe_eviction(context: Context) -> str:
    """Describe why the Workload of the attempt holds no quota, for the status."""
    workload, attempt = context.observation.workload, context.attempt
    if workload is None or attempt is None or workload.uid != attempt.workload_uid:
        return "the job's Workload was deleted: the driver stops at a barrier"
    cause = workload.evicted or workload.message or "its quota was withdrawn"
    return f"Workload {workload.name} is evicted: {cause}; the driver stops at a barrier"


def wait_for_queue(context: Context) -> Wait | None:
    """Return the reason why the queue does not admit the next attempt yet; `None` if it does, or if there is no queue."""
    queue, workload = queue_of(context), context.observation.workload
    if queue is None:
        return None
    if context.observation.queue_problem:
        return Wait(UNAVAILABLE, context.observation.queue_problem, needs_a_person=False)
    if workload is None or (workload.ours and (workload.deleted or outdated(context, workload))):
        return Wait(WAITING, f"a Workload for LocalQueue {queue} is being created", needs_a_person=False)
    if not workload.ours:
        message = f"Workload {workload.name} belongs to another owner; delete it, or rename the Backfill"
        return Wait("NameCollision", message, needs_a_person=True)
    if not workload.active:
        message = f"Workload {workload.name} is deactivated; set its spec.active to true, or set spec.suspend"
        return Wait("QueueDeactivated", message, needs_a_person=True)
    if workload.may_run:
        return None
    return _not_admitted(queue, workload)


def _not_admitted(queue: str, workload: ObservedWorkload) -> Wait:
    said = ": ".join(part for part in (workload.reason, workload.message) if part)
    if workload.reason == INADMISSIBLE:
        message = f"{said}; create or start that queue, or name another one in spec.queue"
        return Wait(UNAVAILABLE, message, needs_a_person=False)
    if not said:
        said = "Kueue has not considered it yet; if this lasts, check that its controller runs"
    return Wait(WAITING, f"Workload {workload.name} waits in LocalQueue {queue}: {said}", needs_a_person=False)
