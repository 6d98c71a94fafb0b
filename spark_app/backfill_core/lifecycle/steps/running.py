"""Situation of an attempt in flight: follow its pod, command its driver, stop it, and detect its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.status.conditions import Phase
from backfill_api.status.status import Attempt, Control, StopReason, StopRequest
from backfill_api.timestamps import ms_of
from backfill_core.lifecycle.actions import (
    Action,
    AddFinalizer,
    EnsureObjects,
    LaunchDriver,
    PersistIntent,
    SendCommand,
)
from backfill_core.lifecycle.closing import closing_left_ms, detached, given_up, is_closing, running
from backfill_core.lifecycle.commands import (
    RESEND_S,
    CommandPlan,
    limit_ends_in_ms,
    plan_commands,
    refusals,
    settled,
)
from backfill_core.lifecycle.inputs.all_jobs import ALL_JOBS_PAUSED, describe_pause
from backfill_core.lifecycle.inputs.commits import with_commits
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.launched_of import is_executors_of, is_launched_of
from backfill_core.lifecycle.inputs.procedures import (
    STOPS,
    answered,
    begun_beside_driver,
    copy_back_unwanted,
    stop_asked,
)
from backfill_core.lifecycle.inputs.termination import IMAGE_OR_CONFIG, NOT_STARTED, Termination, classify, may_pass
from backfill_core.lifecycle.observation import DriverPod, SpecRefused
from backfill_core.lifecycle.queue.admission import EVICTED, describe_eviction, evicted
from backfill_core.lifecycle.status import condition_details, losses
from backfill_core.lifecycle.status.condition_details import COMMAND_REFUSED, EXECUTORS_WAITING, STALLED, executors_wait
from backfill_core.lifecycle.status.conditions import ConditionSet
from backfill_core.lifecycle.status.procedure_ends import with_step
from backfill_core.lifecycle.status.reported import reported
from backfill_core.lifecycle.steps.step import (
    STOP_GRACE_S,
    Ended,
    StepResult,
    delete_pods,
    delete_unretained,
    deletion_of,
    planning,
    refetch_pods,
    stuck_ms,
)

MISSING_GRACE_MS: Final = 5_000
"""Time for which an existing pod may be missing from the cache before it is requested from the API server."""

LOST_MS: Final = 600_000
"""A driver that is neither ready nor answers for this long is given up.

On a live node its kubelet would have ended it after one minute, so the node is lost. If a pod tolerates lost nodes indefinitely, the
cluster never removes it. If the driver still runs there, its next commit is refused: the target's fence is the second line of defence.
"""

STALLED_MS: Final = 90_000
"""A driver that answers and reports for this long that its Java or a commit hangs is replaced: it should have ended by itself.

It reports this after less than a minute, and the whole must take no more than three minutes.
"""

STOPPING_PHASE: Final[dict[str, Phase]] = {
    "Suspended": "Suspending", "Paused": "Pausing", "Deleted": "Terminating", "Restarted": "Launching", "DeadlineExceeded": "Running",
    "Switching": "Launching", "Repairing": "Launching", "SpecChanged": "Launching", "EvictedByQueue": "Launching",
    "StartupTimeout": "Retrying", "SubmissionFailed": "Retrying", "ImageUnavailable": "Retrying",
}  # fmt: skip


def reconcile_running(context: Context) -> StepResult | Ended[Literal["NotLaunched", "Terminated"]]:
    """Decide about an attempt in flight from the state of its pod."""
    attempt, pod = context.attempt, context.pod
    assert attempt is not None
    if pod is None:
        return _on_missing(context, attempt)
    if pod.over:
        return Ended("Terminated", replace(context, termination=classify(pod)))
    return _on_active(context, attempt, pod)


# ------------------------------------------------------------------ no pod
def _on_missing(context: Context, attempt: Attempt) -> StepResult | Ended[Literal["NotLaunched", "Terminated"]]:
    """Launch an attempt whose pod was never seen. Search a pod that was seen, and give it up only if the API server has none."""
    withdrawn = _withdrawn(context, attempt)
    if attempt.stop is None and withdrawn is None:
        if attempt.state == "Planned":
            return Ended("NotLaunched", context)
        driver_ready = context.condition("DriverReady")
        missing = driver_ready is not None and driver_ready.reason == "DriverMissing"
        since = driver_ready.last_transition_time if driver_ready is not None and missing else None
        left_ms = min(context.left_ms(since, MISSING_GRACE_MS), MISSING_GRACE_MS)
        if left_ms > 0:
            fact = condition_details.missing(context)
            details = condition_details.with_driver(context, context.status.control or Control())
            conditions = ConditionSet.reconciling(context.status.phase or "Launching", fact.reason, fact.message)
            conditions = conditions.with_details(details | {"DriverReady": fact})
            return StepResult(context.status, conditions, (), left_ms)
    if not context.observation.live:
        return refetch_pods(context)
    if withdrawn is not None:
        attempt = attempt.model_copy(update={"stop": StopRequest(reason=withdrawn, time=context.timestamp)})
    gone = Termination(
        "Retry",
        "Infrastructure",
        f"pod {context.pod_name} is gone: it was deleted, or its node was lost",
        counts=False,
    )
    status = context.status.model_copy(update={"attempt": attempt})
    return Ended("Terminated", replace(context, status=status, termination=gone))


def _withdrawn(context: Context, attempt: Attempt) -> StopReason | None:
    """Return the reason why an attempt without a pod must not get one any more; `None` if it may."""
    if attempt.stop is not None or is_closing(context):
        return None
    if evicted(context, attempt):
        return EVICTED
    asked = stop_asked(context, attempt)
    if context.policy.refused or asked is not None:
        return asked
    # It was recorded for an approved spec, but its pod would now be created from the current spec.
    outdated = attempt.state == "Planned" and attempt.kind == "Run" and context.plan_first
    return "SpecChanged" if outdated else None


# ------------------------------------------------------------------ a pod
def _on_active(context: Context, attempt: Attempt, pod: DriverPod) -> StepResult:
    """Command the driver or stop it, and record its observed state."""
    context, begins = begun_beside_driver(context, attempt)
    stop = _stop_reason(context, attempt, pod) or (None if begins is None else STOPS[begins.kind])
    if begins is not None and stop == STOPS[begins.kind]:
        context = replace(context, status=answered(context, begins))
    new_stop = attempt.stop is None and stop is not None
    if new_stop and stop == "SpecChanged" and not context.observation.live:
        # The cache may not show yet that the driver or an executor runs.
        return refetch_pods(context, executors_of=pod.uid if pod.executors is not None else "")
    ready_time = attempt.ready_time or (context.timestamp if _up(context, attempt, pod) else None)
    listens = context.reachable and context.progress is not None and attempt.kind == "Run"
    steer = attempt.stop is None and stop is None and attempt.kind == "Run" and attempt.procedure is None
    steer = steer and (not context.policy.refused or context.desired.all_jobs_pause is not None)
    commands = plan_commands(context, attempt.number, stop=new_stop and listens, steer=steer)
    control = commands.control
    if new_stop and stop is not None:
        control = control.model_copy(update={"restart_token": context.restart_token or control.restart_token})
        request = StopRequest(reason=stop, time=context.timestamp, revision=commands.revision_of("Stop"))
        attempt = attempt.model_copy(update={"stop": request})
    attempt, lost_executors = losses.with_executors(context.status, attempt, context.progress)
    attempt = with_commits(attempt, context.progress).model_copy(
        update={
            "state": "Created", "pod_name": pod.name[:253], "pod_uid": pod.uid[:64], "ready_time": ready_time,
            "start_time": attempt.start_time or context.timestamp,
        }
    )  # fmt: skip
    start_time = context.status.start_time or context.timestamp
    update = {
        "attempt": attempt, "control": control, "start_time": start_time, "lost_executors": lost_executors,
        **reported(context, control),
    }  # fmt: skip
    context = replace(context, status=with_step(context.status.model_copy(update=update), attempt, context.step))
    actions = _actions(context, attempt, pod, commands)
    if new_stop or commands.decided:
        actions = (PersistIntent(), *actions)
    result = StepResult(context.status, _conditions(context, attempt, pod, control), actions)
    return result.requeue_within(*_limits(context, attempt, pod, commands))


def _stop_reason(context: Context, attempt: Attempt, pod: DriverPod) -> StopReason | None:
    """Return the reason why the attempt must end; `None` if it may continue."""
    policy = context.policy
    if context.observation.deletion_ms is not None:
        goes_on = is_closing(context) and given_up(context) is None
        return _start_failed(context, attempt, pod) if goes_on else "Deleted"
    if evicted(context, attempt):
        return EVICTED
    asked = stop_asked(context, attempt)
    if policy.refused or asked is not None:
        return asked
    if context.restart_requested:
        return "Restarted"
    if policy.deadline_s is not None and context.left_ms(context.status.start_time, policy.deadline_s * 1000) <= 0:
        return "DeadlineExceeded"
    if _outdated(context, attempt, pod) or _executors_outdated(context, attempt, pod):
        return "SpecChanged"
    return _start_failed(context, attempt, pod)


def _start_failed(context: Context, attempt: Attempt, pod: DriverPod) -> StopReason | None:
    """Return the reason why a driver that did not start in time must end; `None` if it started, or may still."""
    left_ms = None if attempt.ready_time or _up(context, attempt, pod) else _startup_left_ms(context, attempt, pod)
    if left_ms is None or left_ms > 0:
        return None
    if may_pass(pod):
        return "ImageUnavailable"
    return "SubmissionFailed" if pod.waiting in IMAGE_OR_CONFIG else "StartupTimeout"


def _outdated(context: Context, attempt: Attempt, pod: DriverPod) -> bool:
    """Return whether the spec was edited after a pod was created whose driver never ran. No work is lost, and the pod may wait forever.

    A command could change the width of that driver; but if a person approves plans, an edited width needs another plan.
    """
    spec = context.observation.spec
    if pod.phase != "Pending" or pod.started or attempt.ready_time is not None or isinstance(spec, SpecRefused):
        return False
    return not is_launched_of(pod.launched_of, spec, attempt.kind) or (attempt.kind == "Run" and context.plan_first)


def _executors_outdated(context: Context, attempt: Attempt, pod: DriverPod) -> bool:
    """Return whether the spec of executors was edited after the driver was created, while its executors wait.

    A missing image or Secret does not appear by waiting. All executors of the driver are created alike, so running ones are not
    replaced once they are lost. For a node, executors wait while the load requests more than there is room for: as long as one executor
    runs, the edit takes effect with the next attempt. The driver commits its finished work, and stops at a barrier.
    """
    spec, executors = context.observation.spec, pod.executors
    if executors is None or attempt.kind != "Run" or pod.deletion_ms is not None or isinstance(spec, SpecRefused):
        return False
    if is_executors_of(pod.executors_of, spec):
        return False
    if context.observation.live and executors.running is None:
        return False  # they were not counted, and the list of waiting ones is some seconds old
    return executors.waiting in IMAGE_OR_CONFIG or not executors.running


def _actions(context: Context, attempt: Attempt, pod: DriverPod, commands: CommandPlan) -> tuple[Action, ...]:
    policy, desired, observation = context.policy, context.desired, context.observation
    grace_s = _pod_grace_s(context, attempt)
    if grace_s is None and _lost_in_ms(context, attempt, pod) == 0:
        # A stalled driver reaches no barrier, so it gets no time for one.
        grace_s = policy.drain_s if condition_details.stalled(context) is None else STOP_GRACE_S
    actions: list[Action] = []
    if pod.deletion_ms is None and grace_s is None:
        actions += [SendCommand(request) for request in commands.requests]
    deletion = deletion_of(context, pod, grace_s)
    if deletion is not None:
        actions.append(deletion)
    actions += delete_pods(context, context.orphan_pods, grace_s=policy.drain_s)
    actions += delete_unretained(context)
    if attempt.stop is None and pod.deletion_ms is None and not policy.refused and (pod.scheduled or pod.ready):
        # No process reads them before the pod has a node, so ten thousand waiting pods cost nothing.
        launch = LaunchDriver(attempt.number, attempt.kind, **desired.launch, detached=detached(context))
        actions.append(EnsureObjects(launch))
    drains = policy.drains and not policy.refused
    if observation.deletion_ms is None and drains and DRAIN_FINALIZER not in observation.finalizers:
        actions.append(AddFinalizer())
    return tuple(actions)


def _pod_grace_s(context: Context, attempt: Attempt) -> int | None:
    """Return the grace period for the deletion of a stopping attempt's pod; `None` if it is not deleted, or not yet."""
    stop = attempt.stop
    if stop is None:
        return None
    if stop.revision is None:
        return context.policy.drain_s
    return STOP_GRACE_S if context.left_ms(stop.time, context.policy.drain_s * 1000) <= 0 else None


def _limits(context: Context, attempt: Attempt, pod: DriverPod, commands: CommandPlan) -> tuple[int | None, ...]:
    """Return the delays in milliseconds after which an action is due even if nothing changes."""
    policy, stop = context.policy, attempt.stop
    closing = running(context.status)
    deadline_s = policy.deadline_s if stop is None and not policy.refused and closing is None else None
    return (
        round(RESEND_S * 1000) if commands.requests else None,
        None if stop is None else max(context.left_ms(stop.time, policy.drain_s * 1000), 1000),
        None if deadline_s is None else context.left_ms(context.status.start_time, deadline_s * 1000),
        _startup_left_ms(context, attempt, pod) if attempt.ready_time is None and stop is None else None,
        stuck_ms(context, (pod, *context.orphan_pods)),
        context.unreachable_in_ms,
        limit_ends_in_ms(context),
        _lost_in_ms(context, attempt, pod),
        None if closing is None or stop is not None else closing_left_ms(context, closing),
    )


def _lost_in_ms(context: Context, attempt: Attempt, pod: DriverPod) -> int | None:
    """Return the milliseconds until a silent or stalled driver is given up; `None` if it is neither, or ends for another reason."""
    driver_ready = context.condition("DriverReady")
    if attempt.ready_time is None or attempt.stop is not None or pod.deletion_ms is not None:
        return None
    stalls = (
        condition_details.stalled(context) is not None and driver_ready is not None and driver_ready.reason in STALLED
    )
    if ((pod.ready or context.reachable) and not stalls) or driver_ready is None or driver_ready.status == "True":
        return None
    limit_ms = STALLED_MS if stalls else LOST_MS
    return max(0, min(context.left_ms(driver_ready.last_transition_time, limit_ms), limit_ms))


def _startup_left_ms(context: Context, attempt: Attempt, pod: DriverPod) -> int | None:
    """Return the time left for the driver's start; `None` while its pod waits for a node or a sidecar, as for a Job."""
    if not (pod.scheduled or pod.started or pod.ready or pod.waiting):
        return None
    if pod.held and pod.waiting not in IMAGE_OR_CONFIG:
        return None
    since_ms = pod.scheduled_ms or pod.created_ms or ms_of(attempt.start_time) or context.now_ms
    limit_ms = context.policy.startup_s * 1000
    return min(since_ms + limit_ms - context.now_ms, limit_ms)


def _up(context: Context, attempt: Attempt, pod: DriverPod) -> bool:
    """Return whether the driver started. A planning pod has no server, so it counts as started when it runs."""
    return pod.ready or context.answers or (attempt.kind == "Plan" and (pod.started or pod.phase == "Running"))


# ------------------------------------------------------------------ the status
def _conditions(context: Context, attempt: Attempt, pod: DriverPod, control: Control) -> ConditionSet:
    if attempt.stop is not None:
        conditions = _stopping(context, pod, attempt.stop)
    elif attempt.procedure == "Close":
        conditions = ConditionSet.reconciling("Terminating", "Closing", _why_waiting(pod) or context.step)
    elif attempt.kind == "Plan":
        conditions = planning(context, condition_details.with_scratch(context, _why_waiting(pod)))
    elif attempt.ready_time is None:
        message = _why_waiting(pod) or executors_wait(pod) or _unscheduled_for_long(context, attempt, pod)
        conditions = ConditionSet.reconciling(
            "Launching", "Launching", condition_details.with_scratch(context, message)
        )
    else:
        conditions = _started(context, pod, control)
    if context.policy.refused:
        conditions = ConditionSet.stalled(conditions.phase, "SpecRefused", context.policy.refused)
    return conditions.with_details(condition_details.with_driver(context, control))


def _stopping(context: Context, pod: DriverPod, stop: StopRequest) -> ConditionSet:
    reason = "Draining" if stop.reason == "Deleted" else stop.reason
    message = _why_waiting(pod) if reason in NOT_STARTED else "the driver stops at a barrier"
    if reason == "SpecChanged" and not copy_back_unwanted(context):
        message = condition_details.describe_replacement(pod)
    if reason == EVICTED:
        message = describe_eviction(context)
    before = context.condition("Reconciling")
    if not message and before is not None and before.reason in (reason, "Launching"):
        message = before.message  # a pod that is being deleted no longer has the reason why it did not start
    if not message and reason == "StartupTimeout":
        message = _where_to_look(pod)
    return ConditionSet.reconciling(STOPPING_PHASE[stop.reason], reason, message)


def _started(context: Context, pod: DriverPod, control: Control) -> ConditionSet:
    desired, in_force = context.desired, settled(context, control)
    paused = desired.paused is not None and in_force
    phase: Phase = "Paused" if paused else "Pausing" if desired.paused is not None else "Running"
    if pod.deletion_ms is not None:
        return ConditionSet.reconciling(phase, "DriverStopping", "the driver's pod is being deleted")
    if context.unreachable or not (pod.ready or context.reachable):
        return ConditionSet.reconciling(phase, "DriverUnreachable", condition_details.silent(context))
    if (stalls := condition_details.stalled(context)) is not None:
        return ConditionSet.reconciling(phase, stalls.reason, stalls.message)
    if context.attempt is not None and context.attempt.procedure is not None:
        return condition_details.performing(context, context.attempt.procedure)
    if rejected := refusals(context, control):
        return ConditionSet.reconciling(phase, COMMAND_REFUSED, f"the driver rejects {rejected}")
    if not in_force:
        message = f"waiting for revision {control.desired_revision}"
        return ConditionSet.reconciling(phase, "AcknowledgementPending", message)
    if paused and desired.all_jobs_pause is not None:
        return ConditionSet.ready(phase, ALL_JOBS_PAUSED, describe_pause(desired.all_jobs_pause))
    if paused:
        return ConditionSet.ready(phase, "Override" if desired.pause_overridden else "AsRequested")
    if pod.executors is not None and pod.executors.waiting:
        # Executors without a node do not count: if their number follows the load, some of them often have none.
        return ConditionSet.reconciling(phase, EXECUTORS_WAITING, executors_wait(pod))
    return ConditionSet.ready(phase, "Running")


def _unscheduled_for_long(context: Context, attempt: Attempt, pod: DriverPod) -> str:
    """Return a hint if no scheduler handled a pod within the time that a driver may take to start."""
    since_ms = pod.created_ms or ms_of(attempt.start_time) or context.now_ms
    late = context.now_ms - since_ms >= context.policy.startup_s * 1000
    return _where_to_look(pod) if late and not (pod.scheduled or pod.started) else ""


def _why_waiting(pod: DriverPod) -> str:
    return pod.held or ": ".join(part for part in (pod.waiting, pod.waiting_message, pod.unscheduled) if part)


def _where_to_look(pod: DriverPod) -> str:
    """Return the place of the cause if the pod itself does not report it."""
    if pod.phase == "Running":
        return f"the driver runs and is not ready; find the cause with kubectl logs {pod.name} -c driver"
    if not pod.scheduled:
        return "no scheduler has looked at the pod"
    missing = "a volume, Secret or ConfigMap of its template may be missing"
    return f"the node cannot start its containers: {missing}; find it in the events of kubectl describe pod {pod.name}"
