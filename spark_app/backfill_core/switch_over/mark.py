"""Mark of a switch-over: a property of the fenced source, from the decision to flip until the end of the fence.

The mark, the fence and their versions are in one log, and each change is one entry. So a command that was killed at any point, or two
commands at once, find the same answer.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final, Literal, Self, get_args

from backfill_core.errors import SwitchBlockedError
from backfill_core.source_fence.fence import (
    SWITCHING,
    Fenced,
    LogEntry,
    Open,
    Request,
    TableHead,
    held_by,
    lift_entry,
    property_entry,
)
from backfill_core.source_fence.table_protocol import SWITCH, typed_fields

Stage = Literal["Flipping", "Switched", "Undoing"]
OPERATION: Final = "SWITCH"
"""Operation in the table's history."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A switch-over that has passed the point after which only an undo goes back."""

    stage: Stage
    fence_version: int
    """Version of the fence; a copy of the property in another version is no mark."""

    target: str
    """Path of the target."""

    target_version: int
    """Version of the target that equals the source; an undo would lose later commits of other writers."""

    flip: str
    """The flip as the spec describes it, as JSON."""

    previous: str
    """Definition of the name before the flip, as JSON; the flip reads it."""

    state: str
    """State of the job, which leaves the target with the flip."""

    time: str
    """Time of the decision, RFC 3339."""

    def encode(self) -> str:
        """Return the value of the table property."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str) -> Self | None:
        """Parse the value of the table property; `None` if it is not valid."""
        kinds = {name: int if name in ("fence_version", "target_version") else str for name in cls.__dataclass_fields__}
        values = typed_fields(text, kinds)
        return None if values is None or values["stage"] not in get_args(Stage) else cls(**values)


def mark_of(head: TableHead) -> Mark | None:
    """Return the mark of a fenced source; `None` without a fence, or if the property is missing or a copy.

    Raises:
        SwitchBlockedError: the property belongs to this fence and is not readable.
    """
    text = head.properties.get(SWITCH)
    if text is None or not head.protocol.is_fenced or head.fence is None:
        return None
    mark = Mark.decode(text)
    if mark is None:
        raise SwitchBlockedError(
            f"the property {SWITCH} of {head.path} is not readable.",
            hint="A newer release may have written it. Use that release, or lift the fence with `backfill unfence --force`.",
        )
    return mark if mark.fence_version == head.fence.version else None


@dataclass(frozen=True, slots=True)
class Recorded:
    """The source has the mark."""

    mark: Mark


def record_step(head: TableHead, request: Request, mark: Mark, *, before: Mark | None) -> Recorded | LogEntry:
    """Return that the source has a mark, or the log entry that stores it.

    Args:
        head: Newest version of the source.
        request: The request.
        mark: The new mark.
        before: The mark that it replaces; `None` for the first one.

    Raises:
        SourceFencedError: another job holds the fence.
        SwitchBlockedError: the fence is another one, or another command changed the mark.
    """
    stored = mark_of(head)
    fence = held_by(head, request.job) if head.protocol.is_fenced else None
    if fence is not None and stored == mark and fence.version == mark.fence_version:
        return Recorded(mark)
    if fence is None or fence.version != mark.fence_version or stored != before:
        raise _changed(head)
    properties = {**head.properties, SWITCH: mark.encode()}
    return property_entry(head, request, OPERATION, properties, {"job": request.job, "stage": mark.stage})


def check_marked(head: TableHead, mark: Mark) -> None:
    """Refuse a change of the target or of the name by a command that stood still while another one changed the mark.

    Raises:
        SwitchBlockedError: the source has another mark, or none.
    """
    if mark_of(head) != mark:
        raise _changed(head)


def _changed(head: TableHead) -> SwitchBlockedError:
    return SwitchBlockedError(
        f"another command changed the switch-over of {head.path} just now.",
        hint="Run one `backfill switch` at a time; run it again to see its result.",
    )


def lift_step(head: TableHead, request: Request, mark: Mark | None) -> Open | LogEntry:
    """Return that the source has no fence of this job, or the log entry that lifts it and removes the mark.

    Args:
        head: Newest version of the source.
        request: The request.
        mark: The mark that may be removed; a source without a mark is always opened.

    Raises:
        SwitchBlockedError: another command changed the mark, so the name may point to the target.
    """
    if not head.protocol.is_fenced or head.fence is None or head.fence.job != request.job:
        return Open(head.version)
    if mark_of(head) not in (None, mark):
        raise SwitchBlockedError(
            f"{head.path} stays read-only: another command switches it over.",
            hint="Run `backfill switch` again to see its result, or `backfill switch --undo`.",
        )
    return lift_entry(head, request)


def give_up_step(head: TableHead, request: Request, mark: Mark | None) -> Open | Fenced | LogEntry:
    """Return that the source is as before the switch-over, or the log entry that makes it so.

    A fence that a user set with `backfill fence` stays; only the mark leaves.

    Args:
        head: Newest version of the source.
        request: The request.
        mark: The mark that may be removed.

    Raises:
        SwitchBlockedError: another command changed the mark, so the name may point to the target.
    """
    entry = lift_step(head, request, mark)
    if isinstance(entry, Open) or head.fence is None or head.fence.purpose == SWITCHING:
        return entry
    if SWITCH not in head.properties:
        return Fenced(head.fence)
    properties = {name: value for name, value in head.properties.items() if name != SWITCH}
    return property_entry(head, request, OPERATION, properties, {"job": request.job})
