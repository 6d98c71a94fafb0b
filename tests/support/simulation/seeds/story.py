"""A world as a story: numbered lines of the actions of source, user and driver, and the oracle's finding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from support.simulation.tables import Commit

from backfill_core.protocol.actions import Acknowledge, CancelWork, Finish, PollSource, Seal, StartWork
from backfill_core.protocol.events import SourcePolled, WorkCancelled, WorkFailed

ROWS_SHOWN_MAX = 8
LOOKS = "driver: sees the source"
TIME_WIDTH = 9
SHORT = 60
"""Maximum characters of a field that is shown."""


def describe(what: object) -> str:
    """Describe an event; return an empty string if it is of no interest."""
    match what:
        case str():
            return what
        case StartWork(work=work):
            return f"driver: work {work.work_id} starts: {shown(work)}"
        case CancelWork(work_id=work_id):
            return f"driver: work {work_id} is cancelled"
        case Seal(epoch=epoch, files=files, removed=removed, fences=fences):
            held = f"{sum(file.rows for file in files)} rows" if files else "no rows"
            held += f", and without {', '.join(file.path for file in removed)}" if removed else ""
            return f"driver: commits epoch {epoch} with {held}{', as its fence' if fences else ''}"
        case Acknowledge(revision=revision, outcome=outcome):
            return f"driver: answers command {revision}: {outcome}"
        case PollSource():
            return ""
        case Finish(outcome=outcome, error=error):
            return f"driver: ends, {outcome}{'' if error is None else f': {error}'}"
        case SourcePolled(head=head):
            return f"{LOOKS} at {shown(head)}"
        case WorkFailed(work_id=work_id, error=error):
            return f"work {work_id} fails: {error}"
        case WorkCancelled(work_id=work_id):
            return f"work {work_id} has ended before its end"
        case Commit(version=version, kind=kind, rows=rows):
            return f"target: version {version} ({kind}) holds {rows.total()} rows{_some(rows.elements())}"
        case _:
            return shown(what)


def shown(value: object) -> str:
    """Return the name of a value with its short fields."""
    if not hasattr(value, "__dataclass_fields__"):
        return str(value)
    named = [(field.name, str(getattr(value, field.name))) for field in fields(value) if field.name != "work_id"]
    return f"{type(value).__name__}({', '.join(f'{name} {text}' for name, text in named if len(text) <= SHORT)})"


def _some(rows: Iterable[object]) -> str:
    """Return the rows, if they are few."""
    listed = sorted(rows, key=str)
    return f": {', '.join(map(str, listed))}" if 0 < len(listed) <= ROWS_SHOWN_MAX else ""


def story(history: Iterable[str], law: str) -> list[str]:
    """Return numbered lines that end with the oracle's finding; a poll of the source without news is left out."""
    kept: list[str] = []
    seen = ""
    for line in history:
        message = line[TIME_WIDTH:]
        if message.startswith(LOOKS) and message == seen:
            continue
        seen = message if message.startswith(LOOKS) else seen
        kept.append(line.strip())
    return [f"{number:4d}. {line}" for number, line in enumerate([*kept, f"oracle: {law}"], start=1)]
