"""Table of the runs or attempts of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from backfill_api.amounts import show_seconds
from backfill_console.formatting import show_moment
from backfill_console.rows import aligned

RIGHT: Final = frozenset({"ATTEMPT", "ROWS", "CHANGES", "EXIT"})
UNKNOWN: Final = "-"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of a job, or one attempt of a Backfill; an absent value is unknown."""

    start: str
    """Time, RFC 3339."""

    end: str = ""
    """Time, RFC 3339; empty if it runs, or its end is not recorded."""

    outcome: str = ""
    attempt: int | None = None
    rows: int | None = None
    changes: int | None = None
    receipt: str = ""
    exit_code: int | None = None
    message: str = ""
    job: str = ""


def history_lines(runs: Sequence[RunRow], now: datetime, columns: int | None = None) -> list[str]:
    """Return a row for each run. A column without any value is left out.

    Args:
        runs: The runs, in their order.
        now: Current time, with a time zone; a run that is `Running` has lasted until then.
        columns: Width of the screen; `None` for no limit.
    """
    named: dict[str, list[str]] = {
        "JOB": [run.job for run in runs],
        "ATTEMPT": [_number(run.attempt) for run in runs],
        "START": [_moment(run.start) for run in runs],
        "END": [_moment(run.end) or UNKNOWN for run in runs],
        "DURATION": [_duration(run, now) for run in runs],
        "OUTCOME": [run.outcome for run in runs],
        "ROWS": [_number(run.rows) for run in runs],
        "CHANGES": [_number(run.changes) for run in runs],
        "RECEIPT": [run.receipt for run in runs],
        "EXIT": [_number(run.exit_code) for run in runs],
    }
    shown = {name: cells for name, cells in named.items() if any(cells)} | {"MESSAGE": [run.message for run in runs]}
    rows = [[cell or UNKNOWN for cell in row[:-1]] + [row[-1]] for row in zip(*shown.values(), strict=True)]
    headings = list(shown) if any(run.message for run in runs) else [*list(shown)[:-1], ""]
    return aligned(headings, rows, columns=columns, right=RIGHT)


def seconds_of(run: RunRow, now: datetime) -> int | None:
    """Return how long a run took, or has taken so far; `None` if its start or end is unknown."""
    start, end = _parsed(run.start), _parsed(run.end)
    end = now if end is None and run.outcome == "Running" else end
    return None if start is None or end is None else max(0, round((end - start).total_seconds()))


def _duration(run: RunRow, now: datetime) -> str:
    seconds = seconds_of(run, now)
    return UNKNOWN if seconds is None else show_seconds(seconds)


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _moment(text: str) -> str:
    return text if _parsed(text) is None else show_moment(text)


def _parsed(text: str) -> datetime | None:
    """Return a time; `None` if it has no zone or is none: a person may edit a file."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment
