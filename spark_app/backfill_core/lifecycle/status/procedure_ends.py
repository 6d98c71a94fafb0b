"""End of an attempt that performed a procedure: what it means for the procedure, and for the job.

end of a switch-over      table in use    what follows
-----------------------   -------------   -----------------------------------------------------------------------------
Switched                  Target          the job is complete
Completed                 Released        the job is complete
Undone                    Source          an ordinary attempt
Refused, Nothing          as before       an ordinary attempt; nothing if the target is in use
Switched, copies back     Target          an attempt that copies back
Interrupted               Between         an error that may pass: the same procedure again; another one: the job is failed
none: the driver died     as before       the same procedure again

A copy back that another command or an edit of `keepSource` ended, or that is not possible any more, leaves the job complete, and the target in use. An error that may
pass, or a lost driver, is followed by another attempt; after any other error the job is failed, and a restart continues. If an undo or
an end was requested meanwhile, it begins after any end of the copy back. The end of a deleted job: `closing_ends`. A repair that ended is
followed by an ordinary attempt, or by nothing if the job is complete.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from backfill_api.status.ending import Ending
from backfill_api.status.procedure import Place, ProcedureEnd, ProcedureKind, SwitchRun
from backfill_api.status.status import Attempt, BackfillStatus
from backfill_core.errors import ReverseEndedError
from backfill_core.lifecycle.inputs.procedures import copies_back, procedure_of, short
from backfill_core.lifecycle.inputs.termination import Termination
from backfill_core.lifecycle.status.closing_ends import closing_termination, with_closing_end

COPY_BACK_ENDED: Final = "CopyBackEnded"
NOT_FOLLOWING: Final = "spec.switch.keepSource was edited, so the source stays at the last copied version of the target"
REACHED: Final = {"Switch": ("Switched", "Completed"), "Undo": ("Undone",), "Complete": ("Completed",)}
"""Ends at which each request has reached its goal."""

SWITCH_REFUSED, REPAIR_REFUSED = "SwitchRefused", "RepairRefused"


def with_step(status: BackfillStatus, attempt: Attempt, step: str) -> BackfillStatus:
    """Return the status with the step that the driver of a switch-over reports."""
    run = status.switch
    if attempt.procedure in (None, "Repair", "Close") or run is None or not step:
        return status
    return status.model_copy(update={"switch": run.model_copy(update={"step": step[:64]})})


def termination_of(
    status: BackfillStatus, attempt: Attempt, ending: Ending | None, termination: Termination
) -> Termination:
    """Return the end of an attempt as it counts for the job: a refused procedure is no failure of the job."""
    kind = attempt.procedure
    if kind is None or termination.outcome == "Rejected":
        return termination
    if kind == "Close":
        return closing_termination(ending, termination)
    if kind == "FollowBack":
        if procedure_of(status) != "FollowBack":
            # It stopped for an undo or an end, which begins whatever this attempt met meanwhile.
            return Termination("Stopped", "Switching", exit_code=termination.exit_code)
        return replace(termination, outcome="Complete") if _ends_copy_back(termination) else termination
    code, end = termination.exit_code, _end_of(status, kind, ending, termination)
    if not end and termination.outcome in ("Complete", "Planned"):
        return Termination("Retry", "Unexpected", "the driver did not report the end of the procedure", code)
    place = "Source" if status.switch is None else status.switch.place
    match end:
        case "Switched" if copies_back(with_end(status, attempt, ending, termination, "")):
            return Termination("Stopped", end, exit_code=code)
        case "Switched" | "Completed":
            return Termination("Complete", end, exit_code=code)
        case "Undone":
            return Termination("Stopped", end, exit_code=code)
        case "Repaired" | "Equal":
            complete = ending is not None and ending.outcome == "Complete"
            return Termination("Complete" if complete else "Stopped", "Repaired", exit_code=code)
        case "Refused" if kind == "Repair":
            return Termination("Stopped", REPAIR_REFUSED, termination.message, code)
        case "Refused" if place == "Source" or copies_back(status):
            return Termination("Stopped", SWITCH_REFUSED, termination.message, code)
        case "Refused" if place in ("Target", "Released"):
            return Termination("Complete", SWITCH_REFUSED, termination.message, code)
        case "Refused" | "Interrupted":
            return Termination("Final", termination.reason, termination.message, code)
    return termination


def with_end(
    status: BackfillStatus, attempt: Attempt, ending: Ending | None, termination: Termination, timestamp: str
) -> BackfillStatus:
    """Return the status with the end of a procedure's attempt; a procedure that is not over stays `Running`."""
    kind = attempt.procedure
    if kind == "Close":
        return with_closing_end(status, ending, termination)
    if kind == "FollowBack":
        return _with_copy_back(status, ending, termination)
    run = status.repair if kind == "Repair" else status.switch
    if kind is None or run is None or termination.outcome == "Rejected":
        return status
    end, detail = _end_of(status, kind, ending, termination), None if ending is None else ending.procedure
    if kind == "Repair":
        return _with_repair(status, end, detail, termination, timestamp)
    return _with_switch(status, end, detail, termination, timestamp)


def _end_of(status: BackfillStatus, kind: ProcedureKind, ending: Ending | None, termination: Termination) -> str:
    """Return the end of a procedure; empty if another attempt continues it."""
    detail, run = None if ending is None else ending.procedure, status.switch
    end = "" if detail is None or detail.kind != kind else detail.end
    if end in ("Switched", "Undone", "Completed", "Repaired", "Equal"):
        return end
    if end == "Nothing" and run is not None and (by_another := _ended_before(run, kind, detail)):
        return by_another
    if end == "Following" and termination.outcome == "Complete":
        return "Undone"  # only a fence was there to undo
    if termination.outcome == "Stopped":
        return ""  # the driver was asked to stop: the next one begins again
    if end in ("Following", "Refused", "Nothing"):
        # What a repair meets may pass; a switch-over refuses writes, so it is not tried again by itself.
        return "" if kind == "Repair" and termination.outcome == "Retry" else "Refused"
    if termination.outcome != "Final":
        return ""
    if kind == "Repair":
        return "Refused"
    # Without a report, only the first attempt is known to have changed nothing.
    untouched = end == "" and run is not None and run.attempts == 0
    return "Refused" if untouched else "Interrupted"


def _ended_before(run: SwitchRun, kind: ProcedureKind, detail: ProcedureEnd | None) -> str:
    """Return the end of a switch-over that an undo or a completion no longer finds; empty if there was none.

    A command on a machine ended it, or an attempt whose report was lost.
    """
    if not (run.attempts or run.place in ("Between", "Target")):
        return ""
    if detail is not None and detail.has_state is not None:
        return "Undone" if detail.has_state else "Completed"
    # The driver is of an earlier version.
    if run.attempts:
        return "Undone" if kind == "UndoSwitch" else "Completed"
    return "Completed" if kind == "CompleteSwitch" and run.place == "Target" else ""


def _with_switch(
    status: BackfillStatus, end: str, detail: ProcedureEnd | None, termination: Termination, timestamp: str
) -> BackfillStatus:
    run = status.switch
    assert run is not None
    place: Place = run.place
    if end in ("Switched", "Completed"):
        place = "Target" if end == "Switched" else "Released"
    elif end == "Undone":
        place = "Source"
    elif end == "Interrupted" or (detail is not None and detail.end == "Interrupted"):
        place = "Between"
    good, over = end in ("Switched", "Undone", "Completed"), end not in ("", "Interrupted")
    state, goal = end or "Running", run.goal
    if good and end not in REACHED[goal]:
        # Others wrote to the target, so an undo flipped the name to it again; or another command came first.
        state, good = "Refused", False
    if end == "Refused" and place == "Between":
        state, over, goal = "Interrupted", False, "Switch"
    gave_up = (
        not end and detail is not None and detail.end == "Following"
    )  # no table is read-only, as before the first attempt
    copies = "Running" if detail is not None and detail.copies_back else run.copy_back
    version = run.version if detail is None or detail.version is None else detail.version
    update = {
        "state": state, "goal": goal, "place": place, "end": timestamp if over else None, "attempts": 0 if gave_up else run.attempts + 1,
        "reason": end if good else termination.reason, "message": "" if good else short(termination.message),
        "copy_back": copies if place in ("Between", "Target") else "", "version": version, "unavailable_ms": run.unavailable_ms if detail is None else detail.unavailable_ms,
    }  # fmt: skip
    return status.model_copy(update={"switch": run.model_copy(update=update)})


def _ends_copy_back(termination: Termination) -> bool:
    return termination.outcome == "Complete" or (
        termination.outcome == "Final" and termination.reason == ReverseEndedError.reason
    )


def _with_copy_back(status: BackfillStatus, ending: Ending | None, termination: Termination) -> BackfillStatus:
    """Return the status after an attempt that copied back; only an end for good is shown.

    Another command may have ended it, and only the driver's message says which.
    """
    run = status.switch
    if run is None or not _ends_copy_back(termination):
        return status
    reason, message = termination.reason, termination.message
    if termination.outcome == "Complete":
        reason, message = COPY_BACK_ENDED, "" if ending is None else ending.message
    update = {"copy_back": "Ended", "reason": reason, "message": short(message)}
    return status.model_copy(update={"switch": run.model_copy(update=update)})


def with_copy_back_unwanted(status: BackfillStatus) -> BackfillStatus:
    """Return the status of a switch-over whose source must not follow the target any more, because the spec was edited."""
    if status.switch is None:
        return status
    update = {"copy_back": "Ended", "reason": "SpecChanged", "message": NOT_FOLLOWING}
    return status.model_copy(update={"switch": status.switch.model_copy(update=update)})


def _with_repair(
    status: BackfillStatus, end: str, detail: ProcedureEnd | None, termination: Termination, timestamp: str
) -> BackfillStatus:
    run = status.repair
    assert run is not None
    if end in ("Repaired", "Equal"):
        assert detail is not None
        counts = ("version", "rows_inserted", "rows_updated", "rows_deleted", "files_copied", "files_removed")
        update: dict[str, object] = {name: getattr(detail, name) for name in counts}
        update |= {"state": end, "end": timestamp, "reason": "Repaired", "message": ""}
    else:
        update = {"reason": termination.reason, "message": short(termination.message)}
        update |= {"state": "Refused", "end": timestamp} if end else {}
    return status.model_copy(update={"repair": run.model_copy(update=update)})
