"""Decides from a status whether a switch-over or a repair has ended, and describes its result."""

from __future__ import annotations

from typing import Final

from backfill_api.status.procedure import RepairRun, SwitchRun
from backfill_kubectl.decisions.changes import InForce, Recorded, Rejected, RepairTarget, SwitchOver, Waiting
from backfill_kubectl.decisions.stored import StoredBackfill

TOKENS: Final = {"Switch": "switch_token", "Undo": "switch_undo_token", "Complete": "switch_complete_token"}


def procedure_answer(
    change: SwitchOver | RepairTarget, token: str, now: StoredBackfill, *, silence: str
) -> Waiting | InForce | Recorded | Rejected:
    """Return the result of a procedure, or the reason for the wait.

    Args:
        change: The procedure.
        token: Value of its annotation.
        now: The current object.
        silence: Likely reason for an operator that does not answer.
    """
    control, is_switch = now.status.control, isinstance(change, SwitchOver)
    field = TOKENS[change.goal] if isinstance(change, SwitchOver) else "repair_token"
    if control is None or getattr(control, field) != token:
        return _unread(now, silence)
    run: SwitchRun | RepairRun | None = now.status.switch if is_switch else now.status.repair
    condition = now.condition("Switched" if is_switch else "Repaired")
    if run is None:
        return Waiting("the operator has not begun it")
    if run.state == "Running":
        why = "" if condition is None else condition.message
        return Waiting(f"{now.status.phase or 'Pending'}: {why or 'the driver makes room for it'}")
    if run.state in ("Refused", "Interrupted"):
        return Rejected(f"{run.reason}: {run.message}", f"See `kubectl backfill get {now.key}`.")
    return InForce(_result(run))


def _unread(now: StoredBackfill, silence: str) -> Waiting | Recorded:
    """Return why a procedure has not begun."""
    switched = now.condition("Switched")
    if switched is not None and switched.reason == "WaitingForCatchUp":
        return Waiting(switched.message)
    if now.holds("Suspended"):
        return Recorded("Suspended: it begins after the suspension, once the driver runs")
    if now.holds("Failed"):
        return Recorded("Failed: it begins after the job runs again")
    return Waiting(silence)


def _result(run: SwitchRun | RepairRun) -> str:
    if isinstance(run, RepairRun):
        if run.state == "Equal":
            return "source and target are equal: nothing to repair"
        rows = f"rows: {run.rows_inserted:,} inserted, {run.rows_updated:,} updated, {run.rows_deleted:,} deleted"
        return f"repaired in version {run.version}: {rows}; {run.files_removed:,} files of the target replaced"
    at = "" if run.version is None else f" at version {run.version}"
    refused = "" if run.unavailable_ms is None else f"; writers were refused for {run.unavailable_ms / 1000:.1f} s"
    match run.state:
        case "Switched":
            source = "follows it" if run.copy_back == "Running" else f"stands still{at}"
            return f"switched: readers and writers use the target, the source {source}{refused}"
        case "Undone":
            return "undone: readers and writers use the source, and the job follows it"
    return "completed: the source accepts writes again; there is no undo"
