"""Situation of a Backfill that waits for others before its first attempt."""

from __future__ import annotations

from typing import Final

from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.dependencies import describe_unreached
from backfill_core.lifecycle.inputs.next_look import next_look_ms
from backfill_core.lifecycle.status.conditions import ConditionSet
from backfill_core.lifecycle.steps.step import StepResult, without_driver

CYCLE: Final = "DependencyCycle"
FAILED: Final = "DependencyFailed"
MISSING: Final = "DependencyMissing"
WAITS: Final = "WaitingForDependency"
REMEDY: Final = "remove one of them from spec.dependsOn"
FIRST_MS, LAST_MS = 60_000, 1_800_000
"""A change of a dependency wakes the Backfill; these polls cover a change that was missed."""


def held_by_dependencies(context: Context) -> StepResult | None:
    """Return the result while another Backfill must come first; `None` if none must, or if an attempt was made.

    Only the first attempt waits. A dependency that is run again later does not stop a job that has begun.
    """
    seen = context.observation
    if context.status.attempts or (not seen.dependency_cycle and all(item.reached for item in seen.dependencies)):
        return None
    conditions = _conditions(context)
    wake = context.condition("Reconciling") or context.condition("Stalled")
    since = wake.last_transition_time if wake is not None else None
    result = StepResult(context.status, without_driver(context, conditions))
    return result.requeue_within(next_look_ms(context, since, first_ms=FIRST_MS, last_ms=LAST_MS))


def _conditions(context: Context) -> ConditionSet:
    cycle, dependencies = context.observation.dependency_cycle, context.observation.dependencies
    if cycle:
        chain = " waits for ".join((*cycle, cycle[0]))
        return ConditionSet.stalled("Pending", CYCLE, f"no Backfill of a cycle can start: {chain}; {REMEDY}")
    text = describe_unreached(dependencies)
    if any(item.failed for item in dependencies):
        return ConditionSet.stalled(
            "Pending", FAILED, f"{text}; correct it and run it again, or remove it from spec.dependsOn"
        )
    if any(item.missing for item in dependencies):
        return ConditionSet.reconciling("Pending", MISSING, f"{text}; create it, or remove it from spec.dependsOn")
    return ConditionSet.reconciling("Pending", WAITS, text)
