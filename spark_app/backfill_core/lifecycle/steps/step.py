"""Results of steps, and functions that several steps share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Generic, Literal, TypeVar

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.status.conditions import Phase
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.actions import (
    Action,
    AddFinalizer,
    DeleteAttemptObjects,
    DeletePod,
    RefetchPods,
    RemoveFinalizer,
)
from backfill_core.lifecycle.closing import keeps_finalizer
from backfill_core.lifecycle.inputs.all_jobs import ALL_JOBS_PAUSED, describe_pause
from backfill_core.lifecycle.inputs.context import Context, is_restored
from backfill_core.lifecycle.inputs.dependencies import wait_of
from backfill_core.lifecycle.inputs.next_look import next_look_ms
from backfill_core.lifecycle.inputs.procedures import is_switched
from backfill_core.lifecycle.inputs.termination import classify
from backfill_core.lifecycle.observation import DriverPod, SpecRefused
from backfill_core.lifecycle.queue.admission import wait_for_queue
from backfill_core.lifecycle.status import condition_details
from backfill_core.lifecycle.status.conditions import ConditionSet
from backfill_core.protocol.after_end import follows_after_end, refused_refresh

FORCE_AFTER_MS: Final = 60_000
"""A pod that still exists this long after its grace period is removed without its node's consent.

A lost node never confirms. If the driver still runs there, its next commit is refused: the target's fence is the second line of defence.
"""

STOP_GRACE_S: Final = 5
"""Grace of a driver that must end now: it did not stop in time when requested, or no draining is necessary."""

LINGERING_MS: Final = 600_000
"""A retained pod is deleted this long after its driver's end if another container of the pod still runs, because it uses quota."""

RETRY_MS: Final = 5_000
"""Delay until the next decision while a pod ends, or after an error of the API server."""

PERSON_MS: Final = 30_000
"""Delay until the next decision if a user may have fixed something that no watch shows."""

DEPENDENCY_FIRST_MS, DEPENDENCY_LAST_MS = 60_000, 1_800_000
"""A change of a dependency wakes the Backfill; these polls cover a change that was missed."""

PLAN_OUTDATED: Final = "PlanOutdated"
"""Reason of a Backfill whose plan was made for another spec, while the next plan is made."""

Outcome = Literal["DriverToDrain", "Drained", "NotLaunched", "Terminated", "Recorded", "Reopened", "Launchable"]
"""`DriverToDrain`: a deleted object still has a driver. `Drained`: it has none. `NotLaunched`: the attempt is on record and has no pod.
`Terminated`: the attempt is over. `Recorded`: its end is in the status. `Reopened`: a job that was over continues. `Launchable`: a new attempt may start.
"""

OutcomeT_co = TypeVar("OutcomeT_co", bound=Outcome, covariant=True)


@dataclass(frozen=True, slots=True)
class StepResult:
    """Final result of a step: the status, its conditions, and the actions."""

    status: BackfillStatus
    conditions: ConditionSet | None
    """`None` to keep the stored status."""

    actions: tuple[Action, ...] = ()
    requeue_ms: int | None = None

    def then(self, *actions: Action) -> StepResult:
        """Return the result with more actions at the end."""
        return replace(self, actions=(*self.actions, *actions))

    def requeue_within(self, *limits_ms: int | None) -> StepResult:
        """Return the result with the next decision no later than each of these."""
        delays_ms = [ms for ms in (self.requeue_ms, *limits_ms) if ms is not None]
        return replace(self, requeue_ms=max(0, min(delays_ms)) if delays_ms else None)


@dataclass(frozen=True, slots=True)
class Ended(Generic[OutcomeT_co]):
    """Result of a step whose situation is over: `decide` calls the step of the next situation."""

    outcome: OutcomeT_co
    context: Context
    """The input of the next step."""

    actions: tuple[Action, ...] = ()
    """Actions to execute before those of the next step."""


def refetch_pods(context: Context, pod_name: str | None = None, *, executors_of: str = "") -> StepResult:
    """Request the current pods, and the executors of the driver with this UID, before a decision that stale pods would make wrong."""
    return StepResult(context.observation.status, None, (RefetchPods(pod_name or context.pod_name, executors_of),), 0)


def without_driver(context: Context, conditions: ConditionSet) -> ConditionSet:
    """Return the conditions with the details of a Backfill that has no driver."""
    return conditions.with_details(condition_details.without_driver(context.status))


def planning(context: Context, message: str = "") -> ConditionSet:
    """Return the conditions of an attempt that makes a plan: the first one, or a replacement of an outdated one."""
    if context.status.plan is None or context.plan_counts:
        return ConditionSet.reconciling("Pending", "Planning", message)
    outdated = "the spec was changed after it was planned: a new plan is made, which must be approved"
    return ConditionSet.reconciling("Pending", PLAN_OUTDATED, f"{outdated}; {message}" if message else outdated)


def held_launch(context: Context) -> StepResult | None:
    """Return the result while the switch for all jobs holds launches; `None` while it does not."""
    pause = context.desired.all_jobs_pause
    if pause is None:
        return None
    conditions = ConditionSet.waiting("Pending", ALL_JOBS_PAUSED, describe_pause(pause))
    # The deadline is for work, and counts from the launch.
    status = context.status.model_copy(update={"start_time": None})
    # The pod of a recorded attempt may exist already, although it was not seen.
    actions = release(context) if context.attempt is None else ()
    return StepResult(status, without_driver(context, conditions), actions)


def held_by_dependencies(context: Context) -> StepResult | None:
    """Return the result while another Backfill must come first; `None` if none must, or if an attempt was made.

    Only the first attempt waits. A dependency that is run again later does not stop a job that has begun.
    """
    seen = context.observation
    wait = None if context.status.attempts else wait_of(seen.dependencies, seen.dependency_cycle)
    if wait is None:
        return None
    make = ConditionSet.stalled if wait.needs_a_person else ConditionSet.reconciling
    conditions = make("Pending", wait.reason, wait.message)
    before = context.condition("Reconciling") or context.condition("Stalled")
    since = before.last_transition_time if before is not None else None
    look_ms = next_look_ms(context, since, first_ms=DEPENDENCY_FIRST_MS, last_ms=DEPENDENCY_LAST_MS)
    return StepResult(context.status, without_driver(context, conditions)).requeue_within(look_ms)


def held_by_queue(context: Context) -> StepResult | None:
    """Return the result while the job's queue does not admit it; `None` if it does, or without a queue."""
    wait = wait_for_queue(context)
    if wait is None:
        return None
    make = ConditionSet.stalled if wait.needs_a_person else ConditionSet.reconciling
    before = context.condition("Reconciling") or context.condition("Stalled")
    since = before.last_transition_time if before is not None else None
    look_ms = next_look_ms(context, since, first_ms=DEPENDENCY_FIRST_MS, last_ms=DEPENDENCY_LAST_MS)
    # The deadline is for work, and counts from the launch, as for a Job that Kueue suspends.
    status = context.status.model_copy(update={"start_time": None})
    conditions = make("Pending", wait.reason, wait.message)
    # The pod of a recorded attempt may exist already, although it was not seen.
    actions = release(context) if context.attempt is None else ()
    return StepResult(status, without_driver(context, conditions), actions).requeue_within(look_ms)


def continues_after_end(context: Context) -> bool:
    """Return whether the spec of a complete job asks it to continue."""
    spec = context.observation.spec
    return not isinstance(spec, SpecRefused) and follows_after_end(spec) and not is_switched(context.status)


def can_refresh(context: Context) -> bool:
    """Return whether a refresh of a complete job is requested, and its strategy allows it."""
    spec = context.observation.spec
    if not context.refresh_requested or isinstance(spec, SpecRefused) or is_switched(context.status):
        return False
    return not refused_refresh(spec)


def blocked_by(context: Context) -> StepResult | None:
    """Return the result while pods must end before a driver may be created; `None` if there are none."""
    phase: Phase = "Retrying" if context.status.history else "Pending"
    if context.orphan_pods:
        names = ", ".join(pod.name for pod in context.orphan_pods[:3])
        conditions = ConditionSet.reconciling(phase, "DriverStopping", f"{names} must end first")
        actions = delete_pods(context, context.orphan_pods, grace_s=context.policy.drain_s)
        result = StepResult(context.status, without_driver(context, conditions), actions, RETRY_MS)
        return result.requeue_within(stuck_ms(context, context.orphan_pods))
    if not context.foreign_pods:
        return None
    pod = min(context.foreign_pods, key=lambda candidate: (candidate.deletion_ms is not None, candidate.name))
    if pod.deletion_ms is not None or pod.owner_uid == pod.backfill_uid:
        # It is not deleted yet: the garbage collector deletes it some seconds after its Backfill.
        message = f"{pod.name} of an earlier Backfill must end first"
        conditions = ConditionSet.reconciling(phase, "DriverStopping", message)
        return StepResult(context.status, without_driver(context, conditions), (), RETRY_MS)
    message = f"pod {pod.name} belongs to another owner; delete it, or give the Backfill another name"
    conditions = ConditionSet.stalled("Pending", "NameCollision", message)
    return StepResult(context.status, without_driver(context, conditions), (), PERSON_MS)


def delete_pods(context: Context, pods: Iterable[DriverPod], *, grace_s: int) -> tuple[Action, ...]:
    """Delete pods that are not being deleted yet, and those stuck in deletion. For restored pods, delete their attempt's objects too."""
    actions: list[Action] = []
    for pod in pods:
        if (deletion := deletion_of(context, pod, grace_s)) is not None:
            actions.append(deletion)
        if pod.deletion_ms is None and pod.attempt is not None and is_restored(pod, context.observation):
            # Its Backfill no longer exists, so no garbage collector deletes them.
            actions.append(DeleteAttemptObjects(pod.attempt))
    return tuple(actions)


def deletion_of(context: Context, pod: DriverPod, grace_s: int | None) -> DeletePod | None:
    """Return the deletion of a pod that is due now; `None` if none is due.

    Args:
        context: The classified observation.
        pod: The pod.
        grace_s: Its grace period; `None` to delete it only if it is stuck.
    """
    if pod.deletion_ms is not None:
        return DeletePod(pod.name, pod.uid, 0) if context.now_ms - pod.deletion_ms >= FORCE_AFTER_MS else None
    return None if grace_s is None else DeletePod(pod.name, pod.uid, grace_s)


def stuck_ms(context: Context, pods: Iterable[DriverPod]) -> int | None:
    """Return the milliseconds until the first deleted pod counts as stuck; `None` if no pod is being deleted."""
    left = [pod.deletion_ms + FORCE_AFTER_MS - context.now_ms for pod in pods if pod.deletion_ms is not None]
    return max(min(left), 1000) if left else None


def release(context: Context) -> tuple[Action, ...]:
    """Remove the operator's finalizer while there is nothing to drain: the operator may be uninstalled, or lose its permission.

    When a namespace is deleted, its pods end first, and the Role that permits the removal of a finalizer disappears after them. An
    object whose deletion needs another driver keeps the finalizer, or gets it again.
    """
    held = DRAIN_FINALIZER in context.observation.finalizers
    if keeps_finalizer(context):
        return () if held else (AddFinalizer(),)
    return (RemoveFinalizer(),) if held and not context.orphan_pods else ()


def delete_unretained(context: Context) -> tuple[Action, ...]:
    """Delete the pods of attempts whose end is on record, unless the spec retains them."""
    recorded = {past.number for past in context.observation.status.history}
    current = context.status.attempt
    actions = []
    for pod in context.our_pods:
        number = pod.attempt or 0
        if not pod.over or pod.deletion_ms is not None:
            continue
        if current is not None and number == current.number and number not in recorded:
            continue
        if not (retained(context, pod) and number in recorded):
            actions.append(DeletePod(pod.name, pod.uid, 0))
        elif lingers_ms(context, pod) == 0:
            actions.append(DeletePod(pod.name, pod.uid, context.policy.drain_s))
    return tuple(actions)


def orphans(context: Context) -> tuple[Action, ...]:
    """Delete objects that no garbage collector deletes: `--cascade=orphan` removed the owner from pods and objects, or they had none.

    An ended pod stays if the spec retains it. The ConfigMap, the Secret and the Service of its attempt are no longer needed.
    """
    actions: list[Action] = []
    for pod in context.our_pods:
        if pod.owner_uid is None and pod.attempt is not None:
            actions.append(DeleteAttemptObjects(pod.attempt))
            if pod.over and not retained(context, pod):
                actions.append(DeletePod(pod.name, pod.uid, 0))
    return tuple(actions)


def lingers_ms(context: Context, pod: DriverPod) -> int | None:
    """Return the milliseconds that a retained pod may stay after its driver's end while another container runs; `None` if none runs."""
    ends = {past.number: past.end for past in context.observation.status.history}
    if not pod.lingering or not pod.over or pod.deletion_ms is not None or pod.attempt not in ends:
        return None
    return (
        min(max(0, context.left_ms(ends[pod.attempt], LINGERING_MS)), LINGERING_MS) if retained(context, pod) else None
    )


def retained(context: Context, pod: DriverPod) -> bool:
    """Return whether the spec retains this finished pod."""
    failed = classify(pod).outcome in ("Retry", "Final")
    return context.policy.retain == "Always" or (context.policy.retain == "OnFailure" and failed)
