"""Comparison of a job's source and target for a receipt: the rows of both sides, and how many source rows they cover."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from backfill_core.errors import OffsetsExpiredError
from backfill_core.file_copies.proof import FileId, ProvenFiles
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.publication import ManifestPart
from backfill_core.protocol.receipt import FileDifference, PartitionComparison, ReceiptBasis, TableReceipt
from backfill_core.protocol.work import Covered, Position
from backfill_spark.delta.types import quoted
from backfill_spark.opening.source import PinnedSource
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.compared import ComparedRows
from backfill_spark.ports.sink import LiveTarget, SupportsPublication
from backfill_spark.ports.source import SupportsFiles, version_of
from backfill_spark.receipts.basis import basis_of
from backfill_spark.receipts.file_digests import FileProof, misstated_files
from backfill_spark.receipts.partition_sums import Tallies, place_columns, tallied, target_tally
from backfill_spark.receipts.row_sums import differing_rows, receipt_without_rows, take_receipt
from backfill_spark.records.folding import LAST, PARTITION, FoldingTransform
from backfill_spark.records.parsing import ParsingTransform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.opening.tables import Tables
    from backfill_spark.ports.sink import Sink
    from backfill_spark.rows.transform import Transform
    from backfill_spark.rows.write_modes import WriteMode

NO_PLACES = (
    "no receipt: the oldest compared records of the source are gone, and the target lacks their partition and offset."
)
NO_PLACES_HINT = (
    "Set verify: None. For receipts of later jobs, keep partition and offset in spec.transform.select, or let the source keep its records "
    "for longer."
)

Sides = tuple["DataFrame", "DataFrame"] | None
"""The transformed rows of the source, and the target's rows; `None` if no rows are to be compared."""


@dataclass(frozen=True)
class TableComparison:
    """One position of the source and one version of the target of a job."""

    source: ComparedRows
    sink: Sink
    transform: Transform
    key: tuple[str, ...]
    vnodes: int
    mode: WriteMode
    source_version: int | None
    """`None` if the source has no versions."""

    source_position: str
    """Position of the source, formatted by the source."""

    target_version: int
    """Version of the target that the receipt names."""

    read_version: int
    """Version of `sink` that is read: that of the target, or of a table of its staged files."""

    complete: bool
    """True if the comparison covers the whole source."""

    head: Callable[[], Position]
    """Reads the newest position of the source."""

    files: FileProof | None
    """Comparison of files by their bytes; `None` if everything is compared by rows."""

    check: Callable[[], None]
    """Called often while files are read; an exception that it raises ends the reading."""

    misstated: Callable[[], tuple[FileDifference, ...]] | None = None
    """Compares the statistics of all files of the target with their values; `None` if only doubtful ones are compared."""

    scope: str | None = None
    """Condition on the target's rows that are compared; `None` compares all of them."""

    target_rows: DataFrame | None = None
    """Rows of the target; `None` for all rows of `read_version`."""

    cut_off: tuple[OffsetRange, ...] = ()
    """Offsets of the source that open transactions hide from every reader of committed records."""

    basis: Callable[[], ReceiptBasis | None] = lambda: None
    """Reads the tables, columns and transform that the receipt names."""

    def receipt(self, *, epoch: int) -> TableReceipt:
        """Compare both sides and return the receipt.

        Reads both sides once; for files proven by their bytes, it reads only the target's.
        """
        began_s = time.monotonic()
        receipt = self._with_files(
            self._taken(self.sides(), epoch) if self.source.ranges is None else self._tallied(epoch)
        )
        receipt = self._whole(receipt, epoch)
        if self.misstated is not None:
            wrong = tuple(file for file in self.misstated() if file not in receipt.files)
            receipt = replace(receipt, files=(*receipt.files, *wrong))
        return replace(receipt, basis=self.basis(), seconds=round(time.monotonic() - began_s, 3))

    def _whole(self, receipt: TableReceipt, epoch: int) -> TableReceipt:
        partitions, left = receipt.partitions, None if receipt.equal else self._left()
        if left is not None:
            receipt = self._taken(left, epoch)
        # If the last record of a key decides, the number of records that the filter rejects is undefined.
        filtered = self.transform.where is not None and not isinstance(self.transform, FoldingTransform)
        covered = self._covered(partitions) if filtered else receipt.rows
        return replace(
            receipt,
            source_position=self.source_position,
            complete=self.complete,
            cut_off=self.cut_off,
            rows_filtered=max(0, covered - receipt.rows) if filtered else None,
            rows_total=covered if self.source.total is None else self.source.total,
            partitions=partitions,
        )

    def _with_files(self, receipt: TableReceipt) -> TableReceipt:
        """Return a receipt of rows with the results of the comparison by files added."""
        proven = self.proven
        # If a MERGE by key writes the target, missing or changed files prove nothing.
        notes = proven.notes if receipt.mismatches and not self.mode.merges else ()
        if not (proven.source_paths or proven.wrong or notes):
            return receipt
        both = hashlib.sha256(f"{receipt.digest}\n{proven.digest}\n".encode()).hexdigest()
        return replace(
            receipt,
            rows=receipt.rows + proven.rows,
            rows_by_rows=receipt.rows,
            files_by_bytes=proven.files,
            files=(*proven.wrong, *notes),
            digest=both if proven.digest else receipt.digest,
        )

    def _tallied(self, epoch: int) -> TableReceipt:
        """Return the receipt of a source with offsets, including its partitions."""
        transform, ranges = self.transform, self.source.ranges
        assert isinstance(transform, ParsingTransform), "a source with offsets has a transform of records"
        assert ranges is not None
        source, tally = tallied(self.source.rows, transform)
        sides = self.sink.as_stored(source), self._target()
        return self._taken(sides, epoch, Tallies(tally, target_tally(transform), ranges))

    def _taken(self, sides: Sides, epoch: int, tallies: Tallies | None = None) -> TableReceipt:
        if sides is None:
            return receipt_without_rows(self.vnodes, self.source_version, self.target_version, epoch)
        source, target = sides
        return take_receipt(
            source,
            target,
            key=self.key,
            vnodes=self.vnodes,
            source_version=self.source_version,
            target_version=self.target_version,
            epoch=epoch,
            mode=self.mode,
            tallies=tallies,
        )

    def _left(self) -> Sides:
        """Return both sides without rows that prove nothing, if the source removes records that newer ones replaced.

        A record behind a target row may be deleted, or its key may have newer records by now.
        Returns `None` if the source keeps all compared records, or if the target does not store partition and offset.
        """
        later, sides = self.source.later(self.head()), self.sides()
        if later is None or sides is None:
            return None
        source, target = sides
        if isinstance(self.transform, FoldingTransform):
            replaced = self.transform.folded(self.transform.judged(later)).select(*map(quoted, self.key))
            return source.join(replaced, list(self.key), "left_anti"), target.join(
                replaced, list(self.key), "left_anti"
            )
        places = place_columns(self.transform)
        if places is None:
            return None
        existing = self.source.rows.select(
            F.col("partition").cast("string").alias(PARTITION), F.col("offset").alias(LAST)
        )
        of_partition = F.col(quoted(places.partition)).cast("string") == F.col(PARTITION)
        return source, target.join(existing, of_partition & (F.col(quoted(places.offset)) == F.col(LAST)), "left_semi")

    def _covered(self, partitions: tuple[PartitionComparison, ...]) -> int:
        """Return the number of compared source rows, without bad records and offsets that hold no record."""
        if self.source.ranges is None:
            return self.source.count()
        return sum(partition.records - partition.bad_records for partition in partitions)

    def examples(self, receipt: TableReceipt) -> list[tuple[str, dict[str, Any]]]:
        """Return rows that differ; reads both sides again."""
        sides = self.sides()
        if sides is None or not receipt.mismatches:
            return []
        source, target = sides
        wrong = tuple(mismatch.vnode for mismatch in receipt.mismatches)
        return differing_rows(source, target, key=self.key, vnodes=self.vnodes, wrong=wrong, mode=self.mode)

    @cached_property
    def proven(self) -> ProvenFiles:
        """Return the result of the comparison by files; the first call reads the copied files of the target back."""
        return ProvenFiles() if self.files is None else self.files.proven(self.check)

    def sides(self) -> Sides:
        """Return the rows that are compared as rows; `None` if files prove everything. Lazy, but copied files are read back."""
        source, target = self.source.rows, self._target()
        if self.transform.where is not None and self.source.files is not None:
            # Reads every file: a filter in the query would skip files whose wrong statistics exclude rows that they contain.
            source = self.source.files.without(frozenset())
        if self.files is not None and self.proven.source_paths:
            rest = self.files.rest(self.proven)
            if rest is None:
                return None
            source, target = rest
        return self.sink.as_stored(self.transform.apply(source)), target

    def _target(self) -> DataFrame:
        """Return the rows of the target that are compared, without rows whose records the source has deleted. Lazy.

        Raises:
            OffsetsExpiredError: records are gone, and the target does not show which of its rows come from them.
        """
        target = self.sink.at(self.read_version) if self.target_rows is None else self.target_rows
        target = target if self.scope is None else target.where(self.scope)
        if not self.source.oldest:
            return target
        if isinstance(self.transform, FoldingTransform):
            # The last record of other keys is gone.
            remaining = self.transform.folded(self.transform.judged(self.source.rows))
            return target.join(remaining.select(*map(quoted, self.key)), list(self.key), "left_semi")
        places = place_columns(self.transform)
        if places is None:
            raise OffsetsExpiredError(NO_PLACES, hint=NO_PLACES_HINT)
        oldest = F.create_map(*(F.lit(value) for entry in self.source.oldest.items() for value in entry))
        first = F.try_element_at(oldest, F.col(quoted(places.partition)).cast("string"))
        return target.where(F.col(quoted(places.offset)) >= F.coalesce(first, F.lit(0)))


def _compared(tables: Tables, position: Position, covered: Covered) -> tuple[ComparedRows, DataFrame | None]:
    """Return the rows of the source, and those of the target; `None` for all rows of the target.

    Of a live table these are the rows of files that the job fills, before and after; until all are filled, those of filled files.
    """
    live = tables.sink
    if not isinstance(live, LiveTarget):
        prefix = tables.row_offsets if isinstance(tables.opened, PinnedSource) else ()
        return tables.opened.compared(position, covered, prefix), None
    files = live.files_to_fill(position) if covered is None else live.filled_files(position)
    before, after = (
        ability(tables.source, SupportsFiles).rows_of(side, position) for side in (files.before, files.after)
    )
    return ComparedRows(before, before.count, None if covered is None else tables.opened.rows), after


def compare(
    tables: Tables,
    position: Position,
    *,
    target_version: int,
    covered: Covered,
    cut_off: tuple[OffsetRange, ...] = (),
    check: Callable[[], None],
    staged: tuple[ManifestPart, ...] | None = None,
    by_rows: bool = False,
    statistics: bool = False,
    read_back: frozenset[FileId] = frozenset(),
) -> TableComparison:
    """Return the two sides of a receipt.

    Args:
        tables: Source and target.
        position: Position of the source.
        target_version: Version of the target.
        covered: Part of the position that is compared; `None` compares all of it.
        cut_off: Offsets after the position that no reader may read, because an open transaction precedes them.
        check: Called often while files are read; an exception that it raises ends the comparison.
        staged: Parts of a manifest, whose files are compared, all by rows, in place of the target's; `None` to compare the target.
        by_rows: Compare rows, also the rows of files that were copied.
        statistics: Compare the statistics of all files of the target with the files' values; implied by `by_rows`.
        read_back: Files of the target that this process has proven already; their bytes are not read again.
    """
    live = isinstance(tables.sink, LiveTarget)
    # Source and target are then one table: filled rows are compared with those of the files that they replaced.
    target_version = position if live else target_version
    source, target_rows = _compared(tables, position, covered)
    by_rows = by_rows or tables.spec.verify == "FinalByRows"
    scope = tables.spec.target.params.scope  # the other rows and files of the target are not from this job
    by_files, statistics = not (by_rows or scope or live or staged is not None), statistics or (by_rows and not scope)
    read = tables.sink, target_version
    if staged is not None:
        read = ability(tables.sink, SupportsPublication).staged_table(staged, target_version)
        tables = replace(tables, sink=read[0])
    return TableComparison(
        source=source,
        files=FileProof.of(tables, source.files, target_version, read_back) if by_files else None,
        misstated=(lambda: misstated_files(tables, read[1])) if statistics else None,
        scope=scope if staged is None else None,
        target_rows=target_rows,
        check=check,
        sink=tables.sink,
        transform=tables.transform,
        key=tables.key,
        vnodes=tables.spec.strategy.params.vnodes,
        mode=tables.mode,
        source_version=version_of(position),
        source_position=tables.source_plugin.format_position(position),
        target_version=target_version,
        read_version=read[1],
        complete=covered is None and not cut_off,
        cut_off=cut_off,
        head=lambda: tables.source.head().position,
        basis=(lambda: basis_of(tables, version_of(position), target_version)) if staged is None else (lambda: None),
    )
