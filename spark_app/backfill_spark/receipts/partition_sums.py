"""Counts of a receipt per partition of a topic, for source and target, from the query that compares the rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from backfill_api.amounts import counted
from backfill_core.errors import DuplicateKeyError
from backfill_core.positions.offsets import OffsetRange, count
from backfill_core.protocol.receipt import PartitionComparison
from backfill_spark.delta.types import quoted
from backfill_spark.records.folding import (
    BAD,
    FIRST,
    LAST,
    PARTITION,
    RECORDS,
    SPREAD,
    SPREAD_HINT,
    FoldingTransform,
)
from backfill_spark.records.parsing import REASON, ParsingTransform, is_bad
from backfill_spark.rows.changes import DELETE
from backfill_spark.rows.transform import OURS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from backfill_spark.rows.transform import Transform

IS_ROW = f"{OURS}is_row"
TALLIED = (PARTITION, IS_ROW, RECORDS, BAD, FIRST, LAST, SPREAD)


@dataclass(frozen=True, slots=True)
class PlaceColumns:
    """Columns of the target that store the partition and the offset of a record."""

    partition: str
    offset: str


def place_columns(transform: Transform) -> PlaceColumns | None:
    """Return the target's columns with the source's partition and offset; `None` if the target does not store both."""
    partition, offset = (_kept_as(transform, name) for name in ("partition", "offset"))
    return None if partition is None or offset is None else PlaceColumns(partition, offset)


def _kept_as(transform: Transform, name: str) -> str | None:
    if transform.select is None or "*" in transform.select:
        return name
    pattern = re.compile(rf"\s*`?{name}`?(?:\s+(?:as\s+)?`?(\w+)`?)?\s*", re.IGNORECASE)
    matches = (pattern.fullmatch(text) for text in transform.select)
    return next((match[1] or name for match in matches if match is not None), None)


@dataclass(frozen=True)
class Tally:
    """Counts that each row of one side adds to its partition, as columns of that side."""

    partition: Column
    is_row: Column
    """True for a row of the target. Other rows are records without a row, and count only for their partition."""

    records: Column
    bad: Column
    first: Column
    """Offset of its first record."""

    last: Column
    spread: Column
    """True if its key has records in several partitions."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The same columns, named as in `TALLIED`."""
        given = (self.partition.cast("string"), self.is_row, self.records, self.bad, self.first, self.last)
        columns = (*given, self.spread.cast("int"))
        return tuple(column.alias(name) for column, name in zip(columns, TALLIED, strict=True))


@dataclass(frozen=True)
class Tallies:
    """Counts of both sides, and the compared offsets; a partition may have several ranges."""

    source: Tally
    target: Tally | None
    """`None` if the target does not store partition and offset."""

    ranges: tuple[OffsetRange, ...]


def tallied(records: DataFrame, transform: ParsingTransform) -> tuple[DataFrame, Tally]:
    """Return all records of the source with their rows, and their counts; parses each record once. Lazy."""
    judged = transform.judged(records)
    if isinstance(transform, FoldingTransform):
        given = (F.col(PARTITION), ~F.col(DELETE), *map(F.col, (RECORDS, BAD, FIRST, LAST, SPREAD)))
        return transform.tallied(judged), Tally(*given)
    is_row = F.col(REASON).isNull()
    named = zip(transform.columns, transform.names, strict=True)
    # Not filtered: records without a row count too.
    rows = (F.when(is_row, column).alias(name) for column, name in named)
    places = (F.col("partition").alias(PARTITION), F.col("offset").alias(FIRST), F.col(REASON))
    return judged.select(*rows, *places), _of_rows(F.col(PARTITION), F.col(FIRST), is_row, is_bad())


def target_tally(transform: Transform) -> Tally | None:
    """Return the counts of the target's rows; `None` if it does not store partition and offset."""
    places = place_columns(transform)
    if places is None:
        return None
    return _of_rows(F.col(quoted(places.partition)), F.col(quoted(places.offset)), F.lit(True), F.lit(False))


def _of_rows(partition: Column, offset: Column, is_row: Column, bad: Column) -> Tally:
    return Tally(partition, is_row, F.lit(1), bad.cast("int"), offset, offset, F.lit(False))


@dataclass(frozen=True, slots=True)
class PartitionSums:
    """Counts of one side for one partition."""

    rows: int = 0
    records: int = 0
    bad: int = 0
    spread: int = 0
    """Number of keys that have records in other partitions too."""

    first: int | None = None
    last: int | None = None


def partition_receipts(
    source: Mapping[str, PartitionSums], target: Mapping[str, PartitionSums] | None, ranges: Sequence[OffsetRange]
) -> tuple[PartitionComparison, ...]:
    """Return one receipt for each partition, in the order of their numbers.

    Args:
        source: Counts of the source; if the last record of a key decides, a row counts for that record's partition.
        target: Counts of the target; `None` if it does not store partition and offset.
        ranges: The compared offsets; a partition may have several ranges.

    Raises:
        DuplicateKeyError: the last record of each key decides, but records of a key are in several partitions.
    """
    spread = sum(sums.spread for sums in source.values())
    if spread:
        keys = f"{counted(spread, 'key')} with records in several partitions, whose order is undefined"
        raise DuplicateKeyError(f"{keys}: the last record of each key cannot be determined.", hint=SPREAD_HINT)
    by_partition: dict[str, list[OffsetRange]] = {}
    for offsets in ranges:
        by_partition.setdefault(offsets.partition, []).append(offsets)
    nothing = PartitionSums()
    return tuple(
        _receipt(name, spans, source.get(name, nothing), None if target is None else target.get(name, nothing))
        for name, spans in sorted(by_partition.items(), key=lambda item: (len(item[0]), item[0]))
    )


def _receipt(
    name: str, spans: list[OffsetRange], source: PartitionSums, target: PartitionSums | None
) -> PartitionComparison:
    return PartitionComparison(
        partition=name,
        start=min(span.start for span in spans),
        stop=max(span.stop for span in spans),
        offsets=count(tuple(spans)),
        records=source.records,
        first=source.first,
        last=source.last,
        bad_records=source.bad,
        rows=source.rows,
        target_rows=None if target is None else target.rows,
        target_first=None if target is None else target.first,
        target_last=None if target is None else target.last,
    )
