"""The proof that source and target hold the same rows."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_core.positions.offsets import OffsetRange


@dataclass(frozen=True, slots=True)
class VnodeMismatch:
    """One vnode in which source and target differ."""

    vnode: int
    source_rows: int
    target_rows: int


@dataclass(frozen=True, slots=True)
class PartitionReceipt:
    """One partition of a source with offsets, as it is read again, and what the target has of it."""

    partition: str
    start: int
    stop: int
    """The offset after the last one that is compared."""

    offsets: int
    """How many are compared; fewer than from start to stop while history is read."""

    records: int
    """Of the source, those at these offsets that a reader sees."""

    first: int | None
    last: int | None
    bad_records: int
    """Of the records, those that the transform cannot parse."""

    rows: int
    """Of the records, those that are rows of the target."""

    target_rows: int | None
    """None: the target does not keep partition and offset."""

    target_first: int | None
    target_last: int | None

    @property
    def gaps(self) -> int:
        """Offsets without a record, which are the broker's own: markers, aborted transactions, compaction."""
        return self.offsets - self.records

    @property
    def missing(self) -> int | None:
        """Rows that the target should have and has not: a gap of ours; below zero: it has too many."""
        return None if self.target_rows is None else self.rows - self.target_rows


@dataclass(frozen=True, slots=True)
class FileMismatch:
    """A file that is not what it was copied from."""

    path: str
    """As the log spells it."""

    what: str
    """How it differs, for people."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The proof: files by their bytes, all other rows by counts and hash sums per vnode, and where both sides differ."""

    source_version: int | None
    """None: the source has no versions."""

    target_version: int
    epoch: int
    rows: int
    vnodes: int
    digest: str
    """Hash over all vnodes' sums of the source side, hexadecimal."""

    mismatches: tuple[VnodeMismatch, ...]
    seconds: float
    verified_ms: int | None = None
    """When it was taken; set by the driver, which has the clock."""

    complete: bool = True
    """Is all of the source compared? While history is being copied, only what is sealed is."""

    rows_filtered: int | None = None
    """Rows of the source, of those compared, that the transform's filter left out; None: not known."""

    rows_total: int | None = None
    """Rows of the source in all, with those that are filtered out; None: not known."""

    source_position: str = ""
    """What of the source was compared, in the source's words."""

    partitions: tuple[PartitionReceipt, ...] = ()
    """Of a source with offsets; a state keeps none of them."""

    files_by_bytes: int = 0
    """Files of the target whose bytes were read back, and are those that were read from the source."""

    rows_by_rows: int | None = None
    """Rows of the source that were compared as rows; None: all."""

    cut_off: tuple[OffsetRange, ...] = ()
    """Offsets of the source that were not compared, because a transaction in front of them is open; the target lacks them."""

    files: tuple[FileMismatch, ...] = ()
    """Files that differ: those whose bytes do, and, where rows differ, those that may be the reason."""

    @property
    def equal(self) -> bool:
        """Are both sides the same multiset of rows, and all that was copied undamaged?"""
        return not (self.mismatches or self.files)
