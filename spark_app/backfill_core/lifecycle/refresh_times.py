"""Times of `spec.refresh.schedule`: the next one, and those that start no refresh.

The next time is in the status, so a restart of the operator loses none. Times that passed while no operator ran start one refresh.
"""

from __future__ import annotations

from typing import Final, Literal

from backfill_api.spec.schedules.refresh import RefreshSpec
from backfill_api.status.status import BackfillStatus, RefreshTimes
from backfill_api.timestamps import ms_of, rfc3339
from backfill_core.lifecycle.actions import EventNote
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.procedures import is_switched, procedure_of
from backfill_core.lifecycle.observation import SpecRefused
from backfill_core.lifecycle.status.conditions import ConditionSet

REFRESH_SKIPPED: Final = "RefreshSkipped"
AGAIN_MS: Final = 1000
"""Delay until the next decision if a time comes while a job ends."""


def refresh_is_due(context: Context) -> bool:
    """Return whether a time of the schedule has come that starts a refresh of this finished job now."""
    refresh, times = _scheduled(context), context.status.refresh_times
    if refresh is None or times is None or times.of != refresh.text or _held(context):
        return False
    next_ms = ms_of(times.next)
    return next_ms is not None and next_ms <= context.now_ms


def with_started(status: BackfillStatus, now_ms: int) -> BackfillStatus:
    """Return the status of a job whose refresh starts now, with the time that it fulfils."""
    times = status.refresh_times
    next_ms = None if times is None else ms_of(times.next)
    if times is None or next_ms is None or next_ms > now_ms:
        return status
    started = times.model_copy(update={"last": times.next, "next": None, "waits": ""})
    return status.model_copy(update={"refresh_times": started})


def with_refresh_times(context: Context, status: BackfillStatus, conditions: ConditionSet) -> BackfillStatus:
    """Return the status with the times as they are after this decision; a job that has not ended yet has none."""
    if isinstance(context.observation.spec, SpecRefused) or context.observation.deletion_ms is not None:
        return status
    refresh = _scheduled(context)
    times = None
    if refresh is not None and _has_times(status, conditions):
        rests = conditions.finished or _is_repaired(status)
        times = _times(context, refresh, status.refresh_times, finished=rests)
    return status if times == status.refresh_times else status.model_copy(update={"refresh_times": times})


def next_refresh_in_ms(context: Context, status: BackfillStatus) -> int | None:
    """Return the milliseconds until the next time needs a decision; `None` if none does."""
    times = status.refresh_times
    waits = times is None or times.waits or _scheduled(context) is None or _is_repaired(status)
    next_ms = None if times is None or waits else ms_of(times.next)
    return None if next_ms is None else max(AGAIN_MS, next_ms - context.now_ms)


def skipped_event(before: BackfillStatus, status: BackfillStatus) -> tuple[EventNote, ...]:
    """Return an event for a time that started no refresh."""
    times, earlier = status.refresh_times, before.refresh_times
    if times is None or times.skipped is None or (earlier is not None and earlier.skipped == times.skipped):
        return ()
    began = "" if status.refresh is None else f" that began at {status.refresh.start}"
    message = f"no refresh at {times.skipped}: the one{began} has not ended; the next time is {times.next}"
    return (EventNote("Warning", REFRESH_SKIPPED, message),)


def _has_times(status: BackfillStatus, conditions: ConditionSet) -> bool:
    """Return whether a schedule applies: to a complete job, to one that is repaired, and to one whose refresh runs or failed."""
    if status.refresh is None:
        return conditions.state == "Complete" or (status.refresh_times is not None and _is_repaired(status))
    return conditions.state != "Failed" or not status.refresh.done


def _is_repaired(status: BackfillStatus) -> bool:
    """Return whether a repair runs, which takes no changes: a time that comes meanwhile starts a refresh after it."""
    return procedure_of(status) == "Repair"


def _scheduled(context: Context) -> RefreshSpec | None:
    """Return the schedule; `None` without one, and after a switch-over, because the target then has other writers."""
    spec = context.observation.spec
    return None if isinstance(spec, SpecRefused) or is_switched(context.status) else spec.refresh


def _times(context: Context, refresh: RefreshSpec, before: RefreshTimes | None, *, finished: bool) -> RefreshTimes:
    coming_ms = refresh.next_after_ms(context.now_ms)
    coming = None if coming_ms is None else rfc3339(coming_ms)
    if before is None:
        return RefreshTimes(of=refresh.text, next=coming)
    next_ms = ms_of(before.next)
    if before.of != refresh.text or next_ms is None or (coming_ms is not None and next_ms > coming_ms):
        # The schedule was edited, or the status. Times of the new schedule before the edit do not count as missed.
        return before.model_copy(update={"of": refresh.text, "next": coming, "waits": ""})
    if next_ms > context.now_ms:
        return before.model_copy(update={"waits": ""})
    if finished:
        return before.model_copy(update={"waits": _held(context)})
    return before.model_copy(update={"skipped": before.next, "next": coming, "waits": ""})


def _held(context: Context) -> Literal["", "Suspended", "Paused", "AllJobsPaused"]:
    """Return why no refresh may start; empty if it may."""
    desired = context.desired
    if desired.all_jobs_pause is not None:
        return "AllJobsPaused"
    if desired.suspend:
        return "Suspended"
    return "Paused" if desired.paused is not None else ""
