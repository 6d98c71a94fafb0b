"""End of a deleted job: whether its `deletionPolicy` asks for an attempt of a driver, and when that is given up.

deletionPolicy    job                                        an attempt closes it
---------------   ----------------------------------------   --------------------
any               no driver of it ran, or `spec` is refused  no
Immediate         any                                        no
Retain, Drain     extends the source's retention, and did    yes
                  not give it back by its own end
Retain, Drain     its switch-over or undo is not finished,   yes
                  so a table may be read-only
Retain, Drain     any other                                  no
Release, Drop     any                                        yes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from backfill_api.names import SKIP_CLOSING_ANNOTATION
from backfill_api.status.procedure import ClosingRun
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.inputs.approval import driver_ran
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.procedures import may_refuse_writes
from backfill_core.lifecycle.observation import SpecRefused

CLOSING_MS: Final = 1_800_000
"""Time from the start of the end of a deleted job until it is given up: no deletion waits for ever."""

FAILURES_MAX: Final = 3
"""Failed attempts after which it is given up."""

FOREGROUND: Final = "foregroundDeletion"
"""Finalizer of an object whose dependents are deleted first, so that a driver that it owns would be deleted too."""

REMEDY: Final = "Sources and targets stay as they are: `backfill release --force` or `backfill drop --force` with a file of this job ends it"


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The end of a deleted job that is not attempted any more."""

    state: Literal["Skipped", "Abandoned"]
    message: str


def running(status: BackfillStatus) -> ClosingRun | None:
    """Return the end of a deleted job that is under way; `None` if there is none."""
    return status.closing if status.closing is not None and status.closing.state == "Running" else None


def is_closing(context: Context) -> bool:
    """Return whether the attempt in flight closes a deleted job."""
    return context.attempt is not None and context.attempt.procedure == "Close"


def must_close(context: Context) -> bool:
    """Return whether the deletion of the job needs an attempt, or has begun one."""
    spec, status = context.observation.spec, context.status
    if status.closing is not None:
        return running(status) is not None
    if isinstance(spec, SpecRefused) or spec.deletion_policy == "Immediate" or not driver_ran(status):
        return False
    if spec.deletion_policy in ("Release", "Drop") or may_refuse_writes(status):
        return True
    # The last attempt of a job gives the retention back; after a switch-over, there is no such attempt.
    ended = context.finished is not None and context.finished.type == "Complete" and status.switch is None
    return spec.source.params.extends_retention and not ended


def keeps_finalizer(context: Context) -> bool:
    """Return whether a job without a driver must hold its object, because a later deletion needs an attempt."""
    return must_close(context) and not namespace_ends(context)


def namespace_ends(context: Context) -> bool:
    """Return whether the API server refused the attempt because the namespace is being deleted."""
    failed, attempt = context.observation.launch_failed, context.attempt
    return failed is not None and attempt is not None and failed.attempt == attempt.number and failed.namespace_ends


def given_up(context: Context) -> GivenUp | None:
    """Return why the end of a deleted job is not attempted any more; `None` if it may be."""
    if context.observation.annotations.get(SKIP_CLOSING_ANNOTATION):
        return GivenUp("Skipped", f"the annotation {SKIP_CLOSING_ANNOTATION} is set. {REMEDY}")
    run = running(context.status)
    last = "" if run is None or not run.message else f"; the last one: {run.reason}: {run.message}"
    if not context.observation.recordable:
        why = "the status cannot be written"
    elif namespace_ends(context):
        why = "the namespace is being deleted, so no driver can start"
    elif run is not None and run.failures >= FAILURES_MAX:
        why = f"{run.failures} attempts failed{last}"
    elif run is not None and closing_left_ms(context, run) <= 0:
        why = f"it took longer than {CLOSING_MS // 60_000} minutes{last}"
    else:
        return None
    return GivenUp("Abandoned", f"{why}. {REMEDY}")


def closing_left_ms(context: Context, run: ClosingRun) -> int:
    """Return the milliseconds until the end of a deleted job is given up."""
    return context.left_ms(run.start, CLOSING_MS)


def detached(context: Context) -> bool:
    """Return whether the objects of the next attempt must have no owner, so that no garbage collector deletes them with the job."""
    return context.observation.deletion_ms is not None and FOREGROUND in context.observation.finalizers
