"""Cells of the snapshot and of a receipt, with a summary for screen readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backfill_api.amounts import counted
from backfill_api.plain_text import printable
from backfill_api.status.progress import PartitionProgress
from backfill_api.status.receipt import Receipt, ReceiptSummary
from backfill_console.bars import DIFFERENT, vnode_map


@dataclass(frozen=True, slots=True)
class Cell:
    """A square with its role, and the text that it shows on hover."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Cells:
    """Squares in reading order, and their summary."""

    cells: tuple[Cell, ...]
    summary: str
    columns: int = 64


@dataclass(frozen=True, slots=True)
class PartitionView:
    """The finished part of one partition of the source."""

    name: str
    percent: int
    text: str


def grid_cells(grid: Sequence[int], rows_total: int) -> Cells | None:
    """Return the parts of the snapshot; `None` without parts.

    Args:
        grid: Percent committed of each part.
        rows_total: Rows of the snapshot; 0 if unknown.
    """
    if not grid:
        return None
    share = rows_total // len(grid)
    about = f", about {share:,} rows" if share else ""
    cells = tuple(
        Cell(_grid_role(percent), f"part {number} of {len(grid)}: {percent} % committed{about}")
        for number, percent in enumerate(grid, 1)
    )
    done, partial = (sum(cell.role == role for cell in cells) for role in ("done", "partial"))
    return Cells(cells, f"{done} of {counted(len(cells), 'part')} committed, {partial} in part")


def _grid_role(percent: int) -> str:
    return "open" if percent <= 0 else "done" if percent >= 100 else "partial"


def receipt_cells(receipt: Receipt | ReceiptSummary) -> Cells | None:
    """Return the map of the vnodes of a receipt; `None` if it has none."""
    summary = receipt.summary if isinstance(receipt, Receipt) else receipt
    signs = "".join(vnode_map(summary.mismatch_map))
    if not signs:
        return None
    cells = tuple(
        Cell("bad", f"vnode {number} differs") if sign == DIFFERENT else Cell("good", f"vnode {number} is equal")
        for number, sign in enumerate(signs)
    )
    different = sum(cell.role == "bad" for cell in cells)
    return Cells(cells, f"{counted(len(cells), 'vnode')}: {len(cells) - different} equal, {different} different", 16)


def partition_views(partitions: Sequence[PartitionProgress]) -> tuple[PartitionView, ...]:
    """Return the partitions of the source, with rows and files."""
    return tuple(
        PartitionView(
            printable(each.partition),
            100 * each.rows_done // each.rows_total if each.rows_total else 100,
            f"{each.rows_done:,} of {each.rows_total:,} rows, {each.files_done:,} of {each.files_total:,} files",
        )
        for each in partitions
    )
