"""Rows of attempts and pods, of commands, and of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from backfill_api.amounts import counted
from backfill_api.plain_text import printable
from backfill_console.facts import SYMBOLS, show_ms
from backfill_console.formatting import show_clock
from backfill_console.frame import CommandNote, EventNote, Mark, TreeNode
from backfill_console.segments import Line, Role, Segment, cut, line, width_of

ROLES: Final[dict[Mark, Role]] = {"Good": "good", "Running": "good", "Waiting": "warn", "Bad": "bad", "Idle": "dim"}
NAME_MAX, STATUS_MAX, INFO_MIN = 34, 22, 12
HEADINGS: Final = ("NAME", "KIND", "STATUS", "AGE", "INFO")
UNITS_S: Final = (("d", 86_400), ("h", 3600), ("m", 60))


def tree_rows(nodes: Sequence[TreeNode], columns: int) -> list[Line]:
    """Return the heading and a row for each node; narrow screens have no column for the kind, then none for the rest."""
    rows = [(prefix, node) for root in nodes for prefix, node in _walk(root, "", "")]
    if not rows:
        return []
    names = min(NAME_MAX, max(width_of(prefix + node.name) for prefix, node in rows) + 1, columns // 2)
    kinds = max(width_of(node.kind) for _, node in rows) + 2
    states = min(STATUS_MAX, max(width_of(node.status) for _, node in rows) + 4)
    if names + kinds + states + 6 + INFO_MIN > columns:
        kinds = 0
    widths = (names + 1, kinds, states, 6)
    rest = max(0, columns - sum(widths))
    headings = zip(HEADINGS, (*widths, rest if rest >= INFO_MIN else 0), strict=True)
    head = "".join(f"{name:<{width}}" for name, width in headings if width).rstrip()
    shown = [line(Segment(cut(head, columns), "dim"))]
    return shown + [_tree_row(prefix, node, widths, rest) for prefix, node in rows]


def _walk(node: TreeNode, prefix: str, below: str) -> Iterator[tuple[str, TreeNode]]:
    yield prefix, node
    for number, child in enumerate(node.below):
        last = number == len(node.below) - 1
        yield from _walk(child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))


def _tree_row(prefix: str, node: TreeNode, widths: tuple[int, int, int, int], rest: int) -> Line:
    name = cut(prefix + printable(node.name), widths[0] - 1)
    state = cut(f"{SYMBOLS[node.mark]} {printable(node.status)}", widths[2] - 1)
    age = "" if node.age_s is None else show_age(node.age_s)
    info = cut(printable(node.info), rest) if rest >= INFO_MIN else ""
    return line(
        _padded(name, widths[0]),
        _padded(node.kind, widths[1]) if widths[1] else "",
        Segment(_padded(state, widths[2]) if age or info else state, ROLES[node.mark]),
        _padded(age, widths[3]) if info else age,
        Segment(info, "dim"),
    )


def command_rows(commands: Sequence[CommandNote], columns: int) -> list[Line]:
    """Return a row for each command, the newest first, with its acknowledgement."""
    rows = []
    for command in reversed(commands):
        at = f"{show_clock(command.time)}  " if command.time else ""
        epoch = "" if command.epoch is None else f" at epoch {command.epoch}"
        took = "" if command.took_ms is None else f" in {show_ms(command.took_ms)}"
        by = f", by {command.by} (claimed)" if command.by else ""
        note = f": {command.note}" if command.note else ""
        text = f" {command.text} {command.outcome}{epoch}{took}{by}{note}"
        mark = SYMBOLS[command.mark]
        rows.append(line(Segment(at, "dim"), Segment(mark, ROLES[command.mark]), _fitting(text, columns, at + mark)))
    return rows


def event_rows(events: Sequence[EventNote], columns: int) -> list[Line]:
    """Return a row for each event, the newest first."""
    rows = []
    for event in reversed(events):
        at = f"{show_clock(event.time)}  " if event.time else ""
        kind = Segment(
            "! Warning" if event.type == "Warning" else "Normal", "warn" if event.type == "Warning" else "dim"
        )
        times = f" ({counted(event.count, 'time')})" if event.count > 1 else ""
        text = f"  {event.reason}: {event.message}{times}"
        rows.append(line(Segment(at, "dim"), kind, _fitting(text, columns, at + kind.text)))
    return rows


def show_age(seconds: float) -> str:
    """Return an age in one unit, as kubectl does."""
    return next((f"{int(seconds // size)}{unit}" for unit, size in UNITS_S if seconds >= size), f"{int(seconds)}s")


def _fitting(text: str, columns: int, before: str) -> str:
    return cut(printable(text), columns - width_of(before))


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - width_of(text))
