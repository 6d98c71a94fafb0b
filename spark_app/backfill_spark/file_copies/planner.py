"""Copy mode of each file of a job's pinned version; determined once, at the first use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

from backfill_core.file_copies.copy_modes import (
    CopyMode,
    Decoded,
    Excluded,
    Hiding,
    PartlyComputed,
    Projected,
    Reason,
    Whole,
    of_file,
    of_table,
)
from backfill_core.file_copies.facts import TEXT, ColumnFacts, Computed, FileFacts, TableFacts, Taken, TransformFacts
from backfill_core.file_copies.filters import is_opaque
from backfill_core.file_copies.unknown_columns import kept_of_files, likely
from backfill_core.positions.file_ranges import FileRange
from backfill_spark.file_copies.copied_files import PlannedCopy
from backfill_spark.file_copies.file_values import FilterColumns
from backfill_spark.opening.source import PinnedSource
from backfill_spark.ports.sink import SupportsCopies
from backfill_spark.ports.source import SupportsFiles

if TYPE_CHECKING:
    from backfill_spark.delta.source_file import SourceFile
    from backfill_spark.opening.tables import Tables

PlannedRange = tuple[FileRange, PlannedCopy]
"""A whole file of the pinned version, with its copy."""

BLOCK_FILES = 1024
"""Number of files whose log entries are read at once."""


@dataclass(frozen=True)
class JobCopyModes:
    """Facts of source, transform and target, from which the copy mode of each file follows."""

    source: SupportsFiles | None
    """The source; `None` if every file is decoded."""

    transform: TransformFacts
    table: TableFacts
    target: TableFacts
    best: CopyMode
    """Best copy mode of a file whose rows all pass the filter; facts of a file may require another mode."""

    filtered: FilterColumns
    """Columns that the filter uses."""

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """Collect the facts of source, transform and target; analyzes plans, but reads no file."""
        source, sink, opened = tables.source, tables.sink, tables.opened
        nothing = TableFacts(())
        if not (
            isinstance(opened, PinnedSource) and isinstance(source, SupportsFiles) and isinstance(sink, SupportsCopies)
        ):
            return cls(None, TransformFacts({}), nothing, nothing, Decoded(Reason.NO_STORE), FilterColumns())
        copied = tables.transform.taken(tables.spark, opened.schema)
        failing = tables.transform.may_fail(tables.spark, opened.schema) if None in copied.values() else {}
        outputs = {
            name: Computed(name, failing[name]) if column is None else Taken(column) for name, column in copied.items()
        }
        condition = tables.transform.condition(tables.spark, opened.schema)
        hides = tables.spec.target.params.hides_rows
        transform = TransformFacts(outputs, condition, adds_columns=bool(tables.mode.columns), hides=hides)
        table = source.table_facts()
        target = sink.table_facts(tables.transform.output_schema(tables.spark, opened.schema))
        filtered = FilterColumns.of(condition, table, opened.schema)
        return cls(source, transform, table, target, of_table(transform, table, target), filtered)

    @property
    def decodes(self) -> bool:
        """True if no file is copied: each one is decoded, or excluded by the filter."""
        return isinstance(self.best, Decoded)

    @property
    def decodes_columns(self) -> bool:
        """True if Spark decodes every file that passes the filter, or at least the columns from which others are computed."""
        return isinstance(self.best, Decoded | PartlyComputed)

    def split(self, ranges: Sequence[FileRange]) -> tuple[list[PlannedRange], list[FileRange]]:
        """Return the whole files among some ranges that are copied, and the ranges that are decoded.

        A range in neither list has no row that passes the filter.
        """
        if self.source is None or self._all_decoded:
            return [], list(ranges)
        copied: list[PlannedRange] = []
        left: list[FileRange] = []
        for part, file in zip(ranges, self.source.source_files([part.file for part in ranges]), strict=True):
            planned = self.planned(file)
            if isinstance(planned, PlannedCopy) and part.whole:
                copied.append((part, planned))
            elif not isinstance(planned, Excluded):
                left.append(part)
        return copied, left

    def included(self, ranges: Sequence[FileRange]) -> list[FileRange]:
        """Return the ranges that may have rows that pass the filter."""
        copied, left = self.split(ranges)
        kept = {*(part for part, _ in copied), *left}
        return [part for part in ranges if part in kept]

    def planned(self, file: SourceFile) -> PlannedCopy | Decoded | Excluded:
        """Return the copy of a file of this or a later version, or the reason why it is not copied."""
        mode, rows = self._mode(file)
        match mode:
            case Whole() | Projected() | PartlyComputed():
                assert rows is not None
                return PlannedCopy(file, mode, self.partition(file), rows, self._kept)
            case Hiding(mode=copying):
                assert rows is not None
                return PlannedCopy(file, copying, self.partition(file), rows, self._kept, is_unfiltered=True)
        return mode

    @cached_property
    def _kept(self) -> TableFacts:
        return kept_of_files(self.table, self.transform)

    @property
    def _all_decoded(self) -> bool:
        """True if every file is decoded, for any contents."""
        condition = self.transform.condition
        return self.decodes and (condition is None or is_opaque(condition))

    def counts(self, files: Sequence[int]) -> Counter[CopyMode]:
        """Return the number of files per copy mode, as an estimate without their footers."""
        if self.source is None or self._all_decoded:
            return Counter({self.best: len(files)})
        counts = Counter[CopyMode]()
        for at in range(0, len(files), BLOCK_FILES):
            block = self.source.source_files(files[at : at + BLOCK_FILES])
            counts.update(likely(self._mode(file)[0], self.table) for file in block)
        return counts

    def unfiltered(self, files: Sequence[int]) -> Iterator[PlannedCopy]:
        """Yield the copies among files whose failing rows must be counted."""
        if self.source is not None and self.transform.hides and not self.decodes:
            for at in range(0, len(files), BLOCK_FILES):
                planned = map(self.planned, self.source.source_files(files[at : at + BLOCK_FILES]))
                yield from (copy for copy in planned if isinstance(copy, PlannedCopy) and copy.is_unfiltered)

    def emptied(self, files: Sequence[int]) -> Counter[str]:
        """Return, per partition column, the number of files with an empty string, which the target stores as null."""
        counts = Counter[str]()
        if self.source is None or self.target.keeps_empty_texts or not self.target.partitions:
            return counts
        columns = [(name, column) for name, column in self._partition_columns().items() if column.type == TEXT]
        for at in range(0, len(files), BLOCK_FILES) if columns else ():
            for file in self.source.source_files(files[at : at + BLOCK_FILES]):
                counts.update(name for name, column in columns if file.partition.get(column.physical) == "")
        return counts

    def _partition_columns(self) -> dict[str, ColumnFacts]:
        """Return the source columns by which the target is partitioned, by their names in the target."""
        columns = self.table.by_name
        return {
            name: columns[output.column]
            for name, output in self.transform.outputs.items()
            if isinstance(output, Taken) and name in self.target.partitions
        }

    def _mode(self, file: SourceFile) -> tuple[CopyMode, int | None]:
        rows, nulls = file.counts(self._without_nulls)
        values = self.filtered.values(file)
        facts = FileFacts(rows, nulls, file.partition, values, file.vector is not None, file.is_elsewhere)
        return of_file(self.best, self.transform, self.table, self.target, facts), rows

    @cached_property
    def _without_nulls(self) -> tuple[str, ...]:
        """Physical names of the columns whose values in the target may not be null; only of these does a null count matter."""
        columns, outputs = self.table.by_name, self.target.by_name
        return tuple(
            columns[output.column].physical
            for name, output in self.transform.outputs.items()
            if isinstance(output, Taken) and name in outputs and not outputs[name].takes_null
        )

    def partition(self, file: SourceFile) -> dict[str, str | None]:
        """Return a file's partition values as the target stores them."""
        columns = self.target.by_name
        return {
            columns[name].physical: self.target.stored_partition(file.partition.get(column.physical), column)
            for name, column in self._partition_columns().items()
        }
