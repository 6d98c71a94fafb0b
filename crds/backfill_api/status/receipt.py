"""The proof that source and target are equal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from backfill_api.model import Model
from backfill_api.spec.bounds import Balance, Count, Message, Moment

VNODES_MAX = 32768
VNODES_SHOWN_MAX = 16
MAP_CELLS = 256
PARTITIONS_MAX = 10_000
FILES_MAX, FILES_SHOWN_MAX = 1000, 4
Condition = Annotated[str, Field(max_length=1024)]


def mismatch_map(mismatched: Iterable[int], vnodes: int) -> str:
    """Return the map of vnodes that differ, for `ReceiptSummary.mismatch_map`.

    Args:
        mismatched: Numbers of these vnodes, from 0.
        vnodes: Number of all vnodes.
    """
    cells = {min(vnode * MAP_CELLS // max(vnodes, 1), MAP_CELLS - 1) for vnode in mismatched}
    return f"{sum(1 << (MAP_CELLS - 1 - cell) for cell in cells):064x}"


class FileMismatch(Model):
    """A file that differs."""

    path: Message
    """As the log of its table spells it."""

    what: Message
    """Difference from the file that it was copied from."""


class ReceiptSummary(Model):
    """The newest receipt, short enough for a status."""

    source_version: Count | None = None
    """Version of the source that was compared; absent: the source has no versions."""

    source_position: Message = ""
    """Compared part of the source, for display."""

    target_version: Count
    """Version of the target that was compared."""

    epoch: Count | None = None
    """Barrier at which both belong together."""

    rows: Count
    """Rows of the source's view."""

    mismatches: Count = 0
    """Vnodes in which the sides differ."""

    mismatched_vnodes: Annotated[tuple[Count, ...], Field(max_length=VNODES_SHOWN_MAX)] = ()
    """The first of them."""

    mismatch_map: Annotated[str, Field(max_length=MAP_CELLS // 4, pattern=r"^([0-9a-f]{64})?$")] = ""
    """Vnodes in which the sides differ, as 64 hexadecimal digits of 256 bits: the highest bit of the first digit is the first vnode.

    With another number of vnodes than 256, a bit stands for an equal share of them. Empty: made by an earlier version.
    """

    digest: Annotated[str, Field(max_length=128)] = ""
    """Hash of the source's sums over all vnodes, and of the files compared by bytes; hexadecimal."""

    verified_at: Moment | None = None
    """Time, RFC 3339."""

    complete: bool = True
    """True if all of the source was compared. During the copy of the snapshot, only committed rows are."""

    rows_filtered: Count | None = None
    """Rows of the source, of those compared, that the filter left out; absent: there is no filter, or they were not counted."""

    rows_total: Count | None = None
    """Rows of the source in all, with those that the filter leaves out; absent: not counted."""

    cut_off_partitions: Count = 0
    """Partitions of a topic that the target lacks records of, because a transaction is open; then `complete` is false."""

    files_by_bytes: Count = 0
    """Copied files whose bytes were read back, and are those of the source."""

    rows_by_rows: Count | None = None
    """Rows of the source that were compared as rows; absent: all."""

    file_mismatches: Count = 0
    """Files that differ; both sides are equal where this is 0, and `mismatches` too."""

    mismatched_files: Annotated[tuple[FileMismatch, ...], Field(max_length=FILES_SHOWN_MAX)] = ()
    """The first of them."""

    condition: Condition = ""
    """SQL condition for the target's rows in the vnodes that differ, at most the first 100 of them; empty: there is none."""

    undo_version: Count | None = None
    """Version to which RESTORE undoes a job that fills columns of its table, with later changes of other writers; absent: other jobs."""

    @property
    def equal(self) -> bool:
        """True if both sides are equal."""
        return not (self.mismatches or self.file_mismatches)


class Mismatch(Model):
    """A vnode in which the sides differ."""

    vnode: Count
    """Number of the vnode."""

    source_rows: Count
    """Rows of the source's view in it."""

    target_rows: Balance
    """Rows of the target in it; for a changelog, additions minus removals."""


class PartitionReceipt(Model):
    """Partition of a topic, read again and compared with the target."""

    partition: Annotated[str, Field(max_length=64)]
    """Number of the vnode."""

    start: Count
    """The first offset that is compared."""

    stop: Count
    """The offset after the last one that is compared."""

    records: Count
    """Committed records of the topic there."""

    first: Count | None = None
    """Offset of the first of them."""

    last: Count | None = None
    """Offset of the last of them."""

    gaps: Count = 0
    """Offsets without a record: the broker's own markers, aborted transactions, and what compaction removed."""

    bad_records: Count = 0
    """Records that the transform cannot parse: they are in the table of bad records."""

    rows: Count = 0
    """Records that are rows of the target; the filter leaves out the rest."""

    target_rows: Count | None = None
    """Rows of the target; absent: it does not keep the columns partition and offset."""

    target_first: Count | None = None
    """Offset of the first of them."""

    target_last: Count | None = None
    """Offset of the last of them."""

    missing: Balance | None = None
    """Rows that the target lacks; below zero: it has too many."""


class CutOff(Model):
    """Offsets of a partition that are behind an open transaction, so that no reader of committed records may read them."""

    partition: Annotated[str, Field(max_length=64)]
    """Number of the partition."""

    start: Count
    """The first of these offsets: the last stable offset."""

    stop: Count
    """The offset after the last record: the high watermark."""


class Receipt(Model):
    """Files by their bytes, all other rows by counts and hash sums of both sides by vnode, and where they differ."""

    source_version: Count | None = None
    """Version of the source that was compared; absent: the source has no versions."""

    source_position: Message = ""
    """Compared part of the source, for display."""

    target_version: Count
    """Version of the target that was compared."""

    epoch: Count
    """Barrier at which both belong together."""

    rows: Count
    """Rows of the source's view."""

    vnodes: Count
    """Vnodes that were compared."""

    digest: Annotated[str, Field(max_length=128)]
    """Hash of the source's sums over all vnodes, and of the files compared by bytes; hexadecimal."""

    mismatches: Annotated[tuple[Mismatch, ...], Field(max_length=VNODES_MAX)] = ()
    """Vnodes in which the sides differ."""

    verified_at: Moment | None = None
    """Time, RFC 3339."""

    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Duration in seconds."""

    complete: bool = True
    """True if all of the source was compared. During the copy of the snapshot, only committed rows are."""

    rows_filtered: Count | None = None
    """Rows of the source, of those compared, that the filter left out; absent: there is no filter, or they were not counted."""

    rows_total: Count | None = None
    """Rows of the source in all, with those that the filter leaves out; absent: not counted."""

    files_by_bytes: Count = 0
    """Copied files whose bytes were read back, and are those of the source."""

    rows_by_rows: Count | None = None
    """Rows of the source that were compared as rows; absent: all."""

    partitions: Annotated[tuple[PartitionReceipt, ...], Field(max_length=PARTITIONS_MAX)] = ()
    """Each partition of a topic; empty: the source is a table, or the receipt was stored."""

    cut_off: Annotated[tuple[CutOff, ...], Field(max_length=PARTITIONS_MAX)] = ()
    """Offsets that the target lacks because of open transactions; then `complete` is false."""

    files: Annotated[tuple[FileMismatch, ...], Field(max_length=FILES_MAX)] = ()
    """Files that differ; both sides are equal where this is empty, and `mismatches` too."""

    condition: Condition = ""
    """SQL condition for the target's rows in the vnodes that differ, at most the first 100 of them; empty: there is none."""

    undo_version: Count | None = None
    """Version to which RESTORE undoes a job that fills columns of its table, with later changes of other writers; absent: other jobs."""

    @property
    def equal(self) -> bool:
        """True if both sides are equal."""
        return not (self.mismatches or self.files)

    @property
    def summary(self) -> ReceiptSummary:
        """The same in the form that a status keeps."""
        return ReceiptSummary(
            source_version=self.source_version,
            source_position=self.source_position,
            target_version=self.target_version,
            epoch=self.epoch,
            rows=self.rows,
            mismatches=len(self.mismatches),
            mismatched_vnodes=tuple(mismatch.vnode for mismatch in self.mismatches[:VNODES_SHOWN_MAX]),
            mismatch_map=mismatch_map((mismatch.vnode for mismatch in self.mismatches), self.vnodes),
            digest=self.digest,
            verified_at=self.verified_at,
            complete=self.complete,
            cut_off_partitions=len(self.cut_off),
            rows_filtered=self.rows_filtered,
            rows_total=self.rows_total,
            files_by_bytes=self.files_by_bytes,
            rows_by_rows=self.rows_by_rows,
            file_mismatches=len(self.files),
            mismatched_files=self.files[:FILES_SHOWN_MAX],
            condition=self.condition,
            undo_version=self.undo_version,
        )
