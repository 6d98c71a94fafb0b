"""Tables and amounts. Strings of an object are data: their control characters are not sent to the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from backfill_console.rows import aligned
from backfill_kubectl.decisions.attention import Group, JobLine

MARKS: Final[dict[Group, tuple[str, str]]] = {
    "needs a person": ("✖", "x"), "runs": ("▶", ">"), "paused": ("॥", "="), "waits": ("◌", "."), "done": ("✔", "+"),
}  # fmt: skip
"""Symbol of each group, and its ASCII form. A word always stands next to it."""

HEADINGS: Final = ("NAMESPACE/NAME", "STATE", "%", "ROWS", "ROWS/S", "LAG", "ETA", "WHY")
WIDE: Final = ("STRATEGY", "ATTEMPT", "DRIVER", "AGE")
RIGHT: Final = frozenset({"%", "ROWS/S", "ATTEMPT"})
UNKNOWN: Final = "-"


def short_seconds(seconds: int | None) -> str:
    """Return a duration in its two largest units: `1m05s`, `12m`, `2h`."""
    if seconds is None:
        return UNKNOWN
    for size, name, small, small_name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            rest = seconds % size // small
            return (
                f"{seconds // size}{name}{rest:02d}{small_name}"
                if rest and seconds < 10 * size
                else f"{seconds // size}{name}"
            )
    return f"{seconds}s"


def short_count(count: int | None) -> str:
    """Return a count with three digits: `61.2 M`, `82.4 k`, `980`."""
    if count is None:
        return UNKNOWN
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)


def _rows(line: JobLine) -> str:
    """Return the done and the total rows in one unit: `61.2/98.0 M`."""
    if line.rows_done is None:
        return UNKNOWN
    if line.rows_total is None:
        return short_count(line.rows_done)
    for size, unit in ((10**9, " G"), (10**6, " M"), (10**3, " k"), (1, "")):
        if line.rows_total >= size:
            digits = 1 if size > 1 else 0
            return f"{line.rows_done / size:.{digits}f}/{line.rows_total / size:.{digits}f}{unit}"
    return "0/0"


def job_table(
    lines: Sequence[JobLine], *, columns: int | None = None, wide: bool = False, ascii_only: bool = False
) -> list[str]:
    """Return the table of jobs.

    Args:
        lines: The jobs, in order.
        columns: Width of the terminal; `None` for no limit.
        wide: Add columns for strategy, attempt, driver and age.
        ascii_only: Use ASCII symbols.
    """
    rows = [_cells(line, ascii_only=ascii_only, wide=wide) for line in lines]
    headings = (*HEADINGS[:-1], *(WIDE if wide else ()), HEADINGS[-1])
    return aligned(headings, rows, columns=columns, right=RIGHT, ascii_only=ascii_only)


def _cells(line: JobLine, *, ascii_only: bool, wide: bool) -> tuple[str, ...]:
    since = f" {short_seconds(line.since_s)}" if line.since_s is not None else ""
    mark = MARKS[line.group][1 if ascii_only else 0]
    percent = UNKNOWN if line.percent is None else str(line.percent)
    attempt = UNKNOWN if line.attempt is None else str(line.attempt)
    more = (line.strategy or UNKNOWN, attempt, line.driver or UNKNOWN, short_seconds(line.age_s)) if wide else ()
    return (
        line.key, f"{mark} {line.phase}{since}", percent, _rows(line), short_count(line.rows_per_second),
        short_seconds(line.lag_s), short_seconds(line.eta_s), *more, line.why or UNKNOWN,
    )  # fmt: skip
