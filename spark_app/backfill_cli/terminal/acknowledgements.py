"""Answers to commands: the new state, and the command that undoes it."""

from __future__ import annotations

from backfill_api.amounts import counted, show_seconds
from backfill_api.status.progress import Progress
from backfill_api.wire import Command, PauseCommand, ThrottleCommand
from backfill_console.formatting import format_limit, format_rate, show_rows


def describe_effect(command: Command, progress: Progress | None) -> str:
    """Describe the state once a command is in force.

    Args:
        command: The command.
        progress: The progress after it; `None` if the driver has ended since.
    """
    effect, next_step = _effect(command, progress)
    return "; ".join(part for part in (effect, _committed(progress), next_step) if part)


def _effect(command: Command, progress: Progress | None) -> tuple[str, str]:
    """Return the effect of a command, and the next command to type."""
    match command.type:
        case "Pause":
            return _paused(command.pause or PauseCommand()), "undo: backfill resume"
        case "Resume":
            limit = "none" if progress is None else format_limit(progress)
            return ("running without a limit" if limit == "none" else f"running, with a limit of {limit}"), ""
        case "Throttle":
            return _limited(command.throttle or ThrottleCommand())
        case "Stop":
            return "the attempt ends at a barrier", "resume it with backfill run"
        case _:
            return "", ""


def _paused(command: PauseCommand) -> str:
    if command.scope == "All":
        return "the snapshot and changes are paused"
    return "the snapshot is paused, changes are still applied"


def _limited(command: ThrottleCommand) -> tuple[str, str]:
    limits = (command.rows_per_second, command.bytes_per_second)
    if limits == (None, None):
        return "there is no limit", ""
    during = "" if command.for_seconds is None else f" for {show_seconds(command.for_seconds)}"
    unread = ", so the snapshot is not read" if 0 in limits else ""
    return f"the limit is {format_rate(*limits)}{during}{unread}", "undo: backfill throttle none"


def _committed(progress: Progress | None) -> str:
    """Describe the committed rows; empty if unknown."""
    if progress is None or not progress.attempt:
        return ""
    if not progress.rows_total:
        return f"{counted(progress.rows_done, 'row')} committed"
    return f"{progress.percent} %, {show_rows(progress.rows_done)} of {counted(progress.rows_total, 'row')} committed"
