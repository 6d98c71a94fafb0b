"""Validity of a plan and its approval: they apply only to the planned spec.

`spec.approvedPlan` identifies a plan by itself. `spec.approved` is a single flag, which stays in a manifest through later
edits. So the status records the plan that existed when the flag was first seen.
"""

from __future__ import annotations

import re
from typing import Final

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.inputs.launched_of import launched_of
from backfill_core.lifecycle.observation import DriverPod, SpecRefused

NEVER_BEGAN: Final = "SubmissionFailed"
"""Reason of an attempt whose process could not start, or rejected its settings; it has an exit code, too."""

_HASH: Final = re.compile(r"[0-9a-f]{16}")


def planned_of(spec: BackfillSpec) -> str:
    """Return the name of a spec's plan: the hash of all fields that a plan covers, its limit included."""
    return launched_of(spec, "Plan")


def plan_of_pod(pod: DriverPod, spec: BackfillSpec | SpecRefused) -> str | None:
    """Return the name of the plan that a pod produced; `None` if unknown.

    A pod without a readable label counts as a pod of the current spec. Otherwise its plan would be made again without end.
    """
    if _HASH.fullmatch(pod.launched_of):
        return pod.launched_of
    return None if isinstance(spec, SpecRefused) else planned_of(spec)


def with_approval(status: BackfillStatus, spec: BackfillSpec | SpecRefused) -> BackfillStatus:
    """Return the status with the plan for which `spec.approved` was set; a plan of an earlier version counts as a plan of this spec."""
    if isinstance(spec, SpecRefused):
        return status
    plan_of = None if status.plan is None else status.plan_of or planned_of(spec)
    approved_of = (status.approved_of or plan_of) if spec.approval == "Manual" and spec.approved else None
    if (plan_of, approved_of) == (status.plan_of, status.approved_of):
        return status
    return status.model_copy(update={"plan_of": plan_of, "approved_of": approved_of})


def plan_counts(status: BackfillStatus, spec: BackfillSpec | SpecRefused) -> bool:
    """Return whether a plan of this spec exists."""
    return status.plan is not None and not isinstance(spec, SpecRefused) and status.plan_of == planned_of(spec)


def approved(status: BackfillStatus, spec: BackfillSpec | SpecRefused) -> bool:
    """Return whether a driver may run this spec without further approval. An approval before any plan approves it unseen."""
    if isinstance(spec, SpecRefused) or spec.approval == "Automatic":
        return True
    if spec.approved_plan is not None:
        return spec.approved_plan == planned_of(spec)
    return spec.approved and status.approved_of in (None, planned_of(spec))


def driver_ran(status: BackfillStatus) -> bool:
    """Return whether a driver of this job ran, as far as the status shows. It was then approved, and may have written."""
    last = status.attempt
    ready = last is not None and last.kind == "Run" and last.ready_time is not None
    ended = any(
        past.kind == "Run" and past.exit_code is not None and past.reason != NEVER_BEGAN for past in status.history
    )
    return ready or ended or status.progress is not None
