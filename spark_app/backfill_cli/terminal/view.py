"""Progress and receipt of a job on a terminal; every number comes from the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import ROUNDED
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from backfill.formatting import (
    STEP_WORDS,
    format_bad_records,
    format_comparison,
    format_eta,
    format_filtered,
    format_lag,
    format_limit,
    format_phase,
    format_position,
    format_proof,
    format_source_head,
    format_state,
    show_clock,
    show_moment,
    show_rows,
)
from backfill_api.amounts import counted, show_seconds
from backfill_api.status.progress import Progress, StepProgress
from backfill_api.status.receipt import PartitionReceipt, Receipt
from backfill_api.status.source_head import SourceHead
from backfill_api.wire import Ack
from backfill_cli.terminal.narrow import cut_at_word, title_parts, whole_parts

SHADES = "·░▒▓█"
ACKS_SHOWN_MAX = 3
MISMATCHES_SHOWN_MAX = FILES_SHOWN_MAX = PARTITIONS_SHOWN_MAX = 10
FRAME_LINES, FRAME_COLUMNS, TITLE_COLUMNS = 2, 4, 6
FRAMED_LINES_MIN = 12
"""Minimum lines for a frame: on fewer lines it would displace facts."""

TWO_COLUMNS_MIN = 96
BAR_MIN = 16
"""Minimum columns of a bar with its name."""

DONE, LEFT_OPEN = "green", "bright_black"
TITLE = "default"
"""The terminal's default text colour, which fits its background."""


@dataclass(frozen=True)
class ProgressBlock:
    """The status block of a job, fitted to the terminal: the least important lines are left out first."""

    job: str
    progress: Progress
    note: str = ""
    acks: Sequence[Ack] = ()
    elapsed_s: float | None = None
    """Seconds since the command began; `None` if unknown."""

    step_s: float | None = None
    """Seconds since the current step of the start began."""

    lines: int | None = None
    """Lines of the terminal; `None` for no limit."""

    resting: str = ""
    """State of a job without a driver; empty while a driver runs or starts."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it for the width of the console."""
        framed = self.lines is None or self.lines >= FRAMED_LINES_MIN
        columns = options.max_width - (FRAME_COLUMNS if framed else 0)
        title = _title(self, options.max_width - TITLE_COLUMNS if framed else columns)
        parts: list[tuple[int, RenderableType]] = [] if framed else [(1, title)]
        parts += self._parts(columns, bordered=framed)
        room = None if self.lines is None else self.lines - (FRAME_LINES if framed else 0)
        block = Group(*_fitting(parts, room, console, columns))
        if framed:
            yield Panel(block, title=title, title_align="left", border_style=_colour(self.progress), box=ROUNDED)
        else:
            yield block

    def _parts(self, columns: int, *, bordered: bool) -> list[tuple[int, RenderableType]]:
        """Return the lines from top to bottom, each with its rank: the highest rank is left out first."""
        progress = self.progress
        parts: list[tuple[int, RenderableType]] = []
        if not progress.attempt:
            parts.append((0, Text(cut_at_word(self._step(), columns), style="yellow")))
        else:
            parts += [(0, _job_bar(progress)), (2, _rows_bar(progress, columns))]
            if progress.grid and len(progress.grid) <= columns:
                parts.append((9, Text(show_grid(progress.grid), style="cyan")))
            parts += _facts(self, columns, compact=not bordered)
            if position := format_position(progress):
                parts.append((3, Text(position)))
            if progress.steps:
                parts.append((6, Text(show_steps(progress.steps), style="dim")))
        if progress.attempt and progress.reason:
            parts.append((1, Text(progress.reason, style="yellow")))
        parts += [(1, Text(f"warning: {warning}", style="red")) for warning in progress.warnings]
        for ack in self.acks[-ACKS_SHOWN_MAX:]:
            line = f"revision {ack.revision} {ack.outcome.lower()} at epoch {ack.epoch}"
            parts.append((8, Text(cut_at_word(line, columns), style="dim")))
        if self.note:
            parts.append((0, Text(cut_at_word(self.note, columns), style="bold yellow")))
        return parts

    def _step(self) -> str:
        since = "" if self.step_s is None else f"  {self.step_s:.0f} s"
        return f"{self.progress.reason or 'starting'}{since}"


def show_progress(
    job: str,
    progress: Progress,
    note: str = "",
    acks: Sequence[Ack] = (),
    *,
    elapsed_s: float | None = None,
    step_s: float | None = None,
    lines: int | None = None,
    resting: str = "",
) -> RenderableType:
    """Return the one-screen status block of a job."""
    return ProgressBlock(job, progress, note, acks, elapsed_s, step_s, lines, resting)


def _fitting(
    parts: list[tuple[int, RenderableType]], room: int | None, console: Console, columns: int
) -> list[RenderableType]:
    """Leave out the least important lines until the rest fits; long lines wrap only if there is room."""
    kept = list(parts)
    while room is not None and len(kept) > max(1, room):
        worst = max(range(len(kept)), key=lambda number: (kept[number][0], number))
        del kept[worst]
    shown = [part for _, part in kept]
    heights = [len(part.wrap(console, columns)) if isinstance(part, Text) else 1 for part in shown]
    if room is not None and sum(heights) > room:
        return [_on_one_line(part, columns) if isinstance(part, Text) else part for part in shown]
    return shown


def _on_one_line(text: Text, columns: int) -> Text:
    return Text(cut_at_word(text.plain, columns), style=text.style) if len(text) > columns else text


def _title(block: ProgressBlock, columns: int) -> Text:
    """Return the title in the terminal's text colour: the border's colour may be unreadable."""
    progress = block.progress
    attempt = f"attempt {progress.attempt}" if progress.attempt else ""
    elapsed = "" if block.elapsed_s is None else show_seconds(int(block.elapsed_s))
    job, *more = title_parts(block.job, attempt, block.resting or format_phase(progress), elapsed, columns)
    return Text.assemble((job, f"bold {TITLE}"), *((f"  {part}", TITLE) for part in more))


def _job_bar(progress: Progress) -> RenderableType:
    """Return the bar of the whole job: its time, all steps included."""
    return _bar("job", progress.percent, f"{progress.percent} %")


def _rows_bar(progress: Progress, columns: int) -> RenderableType:
    """Return the bar of the rows in the target."""
    total = progress.rows_total
    has_total = total or not progress.rows_done
    long = (
        f"{show_rows(progress.rows_done)} of {show_rows(total)} rows"
        if has_total
        else counted(progress.rows_done, "row")
    )
    longest = long + format_filtered(progress.rows_filtered)
    percent = 100 * progress.rows_done // total if total else 0
    label = next((text for text in (longest, long) if len(text) <= columns - BAR_MIN), f"{percent} %")
    return _bar("rows", percent, label)


def _bar(name: str, percent: int, label: str) -> RenderableType:
    bar = Table.grid(padding=(0, 1), expand=True)
    bar.add_column(width=4, no_wrap=True)
    bar.add_column(ratio=1)
    bar.add_column(justify="right", no_wrap=True)
    drawn = ProgressBar(total=100, completed=percent, style=LEFT_OPEN, complete_style=DONE, finished_style=DONE)
    bar.add_row(Text(name, style="dim"), drawn, label)
    return bar


def _facts(block: ProgressBlock, columns: int, *, compact: bool) -> list[tuple[int, RenderableType]]:
    """Return name and value of each fact: two in a line if there is room, else one."""
    left, right = _left(block), _right(block)
    if compact:
        facts = [(rank, f"{name} {value}") for rank, name, value in sorted([*left, *right]) if value != "-"]
        return [(rank, Text(whole_parts(line, columns))) for rank, line in _packed(facts, columns)]
    if columns < TWO_COLUMNS_MIN - FRAME_COLUMNS:
        return [
            (rank, Text.assemble((f"{name:<9}", "dim"), whole_parts(value, columns - 9)))
            for rank, name, value in [*left, *right]
        ]
    rows: list[tuple[int, RenderableType]] = []
    for (rank, name, value), (_, other, its) in zip(left, right, strict=True):
        row = Table.grid(padding=(0, 1))
        widths = (8, columns // 2 - 10, 9, columns - columns // 2 - 11)
        for width in widths:
            row.add_column(no_wrap=True, width=width)
        shown = (whole_parts(value, widths[1]), whole_parts(its, widths[3]))
        row.add_row(Text(name, style="dim"), Text(shown[0]), Text(other, style="dim"), Text(shown[1]))
        rows.append((rank, row))
    return rows


def _packed(facts: list[tuple[int, str]], columns: int) -> list[tuple[int, str]]:
    """Join facts to lines that fit."""
    lines: list[tuple[int, str]] = []
    for rank, fact in facts:
        if lines and len(lines[-1][1]) + 3 + len(fact) <= columns:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} · {fact}")
        else:
            lines.append((rank, fact))
    return lines


def show_steps(steps: Sequence[StepProgress]) -> str:
    """Return each step with its duration, or with the estimated time left."""
    return " · ".join(f"{STEP_WORDS.get(step.name, step.name)} {_step_time(step)}".rstrip() for step in steps)


def _step_time(step: StepProgress) -> str:
    took = "" if step.seconds is None else show_seconds(step.seconds)
    if step.state == "Done":
        return took or "done"
    left = "" if step.seconds_left is None else f"~{show_seconds(step.seconds_left)}"
    return f"{took}, {left} left" if took and left else took or left


def _left(block: ProgressBlock) -> list[tuple[int, str, str]]:
    """Return rank, name and value of the most important facts."""
    progress = block.progress
    rate = f"{show_rows(progress.rows_per_second)} rows/s" if progress.rows_per_second else "-"
    until = f" until {show_clock(progress.throttle_until)}" if progress.throttle_until else ""
    return [
        (2, "rate", rate),
        (4, "limit", format_limit(progress) + until),
        (2, "ETA", format_eta(progress)),
        (3, "state", block.resting or format_state(progress)),
    ]


def _right(block: ProgressBlock) -> list[tuple[int, str, str]]:
    progress = block.progress
    seals = "-" if progress.seal_ms_p50 is None else f"{progress.seal_ms_p50} ms, p99 {progress.seal_ms_p99} ms"
    sealed = "" if progress.table_version is None else f", committed as version {progress.table_version}"
    behind = progress.lag_versions or progress.lag_records or progress.lag_seconds
    lag = f"{format_lag(progress)}, {show_seconds(progress.lag_seconds)}" if behind else "none"
    if block.resting:
        seals = "-" if progress.last_commit_time is None else show_moment(progress.last_commit_time)
        lag = "-"
    return [
        (6, "barrier", f"epoch {progress.epoch}{sealed}"),
        (7, "commit", seals),
        (3, "lag", lag),
        (5, "changes", f"{show_rows(progress.changes_done)} applied{format_bad_records(progress.bad_records)}"),
    ]


def show_grid(grid: Sequence[int]) -> str:
    """Return one character for each part of the snapshot; the lightest shade means any row, a full block all rows."""
    return "".join(SHADES[0 if cell <= 0 else 4 if cell >= 100 else 1 + cell * 3 // 100] for cell in grid)


def _colour(progress: Progress) -> str:
    return "yellow" if progress.paused else "green" if progress.caught_up else "cyan"


def format_verdict(receipt: Receipt) -> str:
    """Describe the result of a receipt."""
    if not receipt.equal:
        differences = [f"{len(receipt.mismatches)} of {counted(receipt.vnodes, 'vnode')}"] if receipt.mismatches else []
        differences += [counted(len(receipt.files), "file")] if receipt.files else []
        differs = "differs" if len(receipt.mismatches) + len(receipt.files) == 1 else "differ"
        return f"{' and '.join(differences)} {differs}"
    if receipt.complete:
        return "source and target are equal"
    if receipt.cut_off:
        return f"equal, without records behind open transactions of {counted(len(receipt.cut_off), 'partition')}"
    compared, total = receipt.rows + (receipt.rows_filtered or 0), receipt.rows_total or 0
    percent = 100 * compared // total if total else 0
    return f"equal so far: {compared:,} of {total:,} rows ({percent} %)"


def partition_rows(partitions: Sequence[PartitionReceipt]) -> list[tuple[str, str]]:
    """Return a line for each partition of a topic, incomplete ones first; only the first lines if there are many."""
    rows = []
    for partition in sorted(partitions, key=lambda each: not each.missing)[:PARTITIONS_SHOWN_MAX]:
        span = (
            "no record"
            if partition.first is None
            else f"{counted(partition.records, 'record')} at offsets {partition.first} to {partition.last}"
        )
        facts = [
            span,
            f"{counted(partition.gaps, 'offset')} without a record (the broker's own)" if partition.gaps else "",
        ]
        facts += [counted(partition.bad_records, "bad record") if partition.bad_records else ""]
        facts += ["" if partition.missing is None else _format_missing(partition.missing)]
        rows.append((f"partition {partition.partition}", "; ".join(filter(None, facts))))
    more = len(partitions) - PARTITIONS_SHOWN_MAX
    return [*rows, ("", f"and {more} more")] if more > 0 else rows


def _format_missing(missing: int) -> str:
    if missing == 0:
        return "the target has all"
    return f"the target lacks {missing:,}" if missing > 0 else f"the target has {-missing:,} too many"


def named_lines() -> Table:
    """Return an empty table of names and values; long values wrap."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def show_receipt(receipt: Receipt, head: SourceHead | None = None) -> RenderableType:
    """Return a receipt for the records; `head` is the newest position of the source."""
    table = named_lines()
    equal = receipt.equal
    newer = format_source_head(head)
    verdict = (
        f"equal at source {receipt.source_position or receipt.source_version}"
        if newer and equal and receipt.complete
        else format_verdict(receipt)
    )
    table.add_row("verdict", Text(verdict, style="bold green" if equal else "bold red"))
    if newer:
        table.add_row("source", Text(newer, style="bold yellow"))
    table.add_row("rows", show_rows(receipt.rows) + format_filtered(receipt.rows_filtered))
    table.add_row("compared", format_comparison(receipt))
    table.add_row("proof", f"{format_proof(receipt)}, digest {receipt.digest[:16]}")
    taken = f", at {show_clock(receipt.verified_at)}" if receipt.verified_at else ""
    table.add_row("took", f"{receipt.seconds:.1f} s{taken}")
    for mismatch in receipt.mismatches[:MISMATCHES_SHOWN_MAX]:
        table.add_row(
            f"vnode {mismatch.vnode}",
            f"{counted(mismatch.source_rows, 'row')} in the source, {mismatch.target_rows:,} in the target",
        )
    if len(receipt.mismatches) > MISMATCHES_SHOWN_MAX:
        table.add_row("", f"and {len(receipt.mismatches) - MISMATCHES_SHOWN_MAX} more")
    for file in receipt.files[:FILES_SHOWN_MAX]:
        table.add_row("file", Text(f"{file.path}: {file.what}"))
    if len(receipt.files) > FILES_SHOWN_MAX:
        table.add_row("", f"and {len(receipt.files) - FILES_SHOWN_MAX} more")
    for cut in receipt.cut_off[:PARTITIONS_SHOWN_MAX]:
        table.add_row("cut off", f"partition {cut.partition} at offset {cut.start}; it ends at {cut.stop}")
    for name, text in partition_rows(receipt.partitions):
        table.add_row(name, text)
    return Panel(
        table, title=Text("receipt", style=TITLE), title_align="left", border_style="green" if equal else "red"
    )
