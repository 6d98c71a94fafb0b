"""The entry point of the lifecycle: from an observation to a decision.

Total: every observation, even an unexpected one, has an answer. Deterministic: the same observation and time give the same answer.
Stateless: data that must outlive this call is in the status, and an action that must not run twice is recorded there first.

A step decides one situation. When the situation is over, it returns `Ended`, and `NEXT` contains the step that follows:

    finalize            DriverToDrain  reconcile_running
                        Drained        close
    close               Launchable     plan_attempt
    reconcile_running   NotLaunched    launch
                        Terminated     on_terminated
    on_terminated       Recorded       reconcile_idle, or close for a deleted object
    reconcile_finished  Reopened       reconcile_idle
    reconcile_idle      Launchable     plan_attempt

A step never returns to an earlier one, so `STEPS_MAX` steps always suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Literal

from backfill_api.spec.override import Override
from backfill_api.status.status import Attempt, BackfillStatus, Control
from backfill_core.lifecycle.actions import Action, Decision, DeletePod, EventNote
from backfill_core.lifecycle.closing import closing_left_ms, running
from backfill_core.lifecycle.inputs.all_jobs import ALL_JOBS_PAUSED
from backfill_core.lifecycle.inputs.change_claims import new_claim
from backfill_core.lifecycle.inputs.context import Context, classify
from backfill_core.lifecycle.observation import DriverPod, Observation
from backfill_core.lifecycle.queue.quota import with_fence, workload_actions
from backfill_core.lifecycle.refresh_times import next_refresh_in_ms, skipped_event, with_refresh_times
from backfill_core.lifecycle.status.closing_ends import closing_events
from backfill_core.lifecycle.status.condition_details import (
    COMMIT_STALLED,
    EDIT_PENDING,
    EXECUTORS_WAITING,
    JAVA_SILENT,
)
from backfill_core.lifecycle.status.conditions import ConditionSet, Fact, conditions_of
from backfill_core.lifecycle.status.losses import lost_executors_event
from backfill_core.lifecycle.status.procedure_events import procedure_events
from backfill_core.lifecycle.status.size import bounded
from backfill_core.lifecycle.status.write_policy import lease_of
from backfill_core.lifecycle.steps.closing import close
from backfill_core.lifecycle.steps.finalizing import finalize, reconcile_finished
from backfill_core.lifecycle.steps.idle import reconcile_idle
from backfill_core.lifecycle.steps.launching import launch, plan_attempt
from backfill_core.lifecycle.steps.running import reconcile_running
from backfill_core.lifecycle.steps.step import PLAN_OUTDATED, Ended, Outcome, StepResult, lingers_ms
from backfill_core.lifecycle.steps.terminating import on_terminated

Step = Callable[[Context], StepResult | Ended[Outcome]]


def after_end(context: Context) -> StepResult | Ended[Literal["Launchable"]]:
    """Decide what follows an attempt whose end is in the status."""
    return reconcile_idle(context) if context.observation.deletion_ms is None else close(context)


NEXT: Final[Mapping[Outcome, Step]] = {
    "DriverToDrain": reconcile_running,
    "Drained": close,
    "NotLaunched": launch,
    "Terminated": on_terminated,
    "Recorded": after_end,
    "Reopened": reconcile_idle,
    "Launchable": plan_attempt,
}
STEPS_MAX: Final = 5
"""Number of steps on the longest path through `NEXT`: finalize, reconcile_running, on_terminated, after_end, plan_attempt."""

NOTEWORTHY: Final = frozenset({"AwaitingApproval", "Paused", "Suspended", "Running", "Succeeded"})
ALARMING: Final = frozenset({"Retrying", "Failed"})
SHARED_TARGET: Final = "SharedTarget"
OVERRIDE_IGNORED: Final = "OverrideIgnored"
ANNOTATION_IGNORED: Final = "AnnotationIgnored"
SIDECAR_ENDED: Final = "SidecarEnded"
TOLD_ONCE: Final[Mapping[str, Literal["Normal", "Warning"]]] = {
    "SpecChanged": "Normal", PLAN_OUTDATED: "Normal", EXECUTORS_WAITING: "Warning", JAVA_SILENT: "Warning",
    COMMIT_STALLED: "Warning", "QuotaExceeded": "Warning", ALL_JOBS_PAUSED: "Normal",
    "WaitingForQueue": "Normal", "QueueUnavailable": "Warning", "EvictedByQueue": "Normal",
}  # fmt: skip
"""Reasons that come and go within a phase, so that no event about the phase reports them."""

SHARED_SHOWN_MAX: Final = 3


def decide(observation: Observation, now_ms: int) -> Decision:
    """Return the current status, and the actions that bring the cluster closer to the desired state.

    Args:
        observation: The observed state of one Backfill.
        now_ms: Wall time of the decision, because timeouts must survive a restart of the operator.
    """
    context = classify(observation, now_ms)
    lingering = {pod: left_ms for pod in context.our_pods if (left_ms := lingers_ms(context, pod)) is not None}
    result = dispatch(context).requeue_within(*lingering.values())
    if result.conditions is None:
        return Decision(observation.status, result.actions, _seconds(result.requeue_ms))
    quota = workload_actions(context, result.status, result.conditions)
    details = _shared_target(observation, result.conditions) | _override_ignored(context)
    conditions = result.conditions.with_details(details)
    if observation.deletion_ms is not None:
        conditions = replace(conditions, phase="Terminating")
        result = result.requeue_within(_given_up_in_ms(context, result.status))
    before, generation = observation.status.conditions, observation.generation
    status = with_refresh_times(context, result.status, conditions)
    result = result.requeue_within(next_refresh_in_ms(context, status))
    status = status.model_copy(
        update={
            "observed_generation": generation,
            "phase": conditions.phase,
            "all_jobs_pause": None if conditions.finished else context.desired.all_jobs_pause,
            "conditions": conditions_of(conditions, before, generation=generation, timestamp=context.timestamp),
        }
    )
    return Decision(
        bounded(status),
        with_fence(result.actions, quota),
        _seconds(result.requeue_ms),
        (
            *_events(context, conditions, status.attempt),
            *skipped_event(observation.status, status),
            *lost_executors_event(observation.status, status),
            *procedure_events(observation.status, status),
            *closing_events(observation.status, status),
            *_ended_sidecars(result.actions, lingering),
        ),
    )


def _given_up_in_ms(context: Context, status: BackfillStatus) -> int | None:
    """Return the milliseconds until the end of a deleted job is given up; `None` if that time is over, or if none is under way."""
    run = running(status)
    left_ms = None if run is None else closing_left_ms(context, run)
    return left_ms if left_ms is not None and left_ms > 0 else None


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _ended_sidecars(actions: tuple[Action, ...], lingering: Mapping[DriverPod, int]) -> tuple[EventNote, ...]:
    """Return an event for each retained pod that is deleted because another container of the pod still runs."""
    deleted = {action.uid for action in actions if isinstance(action, DeletePod)}
    return tuple(
        EventNote(
            "Normal", SIDECAR_ENDED, f"pod {pod.name} is deleted: its driver has ended, and {pod.lingering} still runs"
        )
        for pod, left_ms in lingering.items()
        if left_ms == 0 and pod.uid in deleted
    )


def dispatch(context: Context) -> StepResult:
    """Call the step of the situation, and the steps that follow it, until one returns the final result."""
    step, actions = first_step(context), list[Action]()
    for _ in range(STEPS_MAX):
        answer = step(context)
        if isinstance(answer, StepResult):
            return replace(answer, actions=(*actions, *answer.actions))
        step, context = NEXT[answer.outcome], answer.context
        actions += answer.actions
    raise AssertionError("the steps form a cycle")


def first_step(context: Context) -> Step:
    """Return the step for the situation of the observation."""
    if context.observation.deletion_ms is not None:
        return finalize
    if context.attempt is not None:
        # This also applies if the status reports a finished job: the status is then older than this attempt's pod.
        return reconcile_running
    return reconcile_idle if context.finished is None else reconcile_finished


def _shared_target(observation: Observation, conditions: ConditionSet) -> dict[str, Fact]:
    """Return the detail about other Backfills that write the same target; a finished job no longer writes."""
    if not observation.shared_with or conditions.finished:
        return {}
    more = len(observation.shared_with) - SHARED_SHOWN_MAX
    names = ", ".join(observation.shared_with[:SHARED_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    message = f"{names} write the same target, but only one Backfill can own it; delete the others, or give each a separate target"
    return {SHARED_TARGET: Fact("True", SHARED_TARGET, message)}


def _override_ignored(context: Context) -> dict[str, Fact]:
    """Return the detail about an ignored annotation: the error, and the controls in force."""
    desired = context.desired
    if not desired.override_error:
        return {}
    held = "the spec applies" if desired.override is None else f"in force is {_shown(desired.override)}"
    message = f"{desired.override_error}; {held}: correct or remove the annotation"
    return {OVERRIDE_IGNORED: Fact("True", OVERRIDE_IGNORED, message)}


def _shown(override: Override) -> str:
    return override.model_dump_json(by_alias=True, exclude_none=True)


def _events(context: Context, conditions: ConditionSet, attempt: Attempt | None) -> tuple[EventNote, ...]:
    """Return an event for each change; conditions report lasting states."""
    notes = []
    before = context.observation.status
    existing = {condition.type for condition in before.conditions}
    ready = context.condition("Ready")
    ignored = conditions.details.get(OVERRIDE_IGNORED)
    if ignored is not None:
        notes.append(EventNote("Warning", ignored.reason, ignored.message))
    annotations, control = context.observation.annotations, before.control or Control()
    for error in (new_claim(annotations, control.claim_of).error, lease_of(annotations, context.now_ms).error):
        notes += [EventNote("Warning", ANNOTATION_IGNORED, error)] if error else []
    edited, earlier = conditions.details.get(EDIT_PENDING), context.condition(EDIT_PENDING)
    if edited is not None and (earlier is None or earlier.message != edited.message):
        notes.append(EventNote("Normal", edited.reason, edited.message))
    shared = conditions.details.get(SHARED_TARGET)
    if shared is not None and SHARED_TARGET not in existing:
        notes.append(EventNote("Warning", shared.reason, shared.message))
    if conditions.state == "Complete" and conditions.message and (ready is None or ready.message != conditions.message):
        notes.append(EventNote("Warning", "EditIgnored", conditions.message))
    if conditions.needs_a_person and "Stalled" not in existing:
        notes.append(EventNote("Warning", conditions.reason, conditions.message))
    elif conditions.reason in TOLD_ONCE and (ready is None or ready.reason != conditions.reason):
        notes.append(EventNote(TOLD_ONCE[conditions.reason], conditions.reason, conditions.message))
    elif conditions.phase != before.phase and conditions.phase in NOTEWORTHY | ALARMING:
        kind: Literal["Normal", "Warning"] = "Warning" if conditions.phase in ALARMING else "Normal"
        notes.append(EventNote(kind, conditions.reason, conditions.message or _described(context, conditions, attempt)))
    if attempt is not None and attempt.number > (0 if before.attempt is None else before.attempt.number):
        notes.append(
            EventNote("Normal", "Launching", f"attempt {attempt.number} is launched as pod {attempt.pod_name}")
        )
    return tuple(notes)


def _described(context: Context, conditions: ConditionSet, attempt: Attempt | None) -> str:
    """Return the message of an event about a phase whose conditions have no message."""
    if conditions.phase == "Running" and attempt is not None:
        return f"the driver of attempt {attempt.number} is ready: pod {attempt.pod_name}"
    if conditions.phase == "Paused":
        return f"paused by {'the override annotation' if context.desired.pause_overridden else 'the spec'}; the driver waits at a barrier"
    return ""
