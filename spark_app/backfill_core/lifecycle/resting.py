"""Which jobs are over and tidied, so that only time, an edit, an annotation, a pod or a deletion gives them anything to decide."""

from __future__ import annotations

from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.inputs.timestamps import ms_of

OVER = ("Complete", "Failed")


def at_rest(status: BackfillStatus, *, generation: int) -> bool:
    """Would `decide` change nothing, for an object without pods, finalizer and annotations of ours, before its time to live is over?

    The status is one that `decide` made of this generation, and not one that a person edited.
    """
    over = next((one for one in status.conditions if one.type in OVER and one.status == "True"), None)
    if over is None or status.completion_time is None or ms_of(status.completion_time) is None:
        return False
    seen = (status.observed_generation, over.observed_generation)
    return seen == (generation, generation) and status.attempt is not None and status.attempt.state == "Ended"


def forgotten_ms(status: BackfillStatus, ttl_s: int | None) -> int | None:
    """Return when a job that is over is to be deleted; None: never."""
    completed_ms = ms_of(status.completion_time)
    return None if ttl_s is None or completed_ms is None else completed_ms + ttl_s * 1000
