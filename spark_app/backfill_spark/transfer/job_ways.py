"""The way of each file of the pinned version of one job; found once, when it is first asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

from backfill_core.protocol.work import FileRange
from backfill_core.transfer.facts import TEXT, ColumnFacts, Computed, FileFacts, TableFacts, Taken, TransformFacts
from backfill_core.transfer.filters import is_opaque
from backfill_core.transfer.unknown_columns import kept_of_files, likely
from backfill_core.transfer.ways import Decoded, Excluded, Grafted, Projected, Reason, Way, Whole, of_file, of_table
from backfill_spark.opening.source import PinnedSource
from backfill_spark.ports.sink import SupportsCopies
from backfill_spark.ports.source import SupportsFiles
from backfill_spark.transfer.file_transfer import PlannedCopy
from backfill_spark.transfer.file_values import FilterColumns

if TYPE_CHECKING:
    from backfill_spark.delta.source_file import SourceFile
    from backfill_spark.driver.job_context import OpenedJob

PlannedRange = tuple[FileRange, PlannedCopy]
"""A whole file of the pinned version, and how it is copied."""

BLOCK_FILES = 1024
"""Files of which the log is read at once."""


@dataclass(frozen=True)
class JobWays:
    """See the module."""

    source: SupportsFiles | None
    """None: each file is decoded."""

    transform: TransformFacts
    table: TableFacts
    target: TableFacts
    best: Way
    """Of any file whose rows all pass the filter."""

    filtered: FilterColumns
    """Those that the filter asks for."""

    @classmethod
    def of(cls, job: OpenedJob) -> Self:
        """Ask source, transform and target; their plans are analysed, and no file is read."""
        source, sink, opened = job.source, job.sink, job.opened
        nothing = TableFacts(())
        if not (
            isinstance(opened, PinnedSource) and isinstance(source, SupportsFiles) and isinstance(sink, SupportsCopies)
        ):
            return cls(None, TransformFacts({}), nothing, nothing, Decoded(Reason.NO_STORE), FilterColumns())
        known = job.transform.taken(job.spark, opened.schema)
        failing = job.transform.may_fail(job.spark, opened.schema) if None in known.values() else {}
        outputs = {name: Computed(name, failing[name]) if one is None else Taken(one) for name, one in known.items()}
        condition = job.transform.condition(job.spark, opened.schema)
        transform = TransformFacts(outputs, condition, adds_columns=bool(job.mode.columns))
        table = source.table_facts()
        target = sink.table_facts(job.transform.output_schema(job.spark, opened.schema))
        filtered = FilterColumns.of(condition, table, opened.schema)
        return cls(source, transform, table, target, of_table(transform, table, target), filtered)

    @property
    def decodes(self) -> bool:
        """Is no file copied? Each one is decoded, or excluded by the filter."""
        return isinstance(self.best, Decoded)

    def split(self, ranges: Sequence[FileRange]) -> tuple[list[PlannedRange], list[FileRange]]:
        """Return the whole files among some ranges that are copied, and the ranges that are decoded.

        A range that is in neither has no row that passes the filter.
        """
        if self.source is None or self._all_decoded:
            return [], list(ranges)
        copied: list[PlannedRange] = []
        left: list[FileRange] = []
        for one, file in zip(ranges, self.source.source_files([one.file for one in ranges]), strict=True):
            planned = self.planned(file)
            if isinstance(planned, PlannedCopy) and one.whole:
                copied.append((one, planned))
            elif not isinstance(planned, Excluded):
                left.append(one)
        return copied, left

    def included(self, ranges: Sequence[FileRange]) -> list[FileRange]:
        """Return the ranges that may have rows that pass the filter."""
        copied, left = self.split(ranges)
        kept = {*(one for one, _ in copied), *left}
        return [one for one in ranges if one in kept]

    def planned(self, file: SourceFile) -> PlannedCopy | Decoded | Excluded:
        """Return the copy of a file of this or a later version, or why there is none."""
        way, rows = self._way(file)
        match way:
            case Whole() | Projected() | Grafted():
                assert rows is not None
                return PlannedCopy(file, way, self.partition(file), rows, self._kept)
        return way

    @cached_property
    def _kept(self) -> TableFacts:
        return kept_of_files(self.table, self.transform)

    @property
    def _all_decoded(self) -> bool:
        """Is each file decoded, whatever is in it?"""
        condition = self.transform.condition
        return self.decodes and (condition is None or is_opaque(condition))

    def counts(self, files: Sequence[int]) -> Counter[Way]:
        """Return how many of some files go each way, as far as it is known without their footers."""
        if self.source is None or self._all_decoded:
            return Counter({self.best: len(files)})
        found = Counter[Way]()
        for at in range(0, len(files), BLOCK_FILES):
            block = self.source.source_files(files[at : at + BLOCK_FILES])
            found.update(likely(self._way(file)[0], self.table) for file in block)
        return found

    def emptied(self, files: Sequence[int]) -> Counter[str]:
        """Return how many of some files have an empty text for which the target stores null, by its partition column."""
        found = Counter[str]()
        if self.source is None or self.target.keeps_empty_texts or not self.target.partitions:
            return found
        columns = [(name, column) for name, column in self._partition_columns().items() if column.type == TEXT]
        for at in range(0, len(files), BLOCK_FILES) if columns else ():
            for file in self.source.source_files(files[at : at + BLOCK_FILES]):
                found.update(name for name, column in columns if file.partition.get(column.physical) == "")
        return found

    def _partition_columns(self) -> dict[str, ColumnFacts]:
        """Return the columns of the source that the target is partitioned by, by their names in the target."""
        known = self.table.by_name
        return {
            name: known[one.column]
            for name, one in self.transform.outputs.items()
            if isinstance(one, Taken) and name in self.target.partitions
        }

    def _way(self, file: SourceFile) -> tuple[Way, int | None]:
        rows, nulls = file.counts([one.physical for one in self.table.columns])
        values = self.filtered.values(file)
        facts = FileFacts(rows, nulls, file.partition, values, file.vector is not None, file.is_elsewhere)
        return of_file(self.best, self.transform, self.table, self.target, facts), rows

    def partition(self, file: SourceFile) -> dict[str, str | None]:
        """Return a file's partition values as the target stores them."""
        wanted = self.target.by_name
        return {
            wanted[name].physical: self.target.stored_partition(file.partition.get(column.physical), column)
            for name, column in self._partition_columns().items()
        }
