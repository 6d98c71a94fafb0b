"""What a running job looks like in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from backfill_api.progress import Progress
from backfill_api.receipt import Receipt
from backfill_cli.amounts import show_rows, show_seconds

SHADES = " ░▒▓█"
PHASE_WORDS = {"Snapshot": "reading history", "LogStore": "replaying changes", "Live": "live"}


def show_progress(job: str, progress: Progress, note: str = "") -> RenderableType:
    """Return the one-screen status block of a job."""
    bar = Table.grid(padding=(0, 1), expand=True)
    bar.add_column(ratio=1)
    bar.add_column(justify="right", no_wrap=True)
    shown = f"{progress.percent} %  {show_rows(progress.rows_done)} of {show_rows(progress.rows_total)} rows"
    bar.add_row(ProgressBar(total=100, completed=progress.percent), shown)
    facts = Table.grid(padding=(0, 2))
    for _ in range(4):
        facts.add_column(no_wrap=True)
    left, right = _left(progress), _right(progress)
    for (name, value), (other, its) in zip(left, right, strict=True):
        facts.add_row(Text(name, style="dim"), value, Text(other, style="dim"), its)
    parts: list[RenderableType] = [bar, Text(_grid(progress.grid), style="cyan", no_wrap=True), facts]
    if progress.reason:
        parts.append(Text(progress.reason, style="yellow"))
    if note:
        parts.append(Text(note, style="green"))
    title = f"[bold]{job}[/]  attempt {progress.attempt}  {PHASE_WORDS.get(progress.phase, 'starting')}"
    return Panel(Group(*parts), title=title, title_align="left", border_style=_colour(progress))


def _left(progress: Progress) -> list[tuple[str, str]]:
    rate = f"{show_rows(progress.rows_per_second)} rows/s" if progress.rows_per_second else "-"
    limit = progress.throttle_rows_per_second
    return [
        ("speed", rate),
        ("limit", "none" if limit is None else f"{show_rows(limit)} rows/s"),
        ("left", _left_words(progress)),
    ]


def _right(progress: Progress) -> list[tuple[str, str]]:
    seals = "-" if progress.seal_ms_p50 is None else f"{progress.seal_ms_p50} ms, p99 {progress.seal_ms_p99} ms"
    lag = f"{progress.lag_versions} versions, {show_seconds(progress.lag_seconds)}" if progress.lag_versions else "none"
    return [
        ("barrier", f"epoch {progress.epoch}, sealed as version {progress.table_version}"),
        ("seal", seals),
        ("behind", f"{lag}; {show_rows(progress.changes_done)} changes applied"),
    ]


def _left_words(progress: Progress) -> str:
    if progress.eta_seconds is None:
        return "-"
    low, high = progress.eta_seconds_low or 0, progress.eta_seconds_high or 0
    return f"{show_seconds(progress.eta_seconds)} ({low} to {high} s)"


def _grid(grid: tuple[int, ...]) -> str:
    return "".join(SHADES[min(4, -(-cell * 4 // 100))] for cell in grid)


def _colour(progress: Progress) -> str:
    return "yellow" if progress.paused else "green" if progress.caught_up else "blue"


def one_line(progress: Progress) -> str:
    """Return the status as one line, for logs."""
    reason = f"; {progress.reason}" if progress.reason else ""
    return (
        f"{progress.phase or 'Starting'} {progress.percent}% {progress.rows_done}/{progress.rows_total} rows "
        f"{progress.rows_per_second} rows/s, epoch {progress.epoch}, lag {progress.lag_versions} versions{reason}"
    )


def show_receipt(receipt: Receipt) -> RenderableType:
    """Return a receipt as something to keep."""
    table = Table.grid(padding=(0, 2))
    equal = not receipt.mismatches
    verdict = "source and target are equal" if equal else f"{len(receipt.mismatches)} vnodes differ"
    table.add_row("verdict", Text(verdict, style="bold green" if equal else "bold red"))
    table.add_row("rows", show_rows(receipt.rows))
    table.add_row("compared", f"source version {receipt.source_version}, target version {receipt.target_version}")
    table.add_row("proof", f"{receipt.vnodes} vnodes, digest {receipt.digest[:16]}")
    table.add_row("took", f"{receipt.seconds:.1f} s")
    for one in receipt.mismatches[:10]:
        table.add_row(f"vnode {one.vnode}", f"{one.source_rows} rows in the source, {one.target_rows} in the target")
    return Panel(table, title="receipt", title_align="left", border_style="green" if equal else "red")
