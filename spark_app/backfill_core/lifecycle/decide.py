"""The one way in: what follows from one look.

Total: an answer for every look, however odd. Deterministic: the same look and moment, the same answer. Without memory: all
that must outlive this call is in the status, and what must not be done twice is on record there before it is done.
"""

from __future__ import annotations

from dataclasses import replace

from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.actions import Decision, EventNote
from backfill_core.lifecycle.inputs.context import Context, classify
from backfill_core.lifecycle.observation import Now, Observation
from backfill_core.lifecycle.status.conditions import ConditionSet, Fact, conditions_of
from backfill_core.lifecycle.steps.finalizing import finalize, reconcile_finished
from backfill_core.lifecycle.steps.idle import reconcile_idle
from backfill_core.lifecycle.steps.running import reconcile_running
from backfill_core.lifecycle.steps.step import StepResult

NOTEWORTHY = frozenset({"AwaitingApproval", "Paused", "Suspended", "Running", "Succeeded"})
SHARED_TARGET = "SharedTarget"
BESIDE_SHOWN_MAX = 3
ALARMING = frozenset({"Retrying", "Failed"})


def decide(observation: Observation, now: Now) -> Decision:
    """Return the status that is true now and the actions that bring the cluster nearer to what is wanted."""
    context = classify(observation, now.wall_ms)
    result = _dispatch(context)
    requeue_after_s = None if result.requeue_ms is None else result.requeue_ms / 1000
    if result.conditions is None:
        return Decision(observation.status, result.actions, requeue_after_s)
    result = replace(result, conditions=result.conditions.with_details(_beside(observation, result.conditions)))
    assert result.conditions is not None
    status = result.status.model_copy(
        update={
            "observed_generation": observation.generation,
            "phase": result.conditions.phase,
            "conditions": conditions_of(
                result.conditions,
                observation.status.conditions,
                generation=observation.generation,
                timestamp=context.timestamp,
            ),
        }
    )
    return Decision(status, result.actions, requeue_after_s, _events(context, status, result))


def _beside(observation: Observation, conditions: ConditionSet) -> dict[str, Fact]:
    """Tell of others that write the same target; a job that is over writes no more."""
    if not observation.beside or conditions.finished:
        return {}
    more = len(observation.beside) - BESIDE_SHOWN_MAX
    names = ", ".join(observation.beside[:BESIDE_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    words = f"{names} write the same target: only one of them can have it; delete the others, or give each its own"
    return {SHARED_TARGET: Fact("True", SHARED_TARGET, words)}


def _dispatch(context: Context) -> StepResult:
    if context.observation.deletion_ms is not None:
        return finalize(context)
    attempt, over = context.attempt, context.finished
    if attempt is not None:
        # Even when the status says that the job is over: then it is older than this attempt's pod.
        return reconcile_running(context, attempt)
    return reconcile_idle(context) if over is None else reconcile_finished(context, over)


def _events(context: Context, status: BackfillStatus, result: StepResult) -> tuple[EventNote, ...]:
    """Tell of what is new; what goes on is in the conditions."""
    notes = []
    conditions, before = result.conditions, context.observation.status
    if context.desired.override_error:
        notes.append(EventNote("Warning", "OverrideIgnored", context.desired.override_error))
    if conditions is None:
        return tuple(notes)
    shared = conditions.details.get(SHARED_TARGET)
    if shared is not None and not any(one.type == SHARED_TARGET for one in before.conditions):
        notes.append(EventNote("Warning", shared.reason, shared.message))
    if conditions.needs_a_person and not any(one.type == "Stalled" for one in before.conditions):
        notes.append(EventNote("Warning", conditions.reason, conditions.message))
    elif status.phase != before.phase and status.phase in NOTEWORTHY | ALARMING:
        kind = "Warning" if status.phase in ALARMING else "Normal"
        notes.append(EventNote(kind, conditions.reason, conditions.message))  # type: ignore[arg-type]
    return tuple(notes)
