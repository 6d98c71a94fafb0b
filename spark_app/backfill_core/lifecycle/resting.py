"""Which jobs are over and tidied, so that only time, an edit, an annotation, a pod or a deletion gives them anything to decide."""

from __future__ import annotations

from backfill_api.status.status import BackfillStatus, Condition
from backfill_core.lifecycle.inputs.timestamps import ms_of
from backfill_core.lifecycle.status.condition_details import fact_of, without_driver
from backfill_core.lifecycle.status.conditions import ConditionSet

OVER = ("Complete", "Failed")


def at_rest(status: BackfillStatus, *, generation: int) -> bool:
    """Would `decide` change nothing, for an object without pods, finalizer and annotations of ours, before its time to live is over?

    Also of a status that a person edited while no operator ran: one that says something else than `decide` is not at rest.
    """
    over = next((one for one in status.conditions if one.type in OVER and one.status == "True"), None)
    if over is None or status.completion_time is None or ms_of(status.completion_time) is None:
        return False
    if status.override is not None or status.attempt is None or status.attempt.state != "Ended":
        return False
    return status.observed_generation == generation and _says_it(status, over, generation=generation)


def forgotten_ms(status: BackfillStatus, ttl_s: int | None) -> int | None:
    """Return when a job that is over is to be deleted; None: never."""
    completed_ms = ms_of(status.completion_time)
    return None if ttl_s is None or completed_ms is None else completed_ms + ttl_s * 1000


def _says_it(status: BackfillStatus, over: Condition, *, generation: int) -> bool:
    """Are phase and conditions those of a job that is over in this way?"""
    complete = over.type == "Complete"
    made = ConditionSet.complete(over.message) if complete else ConditionSet.failed(over.reason, over.message)
    facts = made.with_details(without_driver(status)).facts()
    shown = {one.type: fact_of(one) for one in status.conditions}
    generations = {one.observed_generation for one in status.conditions}
    return (
        status.phase == made.phase
        and shown == facts
        and len(status.conditions) == len(facts)
        and generations == {generation}
    )
