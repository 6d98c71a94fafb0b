"""Block of a job: its lines for a width and a height. The least important lines are left out first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backfill_api.amounts import show_seconds
from backfill_api.plain_text import printable
from backfill_console.bars import grid_cells, sparkline
from backfill_console.facts import Fact, facts_of
from backfill_console.formatting import format_position
from backfill_console.frame import JobFrame
from backfill_console.heading import BAR_NAME_COLUMNS, job_bar, rows_bar, steps_lines, tables_line, title_line
from backfill_console.receipts import format_summary
from backfill_console.sections import command_rows, event_rows, tree_rows
from backfill_console.segments import (
    Line,
    Role,
    Segment,
    clipped,
    cut,
    cut_at_word,
    line,
    spread,
    whole_parts,
    width_of,
    wrapped,
)

TALL_MIN = 12
"""Minimum lines for names of facts and rules between sections: with fewer lines they would displace facts."""

TWO_COLUMNS_MIN = 96
LEFT_PERCENT = 45
"""Part of the line for the left of two facts; the right ones are longer."""

NAME_COLUMNS = 9
COMMANDS_MAX = EVENTS_MAX = 3
RULE = "─"
RULE_RANK = 14


@dataclass(frozen=True)
class _Part:
    """Lines that stay or go together."""

    rank: int
    """Parts of a high rank are left out first."""

    lines: tuple[Line, ...] = ()
    message: str = ""
    """A message instead of lines: it wraps if there is room, and is cut at a word otherwise."""

    name: str = ""
    role: Role = "plain"


_RULE = _Part(RULE_RANK)


def block_lines(frame: JobFrame, columns: int, lines: int | None = None) -> tuple[Line, ...]:
    """Return the block of a job.

    Args:
        frame: The job.
        columns: Columns of the screen; no line is wider.
        lines: Lines of the screen; `None` for no limit.
    """
    compact = lines is not None and lines < TALL_MIN
    tables = tables_line(frame, columns)
    title, has_end = title_line(frame, columns, tables)
    head = [_Part(0, (title,)), *_head(frame, tables, columns)]
    foot = [_keys(frame, columns)] if frame.keys or frame.updated_at else []
    sections = [
        head,
        _progress(frame, columns, has_end=has_end, compact=compact),
        _tree(frame, columns),
        _log(frame, columns),
        foot,
    ]
    parts = [part for section in sections if section for part in (_RULE, *section)][1:]
    if compact:
        parts = [part for part in parts if part is not _RULE]
    if frame.note:
        parts.append(_Part(0, message=frame.note, role="warn"))
    return _drawn(parts, columns, lines)


def _drawn(parts: Sequence[_Part], columns: int, room: int | None) -> tuple[Line, ...]:
    """Leave out the least important parts until the rest fits."""
    kept = list(parts)
    while room is not None and len(kept) > 1 and sum(max(1, len(part.lines)) for part in kept) > max(1, room):
        del kept[max(range(len(kept)), key=lambda number: (kept[number].rank, number))]
    kept = [part for number, part in enumerate(kept) if part is not _RULE or 0 < number < len(kept) - 1]
    spare = None if room is None else room - sum(max(1, len(part.lines)) for part in kept)
    drawn: list[Line] = []
    for part in kept:
        if part is _RULE:
            drawn.append(line(Segment(RULE * columns, "rule")))
        elif part.message:
            shown = _message(part, columns, None if spare is None else spare + 1)
            spare = None if spare is None else spare - len(shown) + 1
            drawn += shown
        else:
            drawn += part.lines
    return tuple(clipped(shown, columns) for shown in (drawn if room is None else drawn[: max(1, room)]))


def _message(part: _Part, columns: int, room: int | None) -> list[Line]:
    """Return a message with its name, in at most `room` lines."""
    message, wide = printable(part.message), columns - NAME_COLUMNS if part.name else columns
    texts = wrapped(message, max(1, wide))
    if room is not None and len(texts) > room:
        texts = [cut_at_word(message, wide)]
    if not part.name:
        return [line(Segment(text, part.role)) for text in texts]
    names = [f"{part.name:<{NAME_COLUMNS}}", *[" " * NAME_COLUMNS] * (len(texts) - 1)]
    return [line(Segment(name, "dim"), Segment(text, part.role)) for name, text in zip(names, texts, strict=True)]


def _head(frame: JobFrame, tables: Line | None, columns: int) -> list[_Part]:
    """Return tables and steps."""
    parts = [] if tables is None else [_Part(5, (tables,))]
    if frame.progress.steps and frame.progress.attempt:
        parts += [_Part(6, (steps,)) for steps in steps_lines(frame.progress.steps, columns)]
    return parts


def _progress(frame: JobFrame, columns: int, *, has_end: bool, compact: bool) -> list[_Part]:
    """Return bars, facts, reasons and warnings."""
    progress = frame.progress
    parts: list[_Part] = []
    if not progress.attempt:
        if not frame.resting and (progress.reason or not frame.phase):
            began = frame.trend.step_began_at
            since = "" if began is None else f"  {(frame.now - began).total_seconds():.0f} s"
            parts.append(_Part(0, message=f"{progress.reason or 'starting'}{since}", role="warn"))
    else:
        parts += [_Part(2, (job_bar(progress, columns),)), _Part(2, (rows_bar(progress, columns),))]
        if progress.grid and len(progress.grid) + BAR_NAME_COLUMNS <= columns:
            name = Segment(f"{'grid':<{BAR_NAME_COLUMNS}}", "dim")
            parts.append(_Part(9, (line(name, *grid_cells(progress.grid)),)))
        facts = facts_of(frame, with_eta=not has_end)
        parts += _packed(facts, columns) if compact else _named(facts, columns)
        if position := format_position(progress):
            parts.append(_Part(3, message=position))
        if progress.reason:
            parts.append(_Part(1, message=progress.reason, name="" if compact else "why", role="warn"))
    if frame.plan:
        parts.append(_Part(8, message=frame.plan, name="plan"))
    if frame.receipt is not None and not frame.tree:
        good = frame.receipt.equal
        parts.append(_Part(3, message=format_summary(frame.receipt), name="receipt", role="good" if good else "bad"))
    warnings = [*progress.warnings, *frame.warnings]
    return parts + [_Part(1, message=f"! warning: {warning}", role="bad") for warning in warnings]


def _named(facts: Sequence[Fact], columns: int) -> list[_Part]:
    """Return the facts with their names: two in a line if there is room."""
    if columns < TWO_COLUMNS_MIN:
        return [_Part(fact.rank, (_fact(fact, columns),)) for fact in facts]
    half = columns * LEFT_PERCENT // 100
    parts: list[_Part] = []
    rest = list(facts)
    while rest:
        left, *rest = rest
        if rest and _fits(left, half - 2) and _fits(rest[0], columns - half):
            right, *rest = rest
            pair = _pair(_fact(left, half - 2), _fact(right, columns - half), half)
            parts.append(_Part(min(left.rank, right.rank), (pair,)))
        else:
            parts.append(_Part(left.rank, (_fact(left, columns),)))
    return parts


def _fits(fact: Fact, columns: int) -> bool:
    return NAME_COLUMNS + width_of(fact.value) <= columns


def _pair(left: Line, right: Line, half: int) -> Line:
    return Line((*left.segments, Segment(" " * (half - left.width)), *right.segments))


def _fact(fact: Fact, columns: int) -> Line:
    name = f"{fact.name:<{NAME_COLUMNS}}"
    value = whole_parts(printable(fact.value), columns - NAME_COLUMNS)
    room = columns - NAME_COLUMNS - width_of(value) - 2
    spark = sparkline(fact.samples, room)
    return line(Segment(name, "dim"), value, Segment(f"  {spark}" if spark else "", "spark"))


def _packed(facts: Sequence[Fact], columns: int) -> list[_Part]:
    """Return the facts in as few lines as possible, the most important first."""
    lines: list[tuple[int, str]] = []
    for fact in sorted(facts, key=lambda fact: (fact.rank, fact.name)):
        text = printable(f"{fact.name} {fact.value}")
        if lines and width_of(lines[-1][1]) + 3 + width_of(text) <= columns:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} · {text}")
        else:
            lines.append((fact.rank, text))
    return [_Part(rank, (line(whole_parts(text, columns)),)) for rank, text in lines]


def _tree(frame: JobFrame, columns: int) -> list[_Part]:
    rows = tree_rows(frame.tree, columns)
    return [_Part(10, tuple(rows[:2])), *(_Part(10, (row,)) for row in rows[2:])] if rows else []


def _log(frame: JobFrame, columns: int) -> list[_Part]:
    """Return the newest commands and events."""
    commands = command_rows(frame.commands[-COMMANDS_MAX:], columns - NAME_COLUMNS)
    events = event_rows(frame.events[-EVENTS_MAX:], columns - NAME_COLUMNS)
    return [
        _Part(rank, (line(Segment(f"{'' if number else name:<{NAME_COLUMNS}}", "dim"), *row.segments),))
        for rank, name, rows in ((11, "commands", commands), (12, "events", events))
        for number, row in enumerate(rows)
    ]


def _keys(frame: JobFrame, columns: int) -> _Part:
    """Return the keys, and the age of the data."""
    keys = "  ".join(f"{key} {action}" for key, action in frame.keys)
    age = "" if frame.updated_at is None else max(0, int((frame.now - frame.updated_at).total_seconds()))
    updated = "" if frame.updated_at is None else f"updated {show_seconds(int(age or 0))} ago"
    return _Part(13, (spread([Segment(cut(keys, columns), "dim")], [Segment(updated, "dim")], columns),))
