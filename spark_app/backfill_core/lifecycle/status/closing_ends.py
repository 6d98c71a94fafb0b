"""End of an attempt that closes a deleted job: what it means for the deletion.

end of the attempt                        state of the closing        what follows
---------------------------------------   -------------------------   --------------------------------
Kept, Released, Dropped, Refused          the same                    the object disappears
an error that no retry corrects           Abandoned                   the object disappears
an error that may pass, of the job        Running, one failure more   another attempt, at most three
an error that may pass, of the cluster    Running                     another attempt
stopped, or rejected by a node            Running                     another attempt
"""

from __future__ import annotations

from typing import Final, Literal

from backfill_api.status.ending import Ending
from backfill_api.status.procedure import ClosingRun
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.actions import EventNote
from backfill_core.lifecycle.closing import REMEDY, running
from backfill_core.lifecycle.inputs.procedures import short
from backfill_core.lifecycle.inputs.termination import Termination

CLOSED: Final = "Closed"
ENDS: Final = ("Kept", "Released", "Dropped", "Refused")
EVENTS: Final[dict[str, tuple[Literal["Normal", "Warning"], str]]] = {
    "Running": ("Normal", "Closing"), "Kept": ("Normal", CLOSED), "Released": ("Normal", CLOSED),
    "Dropped": ("Normal", CLOSED), "Refused": ("Warning", "DropRefused"), "Abandoned": ("Warning", "ClosingAbandoned"),
    "Skipped": ("Warning", "ClosingSkipped"),
}  # fmt: skip
"""Type and reason of the event about each state."""


def closing_termination(ending: Ending | None, termination: Termination) -> Termination:
    """Return the end of the attempt as it counts for the job."""
    if _end_of(ending):
        return Termination("Stopped", CLOSED, "", termination.exit_code)
    if termination.outcome in ("Complete", "Planned"):
        message = "the driver did not report the end of the job"
        return Termination("Retry", "Unexpected", message, termination.exit_code)
    return termination


def with_closing_end(status: BackfillStatus, ending: Ending | None, termination: Termination) -> BackfillStatus:
    """Return the status with the end of an attempt; one that is not the last stays `Running`."""
    run, counted = running(status), closing_termination(ending, termination)
    if run is None or counted.outcome == "Rejected":
        return status
    end = _end_of(ending)
    update: dict[str, object] = {"reason": counted.reason, "message": short(counted.message)}
    if end and ending is not None:
        update = {"state": end, "reason": end, "message": short(f"{ending.message} {ending.hint}".strip())}
    elif counted.outcome == "Final":
        update |= {"state": "Abandoned", "message": short(f"{counted.reason}: {counted.message} {REMEDY}")}
    elif counted.outcome == "Retry" and counted.counts:
        update["failures"] = run.failures + 1
    return status.model_copy(update={"closing": run.model_copy(update=update)})


def closing_events(before: BackfillStatus, after: BackfillStatus) -> tuple[EventNote, ...]:
    """Return an event for each change of the state of the closing."""
    old, new = before.closing, after.closing
    if new is None or (old is not None and old.state == new.state):
        return ()
    kind, reason = EVENTS[new.state]
    return (EventNote(kind, reason, new.message or _described(new)),)


def _described(run: ClosingRun) -> str:
    return "a last driver does what deletionPolicy asks for" if run.state == "Running" else ""


def _end_of(ending: Ending | None) -> str:
    detail = None if ending is None else ending.procedure
    return "" if detail is None or detail.kind != "Close" or detail.end not in ENDS else detail.end
