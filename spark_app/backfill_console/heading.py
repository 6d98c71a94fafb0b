"""Title, tables, steps and bars of a job."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_api.amounts import counted, show_seconds
from backfill_api.plain_text import printable
from backfill_api.status.progress import Progress, StepProgress
from backfill_console.bars import bar
from backfill_console.facts import format_end, state_of
from backfill_console.formatting import STEP_WORDS, format_filtered, show_rows
from backfill_console.frame import JobFrame, Table
from backfill_console.segments import (
    MORE,
    NAME_MIN,
    Line,
    Segment,
    cut,
    line,
    spread,
    width_of,
)

BAR_MIN = 16
"""Minimum columns of a bar with its name."""

BAR_NAME_COLUMNS = 5
GAP = "  "
STEP_GAP = " ─ "
STEP_SYMBOLS = {"Done": "✔", "Running": "▶"}


def title_line(frame: JobFrame, columns: int, tables: Line | None = None) -> tuple[Line, bool]:
    """Return the title, and whether it contains the estimated end; whole parts are left out if there is no room.

    Args:
        frame: The job.
        columns: Columns of the screen.
        tables: The line of the tables, which may contain the attempt.
    """
    name, (symbol, activity) = printable(frame.title), state_of(frame)
    state = f"{symbol} {printable(activity)}"
    percent = f"{frame.progress.percent} %" if frame.progress.attempt else ""
    parts = [part for part in (name, state, percent) if part]
    if width_of(GAP.join(parts)) > columns:
        return _short_title(name, state, percent, columns), False
    attempt = format_attempt(frame)
    attempt = "" if tables is not None and attempt in tables.text else attempt
    end = f"ETA {text}" if (text := format_end(frame)) else ""
    for extra in (attempt, end):
        if extra and width_of(GAP.join([*parts, extra])) <= columns:
            parts.append(extra)
    up = "" if frame.up_s is None else f"up {show_seconds(int(frame.up_s))}"
    left = [Segment(parts[0], "strong"), Segment("".join(GAP + part for part in parts[1:]))]
    return spread(left, [Segment(up)], columns), end != "" and end in parts


def _short_title(name: str, state: str, percent: str, columns: int) -> Line:
    """Return a title for a narrow screen: the state is left out before the name is cut."""
    if width_of(name) + len(GAP) + width_of(state) <= columns:
        return line(Segment(name, "strong"), f"{GAP}{state}")
    left = columns - width_of(percent) - len(GAP)
    if percent and left >= NAME_MIN:
        return line(Segment(cut(name, left), "strong"), f"{GAP}{percent}")
    return line(Segment(cut(percent or name, columns), "strong"))


def format_attempt(frame: JobFrame) -> str:
    """Return the number of the attempt, with the number of attempts that may fail; empty before the first."""
    attempt, most = frame.progress.attempt, frame.attempts_max
    if not attempt:
        return ""
    return f"attempt {attempt}" if most is None or attempt > most else f"attempt {attempt} of {most}"


def tables_line(frame: JobFrame, columns: int) -> Line | None:
    """Return the strategy, source and target; a place that does not fit loses its beginning. `None` without tables."""
    if frame.source is None or frame.target is None:
        return None
    strategy = f"{frame.strategy}{GAP}" if frame.strategy else ""
    attempt = format_attempt(frame)
    arrow = " → "
    for before, after in ((strategy, attempt), ("", attempt), ("", "")):
        room = columns - width_of(before) - len(arrow) - (width_of(after) + len(GAP) if after else 0)
        source, target = _places(frame.source, frame.target, room)
        if MORE not in {source[:1], target[:1]}:
            break
    return spread([Segment(before, "dim"), Segment(f"{source}{arrow}{target}")], [Segment(after)], columns)


def _places(source: Table, target: Table, columns: int) -> tuple[str, str]:
    """Return source and target with their versions in a number of columns."""
    first, second = _place(source), _place(target)
    if width_of(first) + width_of(second) <= columns:
        return first, second
    half = max(1, columns // 2)
    if width_of(first) <= half:
        return first, _tail(second, columns - width_of(first))
    if width_of(second) <= half:
        return _tail(first, columns - width_of(second)), second
    return _tail(first, half), _tail(second, columns - half)


def _place(table: Table) -> str:
    return printable(table.place + (f"@{table.version}" if table.version else ""))


def _tail(text: str, columns: int) -> str:
    """Return the end of a string: the end of a path names the table."""
    if width_of(text) <= columns:
        return text
    return MORE + cut(text[::-1], columns)[:-1][::-1] if columns > 1 else MORE


def steps_lines(steps: Sequence[StepProgress], columns: int) -> list[Line]:
    """Return each step with its duration, or with the estimated time left, in as few lines as needed."""
    lines: list[str] = []
    for step in steps:
        text = format_step(step)
        if lines and width_of(f"{lines[-1]}{STEP_GAP}{text}") <= columns:
            lines[-1] = f"{lines[-1]}{STEP_GAP}{text}"
        else:
            lines.append(cut(text, columns))
    return [line(Segment(text, "dim")) for text in lines]


def format_steps(steps: Sequence[StepProgress]) -> str:
    """Return all steps in one line."""
    return STEP_GAP.join(map(format_step, steps))


def format_step(step: StepProgress) -> str:
    """Return a step: `copy ▶ 11 min, ~7 min left`."""
    took = "" if step.seconds is None else show_seconds(step.seconds)
    left = "" if step.seconds_left is None or step.state == "Done" else f"~{show_seconds(step.seconds_left)}"
    time = f"{took}, {left} left" if took and left else took or left
    return f"{STEP_WORDS.get(step.name, step.name)} {STEP_SYMBOLS.get(step.state, '·')} {time}".rstrip()


def job_bar(progress: Progress, columns: int) -> Line:
    """Return the bar of the whole job: its time, all steps included."""
    return _bar("job", progress.percent / 100, f"{progress.percent} %", columns)


def rows_bar(progress: Progress, columns: int) -> Line:
    """Return the bar of the rows in the target."""
    total = progress.rows_total
    has_total = total or not progress.rows_done
    long = (
        f"{show_rows(progress.rows_done)} of {show_rows(total)} rows"
        if has_total
        else counted(progress.rows_done, "row")
    )
    longest = long + format_filtered(progress.rows_filtered)
    percent = f"{100 * progress.rows_done // total if total else 0} %"
    label = next((text for text in (longest, long) if len(text) <= columns - BAR_MIN), percent)
    return _bar("rows", progress.rows_done / total if total else 0, label, columns)


def _bar(name: str, done: float, label: str, columns: int) -> Line:
    room = columns - BAR_NAME_COLUMNS - len(label) - 1
    if room < 1:
        return line(Segment(cut(f"{name} {label}", columns)))
    return line(Segment(f"{name:<{BAR_NAME_COLUMNS}}", "dim"), *bar(min(1.0, done), room), f" {label}")
