"""Finished and tidied jobs. Only time, an edit, an annotation, a pod or a deletion gives them anything to decide."""

from __future__ import annotations

from backfill_api.status.status import BackfillStatus, Condition
from backfill_api.timestamps import ms_of
from backfill_core.lifecycle.inputs.procedures import fences_source
from backfill_core.lifecycle.status.condition_details import fact_of, without_driver
from backfill_core.lifecycle.status.conditions import ConditionSet

OVER = ("Complete", "Failed")


def at_rest(status: BackfillStatus, *, generation: int) -> bool:
    """Return whether `decide` would change nothing, until the time to live is over.

    The object must have no pods, no finalizer and no annotations of the operator. A status that a user edited while no operator ran,
    so that it differs from the result of `decide`, is not at rest.
    """
    over = next((shown for shown in status.conditions if shown.type in OVER and shown.status == "True"), None)
    if over is None or status.completion_time is None or ms_of(status.completion_time) is None:
        return False
    if (
        status.override is not None
        or status.all_jobs_pause is not None
        or status.attempt is None
        or status.attempt.state != "Ended"
    ):
        return False
    return status.observed_generation == generation and _shows_end(status, over, generation=generation)


def forgotten_ms(status: BackfillStatus, ttl_s: int | None) -> int | None:
    """Return the time at which a finished job must be deleted; `None` for never, as while its switch-over fences the source."""
    completed_ms = ms_of(status.completion_time)
    return None if ttl_s is None or completed_ms is None or fences_source(status) else completed_ms + ttl_s * 1000


def _shows_end(status: BackfillStatus, over: Condition, *, generation: int) -> bool:
    """Return whether phase and conditions are those of a job that is over in this way."""
    complete = over.type == "Complete"
    expected = ConditionSet.complete(over.message) if complete else ConditionSet.failed(over.reason, over.message)
    facts = expected.with_details(without_driver(status)).facts()
    shown = {condition.type: fact_of(condition) for condition in status.conditions}
    generations = {condition.observed_generation for condition in status.conditions}
    return (
        status.phase == expected.phase
        and shown == facts
        and len(status.conditions) == len(facts)
        and generations == {generation}
    )
