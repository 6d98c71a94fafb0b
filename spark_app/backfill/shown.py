"""Values that display themselves: five lines as text, and HTML in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import PrivateAttr

from backfill_api.amounts import counted, show_seconds
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.plan import Plan
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Receipt
from backfill_api.status.source_head import SourceHead
from backfill_api.width import width_of
from backfill_console.block import block_lines
from backfill_console.formatting import format_filtered, format_limit, format_source_head, format_width, show_rows
from backfill_console.frame import JobFrame
from backfill_console.html import frame_html, lines_html, plan_html, receipt_html
from backfill_console.plans import format_plan_steps, format_size
from backfill_console.receipts import format_verdict, receipt_rows
from backfill_console.rows import Row, named_lines
from backfill_console.segments import cut_at_word

COLUMNS = 100
LINES_MAX = 5


class ShownPlan(Plan):
    """A plan that displays itself."""

    _job_id: str = PrivateAttr(default="")
    _places: tuple[tuple[str, str], ...] = PrivateAttr(default=())

    @classmethod
    def of(cls, plan: Plan, job_id: str, spec: BackfillSpec) -> Self:
        """Return a plan with the id of its job, and its source and target."""
        shown = cls.model_construct(plan.model_fields_set, **dict(plan))
        shown._job_id = job_id  # noqa: SLF001 - our own class
        source, target = spec.source.params.label, spec.target.params.label
        places = (("table", source),) if source == target else (("source", source), ("target", target))
        shown._places = places  # noqa: SLF001 - our own class
        return shown

    def __str__(self) -> str:
        """Return the plan in five lines."""
        tables = " → ".join(place for _, place in self._places)
        made = "exists" if self.target_exists else "will be created"
        low, high = show_seconds(self.estimated_seconds_low), show_seconds(self.estimated_seconds_high)
        warnings = "; ".join(f"{warning.reason}: {warning.message}" for warning in self.warnings)
        lines = [
            f"plan of {self._job_id}: {tables}",
            f"rows      {format_size(self)}, key {', '.join(self.key_columns) or 'none'}",
            f"target    {made}" + (f", columns {self.target.columns}" if self.target else ""),
            f"time      about {show_seconds(self.estimated_seconds)} ({low} to {high}): {format_plan_steps(self)}",
            f"warnings  {warnings or 'none'}",
        ]
        return "\n".join(cut_at_word(line, COLUMNS) for line in lines)

    def _repr_html_(self) -> str:
        return plan_html(self._job_id, self, self._places)


class ShownReceipt(Receipt):
    """A receipt that displays itself."""

    _head: SourceHead | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, receipt: Receipt, head: SourceHead | None = None) -> Self:
        """Return a receipt with the newest position of the source."""
        shown = cls.model_construct(receipt.model_fields_set, **dict(receipt))
        shown._head = head  # noqa: SLF001 - our own class
        return shown

    def __str__(self) -> str:
        """Return the receipt in five lines."""
        lines = [line.text for line in named_lines(receipt_rows(self, self._head), COLUMNS)]
        return "\n".join(lines[:LINES_MAX])

    def _repr_html_(self) -> str:
        return receipt_html(self, self._head)


def text_of(rows: Sequence[Row]) -> str:
    """Return names and values as at most five lines."""
    return "\n".join(cut_at_word(line.text, COLUMNS) for line in named_lines(rows, COLUMNS * LINES_MAX)[:LINES_MAX])


def html_of(rows: Sequence[Row], label: str) -> str:
    """Return names and values as HTML."""
    return lines_html(named_lines(rows, COLUMNS), label=label)


def frame_text(frame: JobFrame) -> str:
    """Return the block of a job in five lines."""
    return "\n".join(line.text for line in block_lines(frame, COLUMNS, LINES_MAX))


def with_receipt(shown: str, receipt: Receipt | None, head: SourceHead | None) -> str:
    """Return HTML with the receipt below it, which opens with a click."""
    if receipt is None:
        return shown
    return f"{shown}<details><summary>receipt</summary>{receipt_html(receipt, head)}</details>"


def status_html(frame: JobFrame) -> str:
    """Return the block of a job with its receipt."""
    receipt = frame.receipt if isinstance(frame.receipt, Receipt) else None
    return with_receipt(frame_html(frame), receipt, frame.head)


def outcome_rows(
    state: str,
    message: str,
    elapsed_s: float | None,
    progress: Progress | None,
    receipt: Receipt | None,
    head: SourceHead | None,
) -> list[Row]:
    """Return the facts of an attempt that has ended.

    Args:
        state: `Complete` or `Stopped`.
        message: Message of its end.
        elapsed_s: Its duration; `None` if unknown.
        progress: Its last progress; `None` if nothing was read.
        receipt: Its newest receipt.
        head: Newest position of the source after the end.
    """
    complete = state == "Complete"
    took = "" if elapsed_s is None else f" in {show_seconds(int(elapsed_s))}"
    more = "" if complete or not message else f": {message}"
    rows = [Row("outcome", f"{'✔ complete' if complete else '■ stopped'}{took}{more}", "good" if complete else "warn")]
    if progress is not None:
        done = f"{show_rows(progress.rows_done)} of {counted(progress.rows_total, 'row')}"
        filtered = format_filtered(progress.rows_filtered)
        rows.append(Row("rows", f"{done}{filtered}; {counted(progress.changes_done, 'change')} applied"))
        rows.append(Row("source", "; ".join(filter(None, (_position(progress), format_source_head(head))))))
        version = progress.table_version
        rows.append(Row("target", "no commit yet" if version is None else f"version {version}"))
    verdict = "none" if receipt is None else format_verdict(receipt)
    return [*rows, Row("receipt", verdict, "plain" if receipt is None else "good" if receipt.equal else "bad")]


def _position(progress: Progress) -> str:
    if progress.consumed_position:
        return progress.consumed_position
    version = progress.consumed_version
    return "a part of the snapshot" if version is None else f"version {version}"


def job_rows(job_id: str, spec: BackfillSpec) -> list[Row]:
    """Return the facts of a job before it runs."""
    select, where = spec.transform.select, spec.transform.where
    transform = [f"{counted(len(select), 'column')} selected"] if select else ["all columns"]
    transform += [f"where {where}"] if where else []
    limit = format_limit(
        Progress(
            throttle_rows_per_second=spec.throttle.rows_per_second,
            throttle_bytes_per_second=spec.throttle.bytes_per_second,
        )
    )
    # A session of a caller, or a local one, has no executors of this job.
    width = format_width(width_of(spec).model_copy(update={"executors": None}))
    return [
        Row(
            "job",
            f"{job_id}: {spec.strategy.type}, {spec.write_mode}; after: {spec.after}; verify: {spec.verify}",
            "strong",
        ),
        Row("source", spec.source.params.label),
        Row("target", spec.target.params.label),
        Row("transform", "; ".join(transform)),
        Row("limit", "; ".join(part for part in (limit, width) if part)),
    ]
