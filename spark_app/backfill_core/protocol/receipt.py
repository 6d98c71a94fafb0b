"""The proof that source and target hold the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backfill_core.positions.offsets import OffsetRange


@dataclass(frozen=True, slots=True)
class VnodeMismatch:
    """Vnode in which source and target differ."""

    vnode: int
    source_rows: int
    target_rows: int


@dataclass(frozen=True, slots=True)
class PartitionComparison:
    """Partition of a source with offsets, read again and compared with the target."""

    partition: str
    start: int
    stop: int
    """Offset after the last compared one."""

    offsets: int
    """Number of compared offsets; fewer than `stop - start` while history is read."""

    records: int
    """Records of the source at these offsets that a reader sees."""

    first: int | None
    last: int | None
    bad_records: int
    """Records that the transform cannot parse."""

    rows: int
    """Records that are rows of the target."""

    target_rows: int | None
    """`None` if the target does not store partition and offset."""

    target_first: int | None
    target_last: int | None

    @property
    def gaps(self) -> int:
        """Return the number of offsets without a record: transaction markers, aborted transactions, compaction."""
        return self.offsets - self.records

    @property
    def missing(self) -> int | None:
        """Return the number of rows that the target lacks; negative if it has too many."""
        return None if self.target_rows is None else self.rows - self.target_rows


@dataclass(frozen=True, slots=True)
class FileDifference:
    """File that differs from the file that it was copied from."""

    path: str
    """Path as written in the log."""

    what: str
    """Difference, for display."""


CONDITION_VNODES_MAX = 100
CONDITION_CHARACTERS_MAX = 1024


def mismatch_condition(key: Sequence[str], vnodes: int, wrong: Sequence[int]) -> str:
    """Return the SQL condition for the rows of some vnodes, at most the first 100; empty without vnodes, or if it is too long.

    Args:
        key: Columns whose `xxhash64` determines the vnode of a row; they contain no null.
        vnodes: Number of all vnodes.
        wrong: Numbers of the vnodes that differ.
    """
    if not wrong:
        return ""
    names = ", ".join("`" + name.replace("`", "``") + "`" for name in key)
    numbers = ", ".join(map(str, wrong[:CONDITION_VNODES_MAX]))
    text = f"pmod(xxhash64({names}), {vnodes}) IN ({numbers})"
    return text if len(text) <= CONDITION_CHARACTERS_MAX else ""


@dataclass(frozen=True, slots=True)
class ReceiptBasis:
    """Tables, columns and transform that a receipt is about; a later comparison may build on it only if all are the same."""

    source_id: str
    """Id of the source table, which a new table at the same path does not have."""

    target_id: str
    columns: str
    """Hash of the columns and partition columns of both tables."""

    transform: str
    """Hash of the transform, the key and the write mode."""

    def differs_from(self, earlier: ReceiptBasis) -> str:
        """Return what changed, for display; empty if nothing did."""
        if self.source_id != earlier.source_id:
            return "the source was created again"
        if self.target_id != earlier.target_id:
            return "the target was created again"
        if self.columns != earlier.columns:
            return "the columns changed"
        return "the transform changed" if self.transform != earlier.transform else ""


@dataclass(frozen=True, slots=True)
class TableReceipt:
    """Result of a comparison: files by bytes, other rows by counts and hash sums per vnode, and all differences."""

    source_version: int | None
    """`None` if the source has no versions."""

    target_version: int
    epoch: int
    rows: int
    vnodes: int
    digest: str
    """Hash of the source's sums over all vnodes, hexadecimal."""

    mismatches: tuple[VnodeMismatch, ...]
    seconds: float
    verified_ms: int | None = None
    """Time of the receipt; set by the driver, which has the clock."""

    complete: bool = True
    """True if all of the source was compared. During the copy of history, only the sealed part is."""

    rows_filtered: int | None = None
    """Compared rows of the source that the filter excludes; `None` if unknown."""

    rows_total: int | None = None
    """All rows of the source, including filtered rows; `None` if unknown."""

    source_position: str = ""
    """Compared part of the source, for display."""

    partitions: tuple[PartitionComparison, ...] = ()
    """Partitions of a source with offsets; not stored in the state."""

    files_by_bytes: int = 0
    """Target files whose bytes were read back and equal those of the source."""

    rows_by_rows: int | None = None
    """Source rows that were compared as rows; `None` for all."""

    cut_off: tuple[OffsetRange, ...] = ()
    """Source offsets that were not compared because an open transaction precedes them; the target lacks them."""

    files: tuple[FileDifference, ...] = ()
    """Files whose bytes differ, and, if rows differ, files that may be the reason."""

    condition: str = ""
    """SQL condition for the target's rows in the vnodes that differ; empty if there is none. Not stored in the state."""

    basis: ReceiptBasis | None = None
    """`None` in receipts of earlier releases, and if the tables have no ids."""

    undo_version: int | None = None
    """Version to which RESTORE undoes the job; `None` if the job fills a target of its own."""

    @property
    def equal(self) -> bool:
        """True if both sides have the same multiset of rows and no copied file is damaged."""
        return not (self.mismatches or self.files)


@dataclass(frozen=True, slots=True)
class DifferenceCounts:
    """Number of rows that differ."""

    inserted: int = 0
    """Rows that the target lacks."""

    updated: int = 0
    """Rows whose key exists on both sides with other values."""

    deleted: int = 0
    """Rows that the target has too often."""
