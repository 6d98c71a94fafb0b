"""What a plan and its approval count for: the spec that was planned, and no other one.

`spec.approvedPlan` names a plan, so it says that itself. `spec.approved` is one word, which stays in a manifest through later
edits: the status keeps which plan there was when it was seen first.
"""

from __future__ import annotations

import re
from typing import Final

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.inputs.launched_of import launched_of
from backfill_core.lifecycle.observation import DriverPod, SpecRefused

NEVER_BEGAN: Final = "SubmissionFailed"
"""Why an attempt ended whose process could not begin, or refused its settings; it has an exit code, too."""

_HASH: Final = re.compile(r"[0-9a-f]{16}")


def planned_of(spec: BackfillSpec) -> str:
    """Return the name of a spec's plan: the hash of all that a plan is about, its limit included."""
    return launched_of(spec, "Plan")


def plan_of_pod(pod: DriverPod, spec: BackfillSpec | SpecRefused) -> str | None:
    """Return what the plan is of that a pod left; None: not known.

    A pod without a readable label counts as one of the spec that is seen now: else its plan would be made without end.
    """
    if _HASH.fullmatch(pod.launched_of):
        return pod.launched_of
    return None if isinstance(spec, SpecRefused) else planned_of(spec)


def with_approval(status: BackfillStatus, spec: BackfillSpec | SpecRefused) -> BackfillStatus:
    """Return the status with the plan that `spec.approved` was set for; a plan of an earlier version is one of this spec."""
    if isinstance(spec, SpecRefused):
        return status
    plan_of = None if status.plan is None else status.plan_of or planned_of(spec)
    approved_of = (status.approved_of or plan_of) if spec.approval == "Manual" and spec.approved else None
    if (plan_of, approved_of) == (status.plan_of, status.approved_of):
        return status
    return status.model_copy(update={"plan_of": plan_of, "approved_of": approved_of})


def plan_counts(status: BackfillStatus, spec: BackfillSpec | SpecRefused) -> bool:
    """Is there a plan, and is it one of this spec?"""
    return status.plan is not None and not isinstance(spec, SpecRefused) and status.plan_of == planned_of(spec)


def approved(status: BackfillStatus, spec: BackfillSpec | SpecRefused) -> bool:
    """May a driver run this spec without another word of a person? Who approved before there was a plan approved unseen."""
    if isinstance(spec, SpecRefused) or spec.approval == "Automatic":
        return True
    if spec.approved_plan is not None:
        return spec.approved_plan == planned_of(spec)
    return spec.approved and status.approved_of in (None, planned_of(spec))


def driver_ran(status: BackfillStatus) -> bool:
    """Did a driver of this job run, as far as the status knows? Then it was approved, and may have written."""
    last = status.attempt
    ready = last is not None and last.kind == "Run" and last.ready_time is not None
    ended = any(one.kind == "Run" and one.exit_code is not None and one.reason != NEVER_BEGAN for one in status.history)
    return ready or ended or status.progress is not None
