"""Errors of commands of a switch-over that did not reach their goal."""

from __future__ import annotations

from backfill_core.errors import BackfillError, SwitchBlockedError
from backfill_core.switch_over.mark import Mark
from backfill_core.switch_over.steps import End, Goal, SwitchOver

AGAIN = "Run the same command again: it continues. `backfill switch --undo` goes back."


def error_of(goal: Goal, ended: SwitchOver, mark: Mark | None, first: Exception | None) -> Exception | None:
    """Return the error of a command; `None` if it reached its goal.

    Args:
        goal: The request.
        ended: The run at its end.
        mark: The mark that the run read or stored last.
        first: The first error of a step.
    """
    match goal, ended.at:
        case _, End.INTERRUPTED:
            return _unfinished(first)
        case Goal.SWITCH, End.SWITCHED:
            return first
        case (Goal.UNDO, End.FOLLOWING) | (Goal.UNDO, End.UNDONE) | (Goal.COMPLETE, End.COMPLETED):
            return first
        case Goal.SWITCH, End.FOLLOWING if ended.timed_out:
            return SwitchBlockedError(
                f"the step {ended.failed_at} did not end within {ended.timeout_s:g} s of the fence, so the switch-over was given up; the "
                "source accepts writes.",
                hint="Look at the lag with `backfill status`, or raise --timeout.",
            )
        case _, End.REFUSED | End.NOTHING if first is None:
            return _refused(goal, mark)
    return first or _unfinished(None)


def _unfinished(first: Exception | None) -> Exception:
    if not isinstance(first, BackfillError):
        return SwitchBlockedError("the switch-over is not finished.", hint=AGAIN)
    return type(first)(f"{first.message} The switch-over is not finished.", hint=f"{first.hint} {AGAIN}".strip())


def _refused(goal: Goal, mark: Mark | None) -> SwitchBlockedError:
    if mark is None:
        verb = "undo" if goal is Goal.UNDO else "complete"
        return SwitchBlockedError(
            f"there is no switch-over to {verb}: none began, or it was undone or completed.",
            hint="After `backfill switch --complete` there is no undo: move the table back with another job.",
        )
    if mark.stage == "Undoing":
        return SwitchBlockedError(
            "an undo of the switch-over is not finished.", hint="Run `backfill switch --undo` again: it continues."
        )
    return SwitchBlockedError("the switch-over is not finished.", hint="Run `backfill switch` again: it continues.")
