"""Lost pods in the status: executors as reported by their drivers, and drivers from the ends of their pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from backfill_api.amounts import counted
from backfill_api.status.losses import PodLoss, losses_of
from backfill_api.status.progress import Progress
from backfill_api.status.status import Attempt, BackfillStatus
from backfill_core.lifecycle.actions import EventNote
from backfill_core.lifecycle.inputs.termination import KILLED, NODE_TOOK_IT, Termination
from backfill_core.lifecycle.observation import DriverPod

EXECUTORS_LOST: Final = "ExecutorsLost"
"""Reason of an event."""

MEMORY: Final = frozenset({"OOMKilled", "JavaOutOfMemory"})
WORD_CHARACTERS_MAX: Final = 64


def counts_of(losses: tuple[PodLoss, ...]) -> dict[str, int]:
    """Return the counts by reason."""
    return {loss.reason: loss.count for loss in losses}


def with_executors(
    status: BackfillStatus, attempt: Attempt, progress: Progress | None
) -> tuple[Attempt, tuple[PodLoss, ...]]:
    """Return the attempt and the executors that the job lost, after counting a report of the attempt's driver.

    The attempt stores its losses that the total already includes. So a repeated report counts once.
    """
    if progress is None or not progress.executors_lost:
        return attempt, status.lost_executors
    counted_before, total = counts_of(attempt.executors_lost), counts_of(status.lost_executors)
    for reason, count in counts_of(progress.executors_lost).items():
        new = max(0, count - counted_before.get(reason, 0))
        counted_before[reason] = counted_before.get(reason, 0) + new
        total[reason] = total.get(reason, 0) + new
    return attempt.model_copy(update={"executors_lost": losses_of(counted_before)}), losses_of(total)


def with_driver(losses: tuple[PodLoss, ...], pod: DriverPod | None, termination: Termination) -> tuple[PodLoss, ...]:
    """Return the drivers that the job lost, including one whose attempt ended with this termination."""
    if termination.reason != "Infrastructure" or termination.outcome != "Retry":
        return losses
    counts, reason = counts_of(losses), driver_loss(pod)
    return losses_of(counts | {reason: counts.get(reason, 0) + 1})


def driver_loss(pod: DriverPod | None) -> str:
    """Return the reason of a driver's loss as one word: from its container, from the disruption, or from its pod."""
    if pod is None:
        return "Deleted"
    if pod.oom_killed:
        return "OOMKilled"
    disruption = pod.disruption.partition(":")[0].strip()
    if pod.disrupted and _is_word(disruption):
        return disruption
    if pod.reason in NODE_TOOK_IT:
        return pod.reason
    if pod.deletion_ms is not None:
        return "Deleted"
    return "Killed" if pod.exit_code in KILLED else "Unknown"


def _is_word(text: str) -> bool:
    return text.isascii() and text.isalnum() and text[:1].isalpha() and len(text) <= WORD_CHARACTERS_MAX


def lost_executors_event(before: BackfillStatus, after: BackfillStatus) -> tuple[EventNote, ...]:
    """Return an event if the executors lost for a reason reach 1, 2, 4, 8 and so on, which limits the events of long outages."""
    old, new = counts_of(before.lost_executors), counts_of(after.lost_executors)
    grown = [reason for reason, count in new.items() if count.bit_length() > old.get(reason, 0).bit_length()]
    return (EventNote("Warning", EXECUTORS_LOST, _message(new, grown)),) if grown else ()


def _message(counts: Mapping[str, int], grown: list[str]) -> str:
    named = ", ".join(
        f"{counts[reason]:,} {reason}" for reason in sorted(counts, key=lambda reason: (-counts[reason], reason))
    )
    hint = "; raise spec.executor.resources.limits.memory" if MEMORY.intersection(grown) else ""
    lost = counted(sum(counts.values()), "executor")
    return f"{lost} lost so far: {named}; Spark reads again what they were reading{hint}"
