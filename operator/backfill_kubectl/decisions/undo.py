"""The command that undoes a change, with the values that held before."""

from __future__ import annotations

from backfill_console.commands.acknowledgements import undo_arguments
from backfill_kubectl.decisions.acknowledgement import COMMAND_OF, controls_of, shown_controls
from backfill_kubectl.decisions.changes import Change, Pause, Rescale, Resume, Suspend, Throttle, Unsuspend
from backfill_kubectl.decisions.stored import StoredBackfill


def undo_of(change: Change, before: StoredBackfill, now_ms: int) -> str:
    """Return the arguments after the program's name; empty if the change cannot be undone."""
    arguments: tuple[str, ...]
    match change:
        case Pause() | Resume() | Throttle() | Rescale():
            arguments = undo_arguments(COMMAND_OF[type(change)], shown_controls(change, controls_of(before, now_ms)))
        case Suspend():
            arguments = ("unsuspend",)
        case Unsuspend():
            arguments = ("suspend",)
        case _:
            arguments = ()
    return " ".join([arguments[0], before.name, *arguments[1:], "-n", before.namespace]) if arguments else ""
