"""Parts of the end of a deleted job, in their order: one row for each policy and state of the source.

deletionPolicy   fence of the source by this job          parts
--------------   --------------------------------------   ------------------------------------
any              of an unfinished flip or undo            Finish; then the row of its result
Retain, Drain    none; of a user; of a completed flip;    EndHold
                 of one that cannot be finished
Retain, Drain    of a switch-over before its decision     GiveUp, EndHold
Release          none                                     EndHold, Release
Release          of a user; of a completed flip           EndHold, Release, Open
Release          of a switch-over before its decision     GiveUp, EndHold, Release
Release          of one that cannot be finished           EndHold; refused
Drop             none                                     EndHold, Drop
Drop             of a switch-over before its decision     GiveUp, EndHold, Drop
Drop             of a user; of a completed flip; of one   EndHold; refused
                 that cannot be finished

A flip that was decided goes forward, and an undo goes back, as the same command of a user would: else a killed driver would leave two
tables that accept no writes. Every part may be repeated, so a killed attempt is followed by one that begins again. The source opens last: an attempt that dies
before it leaves the fence, which names the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backfill_api.spec.end_of_life.deletion import DeletionPolicy
from backfill_core.source_fence.fence import SWITCHING, TableHead
from backfill_core.switch_over.mark import Mark, mark_of
from backfill_core.switch_over.steps import Goal

Part = Literal["Finish", "GiveUp", "EndHold", "Release", "Drop", "Open"]
Standing = Literal["Open", "Fenced", "Switching", "Between", "Stuck", "Switched"]
"""State of the source: without a fence of the job, with one that a user set, with one of a switch-over that decided nothing yet, with
one that is being flipped or undone, with one for which that failed for good, with one whose readers and writers use the target."""


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """Parts of the end of a deleted job, in their order."""

    parts: tuple[Part, ...]
    refused: str = ""
    """Reason why the target is not changed, although the policy requests it; empty if nothing is refused."""


def standing_of(head: TableHead | None, job: str) -> Standing:
    """Return the state of a job's source.

    Args:
        head: Newest version of the source; `None` if it does not exist, or has no log to which a fence can be added.
        job: Id of the job.

    Raises:
        SwitchBlockedError: the mark of a switch-over is not readable.
    """
    if head is None or not head.protocol.is_fenced or head.fence is None or head.fence.job != job:
        return "Open"
    mark = mark_of(head)
    if mark is not None:
        return "Switched" if mark.stage == "Switched" else "Between"
    return "Switching" if head.fence.purpose == SWITCHING else "Fenced"


def finishing(mark: Mark) -> Goal:
    """Return the request that finishes an unfinished flip or undo."""
    return Goal.UNDO if mark.stage == "Undoing" else Goal.SWITCH


def plan_deletion(policy: DeletionPolicy, standing: Standing) -> DeletionPlan:
    """Return the parts of the end of a deleted job."""
    first: tuple[Part, ...] = ("GiveUp", "EndHold") if standing == "Switching" else ("EndHold",)
    match policy, standing:
        case _, "Between":
            return DeletionPlan(("Finish",))
        case "Release", "Stuck":
            return DeletionPlan(first, "a switch-over or its undo is not finished, and the source is read-only")
        case "Release", "Fenced" | "Switched":
            return DeletionPlan((*first, "Release", "Open"))
        case "Release", _:
            return DeletionPlan((*first, "Release"))
        case "Drop", "Fenced" | "Stuck" | "Switched":
            return DeletionPlan(first, "the job fences the source, so readers and writers may use the target already")
        case "Drop", _:
            return DeletionPlan((*first, "Drop"))
    return DeletionPlan(first)
