"""Source and target of a job, made comparable: what the receipt reads on both sides, and how much of the source that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from backfill_core.positions.file_ranges import file_ranges
from backfill_core.protocol.receipt import Receipt
from backfill_core.protocol.work import FileRange
from backfill_spark.rows.verification import differing_rows, take_receipt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.ports.sink import Sink
    from backfill_spark.ports.source import Source
    from backfill_spark.rows.transform import Transform
    from backfill_spark.rows.write_modes import WriteMode


@dataclass(frozen=True)
class Comparison:
    """One source version and one target version of a job."""

    source: Source
    sink: Sink
    transform: Transform
    key: tuple[str, ...]
    vnodes: int
    prefix: Sequence[int]
    """Prefix sums of the rows of the pinned version's files."""

    mode: WriteMode
    source_version: int
    target_version: int
    done: tuple[tuple[int, int], ...] | None
    """Sealed intervals of the snapshot's line; None: all of it."""

    def receipt(self, *, epoch: int) -> Receipt:
        """Compare; reads both sides once."""
        source, target = self._sides()
        receipt = take_receipt(
            source,
            target,
            key=self.key,
            vnodes=self.vnodes,
            source_version=self.source_version,
            target_version=self.target_version,
            epoch=epoch,
            mode=self.mode,
        )
        complete = self.done is None
        covered = receipt.rows if self.transform.where is None else self._source_rows()
        return replace(
            receipt,
            complete=complete,
            rows_filtered=None if self.transform.where is None else max(0, covered - receipt.rows),
            rows_total=covered if complete else self.source.pinned_rows,
        )

    def examples(self, receipt: Receipt) -> list[tuple[str, dict[str, Any]]]:
        """Return rows that differ; reads both sides again."""
        source, target = self._sides()
        wrong = tuple(one.vnode for one in receipt.mismatches)
        return differing_rows(source, target, key=self.key, vnodes=self.vnodes, wrong=wrong, mode=self.mode)

    def _sides(self) -> tuple[DataFrame, DataFrame]:
        rows = self.source.at(self.source_version) if self.done is None else self.source.read(self.ranges())
        return self.sink.as_stored(self.transform.apply(rows)), self.sink.at(self.target_version)

    def ranges(self) -> tuple[FileRange, ...]:
        """Return the file ranges that are compared; none when all of the snapshot is."""
        return tuple(one for start, stop in self.done or () for one in file_ranges(self.prefix, start, stop))

    def _source_rows(self) -> int:
        """Return how many rows of the source are compared, with those that the filter leaves out.

        A sub-file range has its rows in the mean only; of the rest the metadata knows.
        """
        if self.done is None:
            return self.source.rows_at(self.source_version)
        found = self.ranges()
        whole = self.source.live_rows([one for one in found if one.whole])
        return whole + sum(
            (one.stop - one.start) * self.source.live_rows([one]) // one.of for one in found if not one.whole
        )
