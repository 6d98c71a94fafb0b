"""Procedures of a job: a switch-over, its undo and its end, a repair, and its end. Each one is done by attempts of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from backfill_api.model import Model
from backfill_api.spec.bounds import By, Count, Message, Moment, Note

ProcedureKind = Literal["Switch", "UndoSwitch", "CompleteSwitch", "FollowBack", "Repair", "Close"]
Place = Literal["Source", "Between", "Target", "Released"]
Word = Annotated[str, Field(max_length=64)]


class ProcedureEnd(Model):
    """End of a procedure, as its driver reports it."""

    kind: ProcedureKind
    """The procedure."""

    end: Word
    """Of a switch-over: Refused, Nothing (there is none to undo or to complete), Following, Switched, Undone, Completed or Interrupted;
    of the copy back after it: Ended; of a repair: Repaired or Equal; of the end of a deleted job: Kept, Released, Dropped or Refused."""

    version: Count | None = None
    """Version of the source at which it stands still, or of the target that contains the repair; absent: none."""

    unavailable_ms: Count | None = None
    """Milliseconds for which no table accepted writes; absent: this attempt did not switch."""

    copies_back: bool = False
    """True if the source follows the target after this switch-over, so that another attempt copies back."""

    has_state: bool | None = None
    """Of the end Nothing: true if the target has the job's state, so that the job follows the source; false if it has replaced the source;
    absent: neither, another end, or an earlier driver."""

    rows_inserted: Count = 0
    """Rows that a repair added."""

    rows_updated: Count = 0
    """Rows that a repair changed."""

    rows_deleted: Count = 0
    """Rows that a repair removed."""

    files_copied: Count = 0
    """Files that a repair copied again."""

    files_removed: Count = 0
    """Files of the target that a repair replaced or removed."""


class SwitchRun(Model):
    """The newest switch-over, undo of one, or end of one."""

    goal: Literal["Switch", "Undo", "Complete"]
    """What was requested."""

    state: Word
    """`Running`, `Switched`, `Undone`, `Completed`, `Refused` (it began nothing, or gave up), or `Interrupted` (a user must act)."""

    place: Place = "Source"
    """The table that readers and writers use. `Between`: a switch-over or its undo is not finished, and the source is read-only.
    `Released`: the target, and there is no undo."""

    copy_back: Literal["", "Running", "Ended"] = ""
    """With `keepSource: Following`: `Running` while attempts copy the target's changes to the source; `Ended` if that is not possible or not wanted any more."""

    automatic: bool = False
    """True if `spec.switch.when: WhenVerified` requested it."""

    by: By = ""
    """Author of the request, as the annotation `backfill.dev/changed-by` claims; empty: no claim. The audit log of the API server is the proof."""

    note: Note = ""
    """Reason in that annotation."""

    start: Moment
    """Time of the request's start, RFC 3339."""

    end: Moment | None = None
    """End, RFC 3339; absent while it runs or is interrupted."""

    step: Word = ""
    """Step that the driver reported last, such as Draining."""

    attempts: Count = 0
    """Attempts of it that ended, since the last one that gave up for a suspension."""

    reason: Word = ""
    """Reason of its end, or of the last failure."""

    message: Message = ""
    """Message for users, with the remedy."""

    version: Count | None = None
    """Version of the source at which it stands still; absent: not known."""

    unavailable_ms: Count | None = None
    """Milliseconds for which no table accepted writes; absent: not known."""

    receipt_at: Moment | None = None
    """Time of the receipt that an automatic switch-over relied on; after a refusal it needs a newer one."""


class RepairRun(Model):
    """The newest repair of the target."""

    state: Word
    """`Running`, `Repaired`, `Equal` (there was nothing to repair) or `Refused`."""

    by: By = ""
    """Author of the request, as the annotation `backfill.dev/changed-by` claims; empty: no claim. The audit log of the API server is the proof."""

    note: Note = ""
    """Reason in that annotation."""

    start: Moment
    """Time of the request's start, RFC 3339."""

    end: Moment | None = None
    """End, RFC 3339; absent while it runs."""

    reason: Word = ""
    """Reason of its end."""

    message: Message = ""
    """Message for users, with the remedy."""

    version: Count | None = None
    """Version of the target that contains the repair; absent: nothing was repaired."""

    rows_inserted: Count = 0
    """Rows that were added."""

    rows_updated: Count = 0
    """Rows that were changed."""

    rows_deleted: Count = 0
    """Rows that were removed."""

    files_copied: Count = 0
    """Files that were copied again."""

    files_removed: Count = 0
    """Files of the target that were replaced or removed."""


class ClosingRun(Model):
    """The end of a deleted job, as its `deletionPolicy` asks for."""

    state: Word
    """`Running`, `Kept`, `Released`, `Dropped`, `Refused` (the target may not be dropped), `Abandoned` or `Skipped`."""

    start: Moment
    """Time of its start, RFC 3339; half an hour later it is given up."""

    failures: Count = 0
    """Attempts of it that failed; after the third it is given up."""

    reason: Word = ""
    """Reason of its end, or of the last failure."""

    message: Message = ""
    """Message for users, with the remedy."""
