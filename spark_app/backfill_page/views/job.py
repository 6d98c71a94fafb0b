"""View of one job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backfill_api.amounts import counted, show_seconds
from backfill_api.plain_text import printable
from backfill_api.status.progress import Progress, StepProgress
from backfill_api.status.receipt import Receipt, ReceiptSummary
from backfill_console.facts import SYMBOLS, facts_of, format_end, show_ms, state_of
from backfill_console.formatting import (
    STEP_WORDS,
    format_comparison,
    format_filtered,
    format_position,
    show_clock,
    show_moment,
    show_rows,
)
from backfill_console.frame import CommandNote, EventNote, JobFrame, Table, TreeNode
from backfill_console.heading import STEP_SYMBOLS, format_attempt
from backfill_console.receipts import format_summary
from backfill_console.sections import ROLES, show_age
from backfill_page.seen import JobSeen
from backfill_page.views.cells import Cells, PartitionView, grid_cells, partition_views, receipt_cells

COMMANDS_MAX = EVENTS_MAX = 10
PHASE_ROLES = {"✔": "good", "▶": "good", "✖": "bad", "‖": "dim", "■": "dim"}


@dataclass(frozen=True, slots=True)
class StepView:
    """One step of the job, and how far it is."""

    symbol: str
    name: str
    time: str
    state: str
    percent: int | None = None
    """Part of the step that is over; `None` if it is unknown or not begun."""


@dataclass(frozen=True, slots=True)
class BarView:
    """A bar with its label."""

    name: str
    percent: int
    label: str


@dataclass(frozen=True, slots=True)
class LogView:
    """A command or an event."""

    time: str
    symbol: str
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class TreeView:
    """An attempt, a pod, or the receipt."""

    depth: int
    name: str
    kind: str
    symbol: str
    role: str
    status: str
    age: str
    info: str


@dataclass(frozen=True, slots=True)
class ReceiptView:
    """A receipt: its verdict, the versions that it compared, and the map of its vnodes."""

    good: bool
    verdict: str
    compared: str
    time: str
    cells: Cells | None
    condition: str = ""
    """SQL condition for rows that differ; empty if there is none."""


@dataclass(frozen=True, slots=True)
class ButtonsView:
    """The actions of a job."""

    paused: bool
    lack: str
    """Reason why the buttons are disabled; empty if they are enabled."""


@dataclass(frozen=True, slots=True)
class JobView:
    """The page of one job. An empty or absent value is not shown."""

    key: str
    symbol: str
    role: str
    state: str
    percent: int | None
    eta: str
    attempt: str
    up: str
    strategy: str
    source: str
    target: str
    why: str
    position: str
    steps: tuple[StepView, ...]
    bars: tuple[BarView, ...]
    grid: Cells | None
    partitions: tuple[PartitionView, ...]
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    receipt: ReceiptView | None
    commands: tuple[LogView, ...]
    events: tuple[LogView, ...]
    tree: tuple[TreeView, ...]
    plan: str
    buttons: ButtonsView
    problem: str


def job_view(seen: JobSeen) -> JobView:
    """Return the view of one job."""
    frame, progress = seen.frame, seen.frame.progress
    symbol, state = state_of(frame)
    began = bool(progress.attempt)
    return JobView(
        key=seen.key,
        symbol=symbol,
        role=PHASE_ROLES.get(symbol, "warn"),
        state=printable(state),
        percent=progress.percent if began else None,
        eta=format_end(frame),
        attempt=format_attempt(frame),
        up="" if frame.up_s is None else show_seconds(int(frame.up_s)),
        strategy=frame.strategy,
        source=_place(frame.source),
        target=_place(frame.target),
        why="" if seen.ended is not None else printable(progress.reason),
        position=printable(format_position(progress)) if began else "",
        steps=tuple(map(_step, progress.steps)),
        bars=_bars(progress) if began else (),
        grid=grid_cells(progress.grid, progress.rows_total),
        partitions=partition_views(progress.partitions),
        facts=_facts(frame) if began else (),
        warnings=() if seen.ended is not None else tuple(map(printable, (*progress.warnings, *frame.warnings))),
        receipt=None if frame.receipt is None else _receipt(frame.receipt),
        commands=tuple(map(_command, reversed(frame.commands[-COMMANDS_MAX:]))),
        events=tuple(map(_event, reversed(frame.events[-EVENTS_MAX:]))),
        tree=tuple(_tree(frame.tree)),
        plan=printable(frame.plan),
        buttons=buttons_view(seen),
        problem=printable(seen.problem),
    )


def buttons_view(seen: JobSeen) -> ButtonsView:
    """Return the actions of a job, and why they are disabled."""
    lack = f"You may not {seen.forbidden}." if seen.forbidden else seen.unavailable
    paused = seen.frame.progress.paused is not None or seen.frame.phase in {"Paused", "Pausing"}
    return ButtonsView(paused, printable(lack))


def _place(table: Table | None) -> str:
    if table is None:
        return ""
    return printable(table.place + (f" @{table.version}" if table.version else ""))


def _facts(frame: JobFrame) -> tuple[tuple[str, str], ...]:
    return tuple((fact.name, printable(fact.value)) for fact in facts_of(frame, with_eta=False))


def _step(step: StepProgress) -> StepView:
    took = "" if step.seconds is None else show_seconds(step.seconds)
    left = "" if step.seconds_left is None or step.state == "Done" else f"about {show_seconds(step.seconds_left)}"
    percent = 100 if step.state == "Done" else None
    if step.state == "Running" and step.seconds is not None and step.seconds_left is not None:
        percent = 100 * step.seconds // max(1, step.seconds + step.seconds_left)
    time = f"{took}, {left} left" if took and left else took or left
    name = printable(STEP_WORDS.get(step.name, step.name))
    return StepView(STEP_SYMBOLS.get(step.state, "·"), name, time, step.state.lower(), percent)


def _bars(progress: Progress) -> tuple[BarView, ...]:
    total = progress.rows_total
    rows = (
        f"{show_rows(progress.rows_done)} of {counted(total, 'row')}" if total else counted(progress.rows_done, "row")
    )
    share = min(100, 100 * progress.rows_done // total) if total else 0
    return (
        BarView("job", progress.percent, f"{progress.percent} % of the time"),
        BarView("rows", share, rows + format_filtered(progress.rows_filtered)),
    )


def _receipt(receipt: Receipt | ReceiptSummary) -> ReceiptView:
    compared = format_comparison(receipt) if isinstance(receipt, Receipt) else _versions(receipt)
    taken = show_moment(receipt.verified_at) if receipt.verified_at else ""
    verdict = format_summary(receipt)
    return ReceiptView(
        receipt.equal, verdict, printable(compared), taken, receipt_cells(receipt), printable(receipt.condition)
    )


def _versions(receipt: ReceiptSummary) -> str:
    source = receipt.source_position or f"version {receipt.source_version}"
    return f"source {source}, target version {receipt.target_version}"


def _command(command: CommandNote) -> LogView:
    epoch = "" if command.epoch is None else f" at epoch {command.epoch}"
    took = "" if command.took_ms is None else f" in {show_ms(command.took_ms)}"
    by = f", by {command.by} (claimed)" if command.by else ""
    note = f": {command.note}" if command.note else ""
    time = show_clock(command.time) if command.time else ""
    text = printable(f"{command.text} {command.outcome}{epoch}{took}{by}{note}")
    return LogView(time, SYMBOLS[command.mark], ROLES[command.mark], text)


def _event(event: EventNote) -> LogView:
    warns = event.type == "Warning"
    times = f" ({counted(event.count, 'time')})" if event.count > 1 else ""
    text = printable(f"{event.type} {event.reason}: {event.message}{times}")
    return LogView(
        show_clock(event.time) if event.time else "", "!" if warns else "·", "warn" if warns else "dim", text
    )


def _tree(nodes: Sequence[TreeNode], depth: int = 0) -> Iterator[TreeView]:
    for node in nodes:
        age = "" if node.age_s is None else show_age(node.age_s)
        yield TreeView(
            depth, printable(node.name), node.kind, SYMBOLS[node.mark], ROLES[node.mark], printable(node.status), age,
            printable(node.info),
        )  # fmt: skip
        yield from _tree(node.below, depth + 1)
