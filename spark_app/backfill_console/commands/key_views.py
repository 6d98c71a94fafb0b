"""Views that a key of a watch shows in place of the block: logs, events, and the parts of the snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from backfill_api.plain_text import printable
from backfill_api.status.progress import PartitionProgress, ProgressSummary
from backfill_console.bars import show_grid
from backfill_console.commands.key_screen import KeyScreen
from backfill_console.frame import JobFrame
from backfill_console.rows import aligned
from backfill_console.sections import command_rows
from backfill_console.segments import Line, Segment, clipped, line, wrapped

PARTITION_HEADINGS: Final = ("PARTITION", "%", "ROWS", "FILES")
GRID_WIDTHS: Final = (64, 32, 16)
"""Parts in a row of the grid, by the width of the terminal."""


def view_lines(
    job: str, screen: KeyScreen, body: Sequence[Line], keys: Sequence[tuple[str, str]], columns: int, room: int
) -> list[Line]:
    """Return a title, the newest lines of the view that fit, the answer to the last key, and the keys.

    Args:
        job: Name of the job.
        screen: View and answer.
        body: Lines of the view, the newest last.
        keys: Keys that the screen accepts.
        columns: Columns of the terminal.
        room: Lines that may be drawn.
    """
    note = [line(Segment(text, "warn")) for text in wrapped(printable(screen.note), columns) if text]
    foot = [line(Segment("  ".join(f"{key} {action}" for key, action in keys), "dim"))] if keys else []
    title = line(Segment(f"{printable(job)}  {screen.view}", "strong"))
    rest = max(0, room - 1 - len(note) - len(foot))
    newest = body[-rest:] if rest else []
    return [clipped(each, columns) for each in (title, *newest, *note, *foot)][:room]


def parts_lines(progress: ProgressSummary, columns: int) -> list[Line]:
    """Return the grid of the snapshot, in rows that fit, and the table of its partitions."""
    cells, width = show_grid(progress.grid), next((width for width in GRID_WIDTHS if width <= columns), GRID_WIDTHS[-1])
    title = [f"{progress.percent} %, the snapshot in {len(progress.grid)} parts"] if cells else []
    grid = [cells[start : start + width] for start in range(0, len(cells), width)]
    texts = [*title, *grid, *partition_texts(progress)]
    return [line(text) for text in texts or ["no parts of a snapshot are reported"]]


def partition_texts(progress: ProgressSummary) -> list[str]:
    """Return the table of the source's partitions; empty if none are reported."""
    rows = [_partition(each) for each in progress.partitions]
    return aligned(PARTITION_HEADINGS, rows, right=frozenset({"%"})) if rows else []


def driver_events(frame: JobFrame, columns: int) -> list[Line]:
    """Return the warnings of a driver, and its newest commands with their acknowledgements, the newest last."""
    warnings = [line(Segment(f"! {printable(text)}", "warn")) for text in (*frame.progress.warnings, *frame.warnings)]
    rows = [*warnings, *reversed(command_rows(frame.commands, columns))]
    return rows or [line("this driver has no warnings and received no commands")]


def _partition(partition: PartitionProgress) -> tuple[str, ...]:
    percent = 100 * partition.rows_done // partition.rows_total if partition.rows_total else 100
    rows = f"{partition.rows_done:,} of {partition.rows_total:,}"
    return partition.partition, str(percent), rows, f"{partition.files_done:,} of {partition.files_total:,}"
