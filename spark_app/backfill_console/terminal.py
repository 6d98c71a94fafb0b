"""Lines on a terminal, drawn with rich."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment as RichSegment
from rich.style import Style

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.plan import Plan
from backfill_api.status.receipt import Receipt
from backfill_api.status.source_head import SourceHead
from backfill_console.block import block_lines
from backfill_console.frame import JobFrame
from backfill_console.plans import plan_lines
from backfill_console.receipts import receipt_lines
from backfill_console.segments import Line, Role, ascii_line

STYLES: dict[Role, Style] = {
    "plain": Style(color="default"),
    "strong": Style(color="default", bold=True),
    "dim": Style(dim=True),
    "good": Style(color="green"),
    "warn": Style(color="yellow"),
    "bad": Style(color="red"),
    "done": Style(color="green"),
    "partial": Style(color="green"),
    "open": Style(color="bright_black"),
    "spark": Style(color="cyan"),
    "rule": Style(color="bright_black"),
}
"""Colours of the roles. No text is blue, which many terminals draw unreadably on black."""


@dataclass(frozen=True)
class DrawnLines:
    """Lines for the width of a terminal; rich never wraps or cuts them. Their symbols are ASCII if the encoding is not UTF."""

    lines_of: Callable[[int], Sequence[Line]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw them."""
        for drawn in self.lines_of(options.max_width):
            shown = ascii_line(drawn) if options.ascii_only else drawn
            yield from (RichSegment(segment.text, STYLES[segment.role]) for segment in shown.segments)
            yield RichSegment.line()


def show_frame(frame: JobFrame, *, lines: int | None = None) -> DrawnLines:
    """Return the block of a job for a console.

    Args:
        frame: The job.
        lines: Lines of the terminal; `None` for no limit.
    """
    return DrawnLines(lambda columns: block_lines(frame, columns, lines))


def show_receipt(receipt: Receipt, head: SourceHead | None = None) -> DrawnLines:
    """Return a receipt for a console; `head` is the newest position of the source."""
    return DrawnLines(lambda columns: receipt_lines(receipt, head, columns))


def show_plan(
    job: str,
    plan: Plan,
    places: Sequence[tuple[str, str]] = (),
    *,
    explained_by: BackfillSpec | None = None,
) -> DrawnLines:
    """Return a plan for a console.

    Args:
        job: Id of the job.
        plan: Its plan.
        places: Source and target with their locations.
        explained_by: The job's spec, whose settings explain copy modes and times; `None` to leave explanations out.
    """
    return DrawnLines(lambda columns: plan_lines(job, plan, columns, places, explained_by=explained_by))
