"""The way of each file of the pinned version of one job; found once, when it is first asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from backfill_core.protocol.work import FileRange
from backfill_core.transfer.facts import Computed, FileFacts, TableFacts, Taken, TransformFacts
from backfill_core.transfer.ways import Decoded, Reason, Way, of_file, of_table
from backfill_spark.opening.source import PinnedSource
from backfill_spark.ports.sink import SupportsCopies
from backfill_spark.ports.source import SupportsFiles
from backfill_spark.transfer.file_transfer import PlannedCopy

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
    """Of any file."""

    @classmethod
    def of(cls, job: OpenedJob) -> Self:
        """Ask source, transform and target; their plans are analysed, and no file is read."""
        source, sink, opened = job.source, job.sink, job.opened
        nothing = TableFacts(())
        if not (
            isinstance(opened, PinnedSource) and isinstance(source, SupportsFiles) and isinstance(sink, SupportsCopies)
        ):
            return cls(None, TransformFacts({}), nothing, nothing, Decoded(Reason.NO_STORE))
        known = job.transform.taken(job.spark, opened.schema)
        outputs = {name: Computed(name) if one is None else Taken(one) for name, one in known.items()}
        transform = TransformFacts(
            outputs, filters=job.transform.where is not None, adds_columns=bool(job.mode.columns)
        )
        table = source.table_facts()
        target = sink.table_facts(job.transform.output_schema(job.spark, opened.schema))
        return cls(source, transform, table, target, of_table(transform, table, target))

    def split(self, ranges: Sequence[FileRange]) -> tuple[list[PlannedRange], list[FileRange]]:
        """Return the whole files among some ranges that are copied, and the ranges that are decoded."""
        whole = [one for one in ranges if one.whole]
        if self.source is None or isinstance(self.best, Decoded) or not whole:
            return [], list(ranges)
        copied: list[PlannedRange] = []
        left = [one for one in ranges if not one.whole]
        for one, file in zip(whole, self.source.source_files([one.file for one in whole]), strict=True):
            planned = self.planned(file)
            if isinstance(planned, Decoded):
                left.append(one)
            else:
                copied.append((one, planned))
        return copied, left

    def planned(self, file: SourceFile) -> PlannedCopy | Decoded:
        """Return the copy of a file of this or a later version, or why it is decoded."""
        way, rows = self._way(file)
        if isinstance(way, Decoded):
            return way
        assert rows is not None
        return PlannedCopy(file, way, self._partition(file), rows)

    def counts(self, files: Sequence[int]) -> Counter[Way]:
        """Return how many of some files go each way."""
        if self.source is None or isinstance(self.best, Decoded):
            return Counter({self.best: len(files)})
        found = Counter[Way]()
        for at in range(0, len(files), BLOCK_FILES):
            found.update(self._way(file)[0] for file in self.source.source_files(files[at : at + BLOCK_FILES]))
        return found

    def _way(self, file: SourceFile) -> tuple[Way, int | None]:
        rows, nulls = file.counts([one.physical for one in self.table.columns])
        facts = FileFacts(rows, nulls, file.partition, file.vector is not None, file.is_elsewhere)
        return of_file(self.best, self.transform, self.table, self.target, facts), rows

    def _partition(self, file: SourceFile) -> dict[str, str | None]:
        """Return a file's partition values in the target."""
        known, wanted = self.table.by_name, self.target.by_name
        return {
            wanted[name].physical: file.partition[known[one.column].physical] or None
            for name, one in self.transform.outputs.items()
            if isinstance(one, Taken) and name in self.target.partitions
        }
