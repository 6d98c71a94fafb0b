"""What the operator says about a Backfill. No defaults but one: what is absent was not observed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from backfill_api.bounds import Moment
from backfill_api.conditions import Condition, Phase
from backfill_api.model import Model
from backfill_api.plan import Plan, PlanWarning
from backfill_api.progress import Progress, ProgressSummary
from backfill_api.receipt import Receipt, ReceiptSummary

__all__ = [
    "Attempt", "BackfillStatus", "Condition", "Control", "PastAttempt", "Phase", "Plan", "PlanWarning", "Progress",
    "ProgressSummary", "Receipt", "ReceiptSummary",
]  # fmt: skip

HISTORY_MAX = 5

PodName = Annotated[str, Field(max_length=253)]


class Attempt(Model):
    """The current attempt; written before its pod is made."""

    number: int
    """1 for the first."""

    state: Literal["Planned", "Created"]
    """`Planned`: the pod may or may not be there. `Created`: it was."""

    pod_name: PodName | None = None
    """The driver pod."""

    pod_uid: Annotated[str, Field(max_length=64)] | None = None
    """Its identity; a pod of the same name with another one is not ours."""

    start_time: Moment | None = None
    """When the attempt was planned, RFC 3339."""


class Control(Model):
    """What was commanded, and what the driver confirmed."""

    desired_revision: int = 0
    """Newest command."""

    acked_revision: int = 0
    """Newest command that the driver confirmed after a seal."""

    epoch: int = 0
    """Barrier of that seal."""

    last_ack_time: Moment | None = None
    """When, RFC 3339."""


class PastAttempt(Model):
    """An attempt that ended."""

    number: int
    """1 for the first."""

    start: Moment | None = None
    """When it was planned, RFC 3339."""

    end: Moment | None = None
    """When it ended, RFC 3339."""

    reason: Annotated[str, Field(max_length=64)] = ""
    """Why, in one CamelCase word."""

    exit_code: int | None = None
    """What the driver process ended with; absent: not known."""


class BackfillStatus(Model):
    """What was observed; written by the operator only."""

    observed_generation: int = -1
    """Generation of the spec that this status is about; -1: none yet."""

    phase: Phase | None = None
    """The conditions in one word, for people."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=32)] = ()
    """What holds, and why."""

    start_time: Moment | None = None
    """When the first attempt was planned, RFC 3339."""

    completion_time: Moment | None = None
    """When the job ended, RFC 3339."""

    attempts: int = 0
    """Attempts so far."""

    attempt: Attempt | None = None
    """The current attempt."""

    control: Control | None = None
    """What was commanded, and what the driver confirmed."""

    plan: Plan | None = None
    """What would happen, or was about to."""

    progress: ProgressSummary | None = None
    """How far the job is."""

    receipt: ReceiptSummary | None = None
    """The newest proof."""

    history: Annotated[tuple[PastAttempt, ...], Field(max_length=HISTORY_MAX)] = ()
    """The last attempts that ended, oldest first."""
