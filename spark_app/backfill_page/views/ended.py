"""View of a run that has ended: its outcome, its receipt, the time of its steps against the plan, and the next commands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from backfill_api.amounts import counted, show_seconds
from backfill_api.plain_text import printable
from backfill_api.status.plan import Plan
from backfill_api.status.progress import StepProgress
from backfill_console.formatting import STEP_WORDS, show_moment
from backfill_page.seen import Ended, JobSeen, NextCommand


@dataclass(frozen=True, slots=True)
class StepTime:
    """Time of one step, in the run and in the plan; empty if unknown."""

    name: str
    took: str
    planned: str


@dataclass(frozen=True, slots=True)
class EndedView:
    """The page of a run that has ended. An empty value is not shown."""

    symbol: str
    role: str
    outcome: str
    reason: str
    message: str
    start: str
    end: str
    took: str
    receipt: str
    rows: str
    steps: tuple[StepTime, ...]
    next_commands: tuple[NextCommand, ...]


def ended_view(seen: JobSeen, ended: Ended) -> EndedView:
    """Return the view of a run that has ended."""
    return EndedView(
        symbol="✔" if ended.good else "✖" if ended.outcome in {"Failed", "Killed"} else "■",
        role="good" if ended.good else "bad" if ended.outcome in {"Failed", "Killed"} else "dim",
        outcome=ended.outcome,
        reason=printable(ended.reason),
        message=printable(ended.message),
        start=_moment(ended.start),
        end=_moment(ended.end),
        took=_took(ended.start, ended.end),
        receipt="" if seen.frame.receipt is not None else printable(ended.receipt),
        rows="" if ended.rows_done is None else counted(ended.rows_done, "row"),
        steps=step_times(seen.frame.progress.steps, seen.plan),
        next_commands=ended.next_commands,
    )


def step_times(steps: tuple[StepProgress, ...], plan: Plan | None) -> tuple[StepTime, ...]:
    """Return the time of each step that the run or the plan contains, in the order of the run."""
    planned = {} if plan is None else {step.name: step.seconds for step in plan.steps}
    took = {step.name: step.seconds for step in steps}
    return tuple(
        StepTime(printable(STEP_WORDS.get(name, name)), _seconds(took.get(name)), _seconds(planned.get(name)))
        for name in dict.fromkeys((*took, *planned))
    )


def _seconds(seconds: int | None) -> str:
    return "" if seconds is None else show_seconds(seconds)


def _moment(time: str) -> str:
    return show_moment(time) if time else ""


def _took(start: str, end: str) -> str:
    if not (start and end):
        return ""
    seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    return show_seconds(max(0, int(seconds)))
