"""An attempt in flight: follow its pod, steer its driver, tell it to stop, and see it land."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from backfill_api.names import DRAIN_FINALIZER, RESTART_ANNOTATION
from backfill_api.status.conditions import Phase
from backfill_api.status.progress import Progress, ProgressSummary
from backfill_api.status.status import Attempt, Control, StopReason, StopRequest
from backfill_core.lifecycle.actions import (
    Action,
    AddFinalizer,
    DeleteAttemptObjects,
    EnsureObjects,
    LaunchDriver,
    PersistIntent,
    SendCommand,
)
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.termination import IMAGE_OR_CONFIG, Termination, classify
from backfill_core.lifecycle.inputs.timestamps import ms_of
from backfill_core.lifecycle.observation import DriverPod
from backfill_core.lifecycle.status import condition_details
from backfill_core.lifecycle.status.conditions import ConditionSet
from backfill_core.lifecycle.steps.commands import RESEND_S, TOKEN_CHARACTERS_MAX, Exchange, exchange, settled
from backfill_core.lifecycle.steps.idle import finish, give_up, reconcile_idle
from backfill_core.lifecycle.steps.launching import launch
from backfill_core.lifecycle.steps.step import (
    StepResult,
    clear_away,
    close,
    not_retained,
    refetch_pods,
    removal,
    stuck_ms,
)

MISSING_GRACE_MS = 5_000
"""So long a pod that was there may be unseen before it is asked for live."""

LOST_MS = 600_000
"""So long a driver may be neither ready nor heard of. On a live node its kubelet had ended it after one minute of it, so that
its node is lost; and a pod that tolerates that for ever is never taken away by the cluster. Should the driver still run
there, its next seal is refused: the target's fence is the second wall.
"""

LAST_GRACE_S = 5
"""For a driver that was told to stop and did not within its time."""

STOPPING_FACE: dict[str, Phase] = {
    "Suspended": "Suspending", "Deleted": "Terminating", "Restarted": "Launching", "DeadlineExceeded": "Running",
    "StartupTimeout": "Retrying", "SubmissionFailed": "Retrying",
}  # fmt: skip


NOT_STARTED = frozenset({"StartupTimeout", "SubmissionFailed"})


def reconcile_running(context: Context, attempt: Attempt, *, stop: StopReason | None = None) -> StepResult:
    """Decide about an attempt in flight.

    Args:
        context: The classified observation.
        attempt: It.
        stop: Why it must end, as its caller knows; other reasons are found here.
    """
    pod = context.pod
    if pod is None:
        return _on_missing(context, attempt, stop)
    if pod.over:
        return _on_terminated(context, attempt, _vouched(attempt, pod, classify(pod)))
    return _on_active(context, attempt, pod, stop or _why_stop(context, attempt, pod))


# ------------------------------------------------------------------ no pod
def _on_missing(context: Context, attempt: Attempt, stop: StopReason | None) -> StepResult:
    if attempt.stop is not None:
        stop = attempt.stop.reason
    elif stop is None and context.desired.suspend and not context.policy.refused:
        stop = "Suspended"
    if stop is None:
        if attempt.state == "Planned":
            return launch(context, attempt)
        known = context.condition("DriverReady")
        since = known.last_transition_time if known is not None and known.reason == "DriverMissing" else None
        left_ms = min(context.left_ms(since, MISSING_GRACE_MS), MISSING_GRACE_MS)
        if left_ms > 0:
            phase: Phase = context.status.phase or "Launching"  # it may be there all the same
            fact = condition_details.missing(context)
            facts = condition_details.with_driver(context, context.status.control or Control()) | {"DriverReady": fact}
            return StepResult(
                context.status,
                ConditionSet.reconciling(phase, fact.reason, fact.message).with_details(facts),
                (),
                left_ms,
            )
    if not context.observation.live:
        return refetch_pods(context)
    gone = Termination("Retry", "Infrastructure", f"pod {context.pod_name} is gone: deleted, or its node is")
    return _on_terminated(context, attempt.model_copy(update={"stop": attempt.stop or _request(context, stop)}), gone)


def _request(context: Context, stop: StopReason | None) -> StopRequest | None:
    return None if stop is None else StopRequest(reason=stop, time=context.timestamp)


# ------------------------------------------------------------------ the end
def _on_terminated(context: Context, attempt: Attempt, termination: Termination) -> StepResult:
    """Put the end on record; the attempt's objects go first, so that none is forgotten."""
    termination = _as_asked(context, attempt, termination)
    status = close(replace(context, status=context.status.model_copy(update={"attempt": attempt})), termination)
    after = replace(context, status=status, pod=None, look=None)
    if termination.outcome == "Complete":
        result = finish(after)
    elif termination.outcome == "Final":
        result = give_up(after, termination.reason, termination.message)
    else:
        result = reconcile_idle(after, just_ended=termination)
    return replace(result, actions=(DeleteAttemptObjects(attempt.number), *result.actions))


def _vouched(attempt: Attempt, pod: DriverPod, termination: Termination) -> Termination:
    """Believe that a job is complete only to the pod that is on record, or to a driver's last words."""
    if termination.outcome != "Complete" or pod.ending is not None or pod.uid == attempt.pod_uid:
        return termination
    words = f"pod {pod.name} ended well before anybody saw it run, and left no last words"
    return Termination("Retry", "Unexpected", words, termination.exit_code)


def _as_asked(context: Context, attempt: Attempt, termination: Termination) -> Termination:
    """An attempt that was asked to end did not fail by ending, unless it says that no other one will do better."""
    if attempt.stop is None or termination.outcome in ("Complete", "Planned", "Final"):
        return termination
    reason = attempt.stop.reason
    if reason not in NOT_STARTED:
        return Termination("Stopped", reason, "", termination.exit_code)
    words = context.condition("Reconciling")
    message = words.message if words is not None and words.reason in (reason, "Launching") else ""
    outcome: Literal["Retry", "Final"] = "Final" if reason == "SubmissionFailed" else "Retry"
    return Termination(outcome, reason, message or "the driver did not start in time", termination.exit_code)


# ------------------------------------------------------------------ a pod
def _why_stop(context: Context, attempt: Attempt, pod: DriverPod) -> StopReason | None:
    policy, annotations = context.policy, context.observation.annotations
    token = annotations.get(RESTART_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]
    if policy.refused:
        return None
    if context.desired.suspend:
        return "Suspended"
    if token and token != (context.status.control or Control()).restart_token:
        return "Restarted"
    if policy.deadline_s is not None and context.left_ms(context.status.start_time, policy.deadline_s * 1000) <= 0:
        return "DeadlineExceeded"
    if attempt.ready_time is None and not _up(attempt, pod) and _startup_left_ms(context, attempt, pod) <= 0:
        return "SubmissionFailed" if pod.waiting in IMAGE_OR_CONFIG else "StartupTimeout"
    return None


def _on_active(context: Context, attempt: Attempt, pod: DriverPod, stop: StopReason | None) -> StepResult:
    fresh = attempt.stop is None and stop is not None
    ready_time = attempt.ready_time or (context.timestamp if _up(attempt, pod) else None)
    tellable = pod.ready and context.reachable and context.progress is not None and attempt.kind == "Run"
    steer = attempt.stop is None and stop is None and not context.policy.refused and attempt.kind == "Run"
    talk = exchange(context, attempt.number, stop=fresh and tellable, steer=steer)
    control = talk.control
    if fresh and stop is not None:
        token = context.observation.annotations.get(RESTART_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]
        control = control.model_copy(update={"restart_token": token or control.restart_token})
        request = StopRequest(reason=stop, time=context.timestamp, revision=talk.revision_of("Stop"))
        attempt = attempt.model_copy(update={"stop": request})
    attempt = attempt.model_copy(
        update={
            "state": "Created", "pod_name": pod.name[:253], "pod_uid": pod.uid[:64], "ready_time": ready_time,
            "start_time": attempt.start_time or context.timestamp,
        }
    )  # fmt: skip
    status = context.status.model_copy(
        update={
            "attempt": attempt,
            "control": control,
            "start_time": context.status.start_time or context.timestamp,
            **_reported(context),
        }
    )
    context = replace(context, status=status)
    actions = _actions(context, attempt, pod, talk, first=fresh or talk.decided)
    result = StepResult(status, _conditions(context, attempt, pod, control), actions)
    return result.requeue_within(*_limits(context, attempt, pod, talk))


def _actions(context: Context, attempt: Attempt, pod: DriverPod, talk: Exchange, *, first: bool) -> tuple[Action, ...]:
    made: list[Action] = [PersistIntent()] if first else []
    grace_s = _pod_grace_s(context, attempt)
    if grace_s is None and _lost_in_ms(context, attempt, pod) == 0:
        grace_s = context.policy.drain_s
    made += [SendCommand(request) for request in talk.requests if pod.deletion_ms is None and grace_s is None]
    gone = removal(context, pod, grace_s)
    if gone is not None:
        made.append(gone)
    made += clear_away(context, context.orphan_pods, grace_s=context.policy.drain_s)
    made += not_retained(context)
    if attempt.stop is None and pod.deletion_ms is None and not context.policy.refused:
        desired = context.desired
        made.append(EnsureObjects(LaunchDriver(attempt.number, attempt.kind, desired.paused, desired.rows_per_second)))
    drains = context.policy.drains and not context.policy.refused
    if context.observation.deletion_ms is None and drains and DRAIN_FINALIZER not in context.observation.finalizers:
        made.append(AddFinalizer())
    return tuple(made)


def _pod_grace_s(context: Context, attempt: Attempt) -> int | None:
    """Return the grace with which the pod of a stopping attempt is to be deleted; None: not, or not yet."""
    stop = attempt.stop
    if stop is None:
        return None
    if stop.revision is None:
        return context.policy.drain_s
    return LAST_GRACE_S if context.left_ms(stop.time, context.policy.drain_s * 1000) <= 0 else None


def _limits(context: Context, attempt: Attempt, pod: DriverPod, talk: Exchange) -> tuple[int | None, ...]:
    """Return when something would be due although nothing changes."""
    policy, stop = context.policy, attempt.stop
    deadline_s = policy.deadline_s if stop is None and not policy.refused else None
    return (
        round(RESEND_S * 1000) if talk.requests else None,
        None if stop is None else max(context.left_ms(stop.time, policy.drain_s * 1000), 1000),
        None if deadline_s is None else context.left_ms(context.status.start_time, deadline_s * 1000),
        _startup_left_ms(context, attempt, pod) if attempt.ready_time is None and stop is None else None,
        stuck_ms(context, (pod, *context.orphan_pods)),
        context.patience_left_ms,
        _lost_in_ms(context, attempt, pod),
    )


def _lost_in_ms(context: Context, attempt: Attempt, pod: DriverPod) -> int | None:
    """Return when a silent driver will be given up, 0: now; None: it is not silent, or goes for another reason."""
    known = context.condition("DriverReady")
    if attempt.ready_time is None or attempt.stop is not None or pod.deletion_ms is not None:
        return None
    if pod.ready or context.reachable or known is None or known.status == "True":
        return None
    return max(0, min(context.left_ms(known.last_transition_time, LOST_MS), LOST_MS))


def _startup_left_ms(context: Context, attempt: Attempt, pod: DriverPod) -> int:
    since_ms = pod.created_ms or ms_of(attempt.start_time) or context.now_ms
    limit_ms = context.policy.startup_s * 1000
    return min(since_ms + limit_ms - context.now_ms, limit_ms)


def _up(attempt: Attempt, pod: DriverPod) -> bool:
    """Did the driver start? A plan serves nothing, so it is up when it runs."""
    return pod.ready or (attempt.kind == "Plan" and pod.phase == "Running")


# ------------------------------------------------------------------ how it looks
def _reported(context: Context) -> dict[str, object]:
    """Return the fields of the status that the driver's words fill."""
    heard: dict[str, object] = {}
    progress = context.progress
    # Before its fence is sealed a driver says what it read, not what it stands by.
    if progress is not None and progress.table_version is not None:
        heard["progress"] = summary(progress)
    if context.look is not None and context.look.receipt is not None:
        heard["receipt"] = context.look.receipt
    return heard


def summary(progress: Progress) -> ProgressSummary:
    """Return the part of a progress that a status keeps."""
    return ProgressSummary.model_construct(**{name: getattr(progress, name) for name in ProgressSummary.model_fields})


def _conditions(context: Context, attempt: Attempt, pod: DriverPod, control: Control) -> ConditionSet:
    conditions = _pod_conditions(context, attempt, pod, control)
    if context.policy.refused:
        conditions = ConditionSet.stalled(conditions.phase, "SpecRefused", context.policy.refused)
    return conditions.with_details(condition_details.with_driver(context, control))


def _pod_conditions(context: Context, attempt: Attempt, pod: DriverPod, control: Control) -> ConditionSet:
    desired = context.desired
    if attempt.stop is not None:
        reason = "Draining" if attempt.stop.reason == "Deleted" else attempt.stop.reason
        words = _waiting_words(pod) if reason in NOT_STARTED else "the driver stops at a barrier"
        before = context.condition("Reconciling")
        if not words and before is not None and before.reason in (reason, "Launching"):
            words = before.message  # why it did not start is seen no more, once its pod is going
        if not words and reason == "StartupTimeout":
            words = _late_words(pod)
        return ConditionSet.reconciling(STOPPING_FACE[attempt.stop.reason], reason, words)
    if attempt.kind == "Plan":
        return ConditionSet.reconciling("Pending", "Planning", _waiting_words(pod))
    if attempt.ready_time is None:
        return ConditionSet.reconciling("Launching", "Launching", _waiting_words(pod))
    at_rest = desired.paused is not None and settled(context, control)
    phase: Phase = "Paused" if at_rest else "Pausing" if desired.paused is not None else "Running"
    if pod.deletion_ms is not None:
        return ConditionSet.reconciling(phase, "DriverStopping", "the driver's pod is being deleted")
    if context.unreachable or not (pod.ready or context.reachable):
        return ConditionSet.reconciling(phase, "DriverUnreachable", "its control server does not answer")
    if not settled(context, control):
        return ConditionSet.reconciling(
            phase, "AcknowledgementPending", f"waiting for revision {control.desired_revision}"
        )
    if at_rest:
        return ConditionSet.ready(phase, "Override" if desired.pause_overridden else "AsRequested")
    return ConditionSet.ready(phase, "Running")


def _waiting_words(pod: DriverPod) -> str:
    return ": ".join(word for word in (pod.waiting, pod.waiting_message, pod.unscheduled) if word)


def _late_words(pod: DriverPod) -> str:
    """Say where to look when the pod itself does not say what it waits for."""
    if pod.phase == "Running":
        return f"it runs and is not ready: kubectl logs {pod.name} says why"
    if not pod.scheduled:
        return "no scheduler has looked at it"
    missing = "a volume, Secret or ConfigMap of its template may be missing"
    return f"its node cannot make its containers: {missing}; the events of kubectl describe pod {pod.name} say which"
