"""The one entry point: from an observation to a decision.

Total: every observation, however odd, has an answer. Deterministic: the same observation and moment give the same answer.
Without memory: what must outlive this call is in the status, and what must not be done twice is on record there first.

A step decides one situation. When the situation is over, it answers `Ended`, and `NEXT` says which step decides from there:

    finalize            DriverToDrain  reconcile_running
    reconcile_running   NotLaunched    launch
                        Terminated     on_terminated
    on_terminated       Recorded       reconcile_idle
    reconcile_finished  Reopened       reconcile_idle
    reconcile_idle      Launchable     plan_attempt

A step never comes back to one before it, so `STEPS_MAX` steps always suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Literal

from backfill_api.spec.override import Override
from backfill_api.status.status import Attempt
from backfill_core.lifecycle.actions import Action, Decision, DeletePod, EventNote
from backfill_core.lifecycle.inputs.context import Context, classify
from backfill_core.lifecycle.observation import DriverPod, Observation
from backfill_core.lifecycle.status.condition_details import (
    COMMIT_STALLED,
    EDIT_PENDING,
    EXECUTORS_WAITING,
    JAVA_SILENT,
)
from backfill_core.lifecycle.status.conditions import ConditionSet, Fact, conditions_of
from backfill_core.lifecycle.status.losses import lost_executors_event
from backfill_core.lifecycle.steps.finalizing import finalize, reconcile_finished
from backfill_core.lifecycle.steps.idle import reconcile_idle
from backfill_core.lifecycle.steps.launching import launch, plan_attempt
from backfill_core.lifecycle.steps.running import reconcile_running
from backfill_core.lifecycle.steps.step import PLAN_OUTDATED, Ended, Outcome, StepResult, lingers_ms
from backfill_core.lifecycle.steps.terminating import on_terminated

Step = Callable[[Context], StepResult | Ended[Outcome]]

NEXT: Final[Mapping[Outcome, Step]] = {
    "DriverToDrain": reconcile_running,
    "NotLaunched": launch,
    "Terminated": on_terminated,
    "Recorded": reconcile_idle,
    "Reopened": reconcile_idle,
    "Launchable": plan_attempt,
}
STEPS_MAX: Final = 5
"""Steps on the longest way through `NEXT`: finalize, reconcile_running, on_terminated, reconcile_idle, plan_attempt."""

NOTEWORTHY: Final = frozenset({"AwaitingApproval", "Paused", "Suspended", "Running", "Succeeded"})
ALARMING: Final = frozenset({"Retrying", "Failed"})
SHARED_TARGET: Final = "SharedTarget"
OVERRIDE_IGNORED: Final = "OverrideIgnored"
SIDECAR_ENDED: Final = "SidecarEnded"
TOLD_ONCE: Final[Mapping[str, Literal["Normal", "Warning"]]] = {
    "SpecChanged": "Normal", PLAN_OUTDATED: "Normal", EXECUTORS_WAITING: "Warning", JAVA_SILENT: "Warning",
    COMMIT_STALLED: "Warning", "QuotaExceeded": "Warning",
}  # fmt: skip
"""Reasons that come and go within a phase, so that no event of a phase tells of them."""

BESIDE_SHOWN_MAX: Final = 3


def decide(observation: Observation, now_ms: int) -> Decision:
    """Return the status that is true now, and the actions that bring the cluster nearer to what is desired.

    Args:
        observation: What is known of one Backfill.
        now_ms: Wall time of the decision: what is timed must survive a restart of the operator.
    """
    context = classify(observation, now_ms)
    lingering = {pod: left_ms for pod in context.our_pods if (left_ms := lingers_ms(context, pod)) is not None}
    result = dispatch(context).requeue_within(*lingering.values())
    requeue_after_s = None if result.requeue_ms is None else result.requeue_ms / 1000
    if result.conditions is None:
        return Decision(observation.status, result.actions, requeue_after_s)
    details = _shared_target(observation, result.conditions) | _override_ignored(context)
    conditions = result.conditions.with_details(details)
    before, generation = observation.status.conditions, observation.generation
    status = result.status.model_copy(
        update={
            "observed_generation": generation,
            "phase": conditions.phase,
            "conditions": conditions_of(conditions, before, generation=generation, timestamp=context.timestamp),
        }
    )
    return Decision(
        status,
        result.actions,
        requeue_after_s,
        (
            *_events(context, conditions, status.attempt),
            *lost_executors_event(observation.status, status),
            *_ended_sidecars(result.actions, lingering),
        ),
    )


def _ended_sidecars(actions: tuple[Action, ...], lingering: Mapping[DriverPod, int]) -> tuple[EventNote, ...]:
    """Return an event for each retained pod that is deleted because another container of it still runs."""
    deleted = {action.uid for action in actions if isinstance(action, DeletePod)}
    return tuple(
        EventNote(
            "Normal", SIDECAR_ENDED, f"pod {pod.name} is deleted: its driver has ended, and {pod.lingering} still runs"
        )
        for pod, left_ms in lingering.items()
        if left_ms == 0 and pod.uid in deleted
    )


def dispatch(context: Context) -> StepResult:
    """Ask the step of the situation, and those that follow it, until one has the final answer."""
    step, actions = first_step(context), list[Action]()
    for _ in range(STEPS_MAX):
        answer = step(context)
        if isinstance(answer, StepResult):
            return replace(answer, actions=(*actions, *answer.actions))
        step, context = NEXT[answer.outcome], answer.context
        actions += answer.actions
    raise AssertionError("the steps follow each other in a circle")


def first_step(context: Context) -> Step:
    """Return the step that decides the situation of the observation."""
    if context.observation.deletion_ms is not None:
        return finalize
    if context.attempt is not None:
        # Even when the status says that the job is over: then it is older than this attempt's pod.
        return reconcile_running
    return reconcile_idle if context.finished is None else reconcile_finished


def _shared_target(observation: Observation, conditions: ConditionSet) -> dict[str, Fact]:
    """Name the other Backfills that write the same target; a job that is over writes no more."""
    if not observation.beside or conditions.finished:
        return {}
    more = len(observation.beside) - BESIDE_SHOWN_MAX
    names = ", ".join(observation.beside[:BESIDE_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    message = f"{names} write the same target: only one of them can have it; delete the others, or give each its own"
    return {SHARED_TARGET: Fact("True", SHARED_TARGET, message)}


def _override_ignored(context: Context) -> dict[str, Fact]:
    """Show why an annotation is ignored, and what holds instead."""
    desired = context.desired
    if not desired.override_error:
        return {}
    held = "the spec holds" if desired.override is None else f"in force is {_shown(desired.override)}"
    message = f"{desired.override_error}; {held}: correct or remove the annotation"
    return {OVERRIDE_IGNORED: Fact("True", OVERRIDE_IGNORED, message)}


def _shown(override: Override) -> str:
    return override.model_dump_json(by_alias=True, exclude_none=True)


def _events(context: Context, conditions: ConditionSet, attempt: Attempt | None) -> tuple[EventNote, ...]:
    """Return an event for each thing that is new; what lasts is in the conditions."""
    notes = []
    before = context.observation.status
    known = {one.type for one in before.conditions}
    ready = context.condition("Ready")
    ignored = conditions.details.get(OVERRIDE_IGNORED)
    if ignored is not None:
        notes.append(EventNote("Warning", ignored.reason, ignored.message))
    edited, told = conditions.details.get(EDIT_PENDING), context.condition(EDIT_PENDING)
    if edited is not None and (told is None or told.message != edited.message):
        notes.append(EventNote("Normal", edited.reason, edited.message))
    shared = conditions.details.get(SHARED_TARGET)
    if shared is not None and SHARED_TARGET not in known:
        notes.append(EventNote("Warning", shared.reason, shared.message))
    if conditions.state == "Complete" and conditions.message and (ready is None or ready.message != conditions.message):
        notes.append(EventNote("Warning", "EditIgnored", conditions.message))
    if conditions.needs_a_person and "Stalled" not in known:
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
    """Return what an event says of a phase whose conditions have no message."""
    if conditions.phase == "Running" and attempt is not None:
        return f"the driver of attempt {attempt.number} is ready: pod {attempt.pod_name}"
    if conditions.phase == "Paused":
        return f"paused by {'the override annotation' if context.desired.pause_overridden else 'the spec'}; the driver stays, at a barrier"
    return ""
