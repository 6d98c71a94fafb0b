"""Receipts: their verdict, the compared versions, and the vnodes, files and partitions that differ."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_api.amounts import counted
from backfill_api.status.receipt import PartitionReceipt, Receipt, ReceiptSummary
from backfill_api.status.source_head import SourceHead
from backfill_console.bars import DIFFERENT, EQUAL, vnode_map
from backfill_console.formatting import (
    format_comparison,
    format_filtered,
    format_proof,
    format_source_head,
    show_clock,
    show_rows,
)
from backfill_console.rows import Row, named_lines
from backfill_console.segments import Line, Segment

MISMATCHES_SHOWN_MAX = FILES_SHOWN_MAX = PARTITIONS_SHOWN_MAX = 10


def format_verdict(receipt: Receipt | ReceiptSummary) -> str:
    """Describe the result of a receipt."""
    vnodes, files, cut_off = _differences(receipt)
    if not receipt.equal:
        total = f" of {counted(receipt.vnodes, 'vnode')}" if isinstance(receipt, Receipt) else " vnodes"
        differences = [f"{vnodes}{total}"] if vnodes else []
        differences += [counted(files, "file")] if files else []
        return f"{' and '.join(differences)} {'differs' if vnodes + files == 1 else 'differ'}"
    if receipt.complete:
        return "source and target are equal"
    if cut_off:
        return f"equal, without records behind open transactions of {counted(cut_off, 'partition')}"
    compared, total_rows = receipt.rows + (receipt.rows_filtered or 0), receipt.rows_total or 0
    percent = 100 * compared // total_rows if total_rows else 0
    return f"equal so far: {compared:,} of {total_rows:,} rows ({percent} %)"


def format_summary(receipt: Receipt | ReceiptSummary) -> str:
    """Return the verdict and the number of rows."""
    return f"{format_verdict(receipt)}, {counted(receipt.rows, 'row')}"


def _differences(receipt: Receipt | ReceiptSummary) -> tuple[int, int, int]:
    """Return the number of vnodes and files that differ, and of partitions with open transactions."""
    if isinstance(receipt, Receipt):
        return len(receipt.mismatches), len(receipt.files), len(receipt.cut_off)
    return receipt.mismatches, receipt.file_mismatches, receipt.cut_off_partitions


def receipt_rows(receipt: Receipt, head: SourceHead | None = None) -> list[Row]:
    """Return names and values of a receipt; `head` is the newest position of the source."""
    newer = format_source_head(head)
    equal = receipt.equal
    verdict = (
        f"equal at source {receipt.source_position or receipt.source_version}"
        if newer and equal and receipt.complete
        else format_verdict(receipt)
    )
    taken = f", at {show_clock(receipt.verified_at)}" if receipt.verified_at else ""
    rows = [Row("receipt", f"{'✔' if equal else '✖'} {verdict}", "good" if equal else "bad")]
    rows += [Row("source", newer, "warn")] if newer else []
    rows += [
        Row("rows", show_rows(receipt.rows) + format_filtered(receipt.rows_filtered)),
        Row("compared", format_comparison(receipt)),
        Row("proof", f"{format_proof(receipt)}, digest {receipt.digest[:16]}"),
        Row("took", f"{receipt.seconds:.1f} s{taken}"),
    ]
    undo = receipt.undo_version
    rows += (
        []
        if undo is None
        else [Row("undo", f"RESTORE TABLE to version {undo}; later changes of other writers are undone too")]
    )
    return rows + _difference_rows(receipt)


def _difference_rows(receipt: Receipt) -> list[Row]:
    vnodes = [
        Row(
            f"vnode {mismatch.vnode}",
            f"{counted(mismatch.source_rows, 'row')} in the source, {mismatch.target_rows:,} in the target",
        )
        for mismatch in receipt.mismatches[:MISMATCHES_SHOWN_MAX]
    ]
    files = [Row("file", f"{file.path}: {file.what}") for file in receipt.files[:FILES_SHOWN_MAX]]
    cut_off = [
        Row("cut off", f"partition {cut.partition} at offset {cut.start}; it ends at {cut.stop}")
        for cut in receipt.cut_off[:PARTITIONS_SHOWN_MAX]
    ]
    return [
        *vnodes,
        *_more(len(receipt.mismatches) - MISMATCHES_SHOWN_MAX),
        *files,
        *_more(len(receipt.files) - FILES_SHOWN_MAX),
        *cut_off,
        *(Row(name, value) for name, value in partition_rows(receipt.partitions)),
    ]


def _more(number: int) -> list[Row]:
    return [Row("", f"and {number} more")] if number > 0 else []


def receipt_lines(receipt: Receipt, head: SourceHead | None, columns: int, *, with_map: bool = False) -> list[Line]:
    """Return a receipt for the records.

    Args:
        receipt: The receipt.
        head: Newest position of the source; `None` if unknown.
        columns: Columns of the screen; longer values wrap.
        with_map: Add the map of vnodes.
    """
    lines = named_lines(receipt_rows(receipt, head), columns)
    return lines + map_lines(receipt) if with_map else lines


def map_lines(receipt: Receipt | ReceiptSummary) -> list[Line]:
    """Return the map of vnodes with its legend; a cell differs if any of its vnodes does. Empty if there is no map."""
    summary = receipt.summary if isinstance(receipt, Receipt) else receipt
    if not summary.mismatch_map:
        return []
    rows = vnode_map(summary.mismatch_map)
    legend = f"vnodes in {sum(map(len, rows))} parts: {EQUAL} equal  {DIFFERENT} differs ({summary.mismatches:,})"
    return [Line((Segment(legend, "dim"),)), *(Line(tuple(_cells(row))) for row in rows)]


def _cells(row: str) -> list[Segment]:
    return [Segment(f"{cell} ", "bad" if cell == DIFFERENT else "good") for cell in row]


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
