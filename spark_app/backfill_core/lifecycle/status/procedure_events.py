"""Events about switch-overs and repairs: their begin, their end and their refusal."""

from __future__ import annotations

from typing import Literal

from backfill_api.status.procedure import RepairRun, SwitchRun
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.actions import EventNote

BAD = ("Refused", "Interrupted")


def procedure_events(before: BackfillStatus, after: BackfillStatus) -> tuple[EventNote, ...]:
    """Return an event for each change of the state of a switch-over or a repair."""
    notes = (
        _note("Switch", before.switch, after.switch), _copy_back_note(before.switch, after.switch),
        _note("Repair", before.repair, after.repair),
    )  # fmt: skip
    return tuple(note for note in notes if note is not None)


def _note(name: str, old: SwitchRun | RepairRun | None, new: SwitchRun | RepairRun | None) -> EventNote | None:
    if new is None or (old is not None and (old.start, old.state) == (new.start, new.state)):
        return None
    kind: Literal["Normal", "Warning"] = "Warning" if new.state in BAD else "Normal"
    return EventNote(kind, f"{name}{new.state}", new.message or _described(new))


def _copy_back_note(old: SwitchRun | None, new: SwitchRun | None) -> EventNote | None:
    """Return the event about a source that does not follow the target any more."""
    if old is None or new is None or (old.copy_back, new.copy_back) != ("Running", "Ended"):
        return None
    return EventNote("Warning", "CopyBackEnded", new.message or "the source does not follow the target any more")


def _described(run: SwitchRun | RepairRun) -> str:
    if isinstance(run, RepairRun):
        if run.state != "Repaired":
            compared = f"the target is compared with the source{_claimed(run)}"
            return "source and target are equal" if run.state == "Equal" else compared
        rows = f"{run.rows_inserted} inserted, {run.rows_updated} updated, {run.rows_deleted} deleted"
        return f"version {run.version}: rows: {rows}; {run.files_copied} files copied, {run.files_removed} removed"
    at = "" if run.version is None else f" at version {run.version}"
    match run.state:
        case "Switched":
            follows = run.copy_back == "Running"
            return f"readers and writers use the target; the source {'follows it' if follows else f'stands still{at}'}"
        case "Undone":
            return "readers and writers use the source again"
        case "Completed":
            return "the source accepts writes again; there is no undo"
    return f"{run.goal} begins{_claimed(run)}"


def _claimed(run: SwitchRun | RepairRun) -> str:
    """Return who requested a procedure, and why; empty without a claim."""
    if not (run.by or run.note):
        return ""
    return f", requested by {run.by or 'an unnamed author'}{f': {run.note}' if run.note else ''}"
