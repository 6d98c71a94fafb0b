"""A receipt by partition: what each partition of a topic has, and what the target has of it; in the query that compares the rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from backfill_api.amounts import counted
from backfill_core.errors import DuplicateKeyError
from backfill_core.positions.offsets import OffsetRange, count
from backfill_core.protocol.receipt import PartitionReceipt
from backfill_spark.rows.changes import DELETE
from backfill_spark.rows.columns import quoted
from backfill_spark.rows.records.folding import (
    BAD,
    FIRST,
    LAST,
    PARTITION,
    RECORDS,
    SPREAD,
    SPREAD_HINT,
    FoldingTransform,
)
from backfill_spark.rows.records.parsing import REASON, ParsingTransform, is_bad
from backfill_spark.rows.transform import OURS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from backfill_spark.rows.transform import Transform

IS_ROW = f"{OURS}is_row"
TALLIED = (PARTITION, IS_ROW, RECORDS, BAD, FIRST, LAST, SPREAD)


@dataclass(frozen=True, slots=True)
class PlaceColumns:
    """Where the target keeps the partition and the offset of a record."""

    partition: str
    offset: str


def place_columns(transform: Transform) -> PlaceColumns | None:
    """Return where the target keeps partition and offset, as the source has them; None: it does not keep both."""
    partition, offset = (_kept_as(transform, name) for name in ("partition", "offset"))
    return None if partition is None or offset is None else PlaceColumns(partition, offset)


def _kept_as(transform: Transform, name: str) -> str | None:
    if transform.select is None or "*" in transform.select:
        return name
    pattern = re.compile(rf"\s*`?{name}`?(?:\s+(?:as\s+)?`?(\w+)`?)?\s*", re.IGNORECASE)
    found = (pattern.fullmatch(text) for text in transform.select)
    return next((match[1] or name for match in found if match is not None), None)


@dataclass(frozen=True)
class Tally:
    """What each row of one side counts for its partition, as columns of that side."""

    partition: Column
    is_row: Column
    """Is it a row of the target? Else it is a record that is none, and counts for its partition alone."""

    records: Column
    bad: Column
    first: Column
    """The offset of the first of its records."""

    last: Column
    spread: Column
    """Has its key records in several partitions?"""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The same by the names in `TALLIED`."""
        given = (self.partition.cast("string"), self.is_row, self.records, self.bad, self.first, self.last)
        return tuple(one.alias(name) for one, name in zip((*given, self.spread.cast("int")), TALLIED, strict=True))


@dataclass(frozen=True)
class Tallies:
    """What both sides count, and at which offsets; a partition may have several ranges."""

    source: Tally
    target: Tally | None
    """None: it does not keep the places."""

    ranges: tuple[OffsetRange, ...]


def tallied(records: DataFrame, transform: ParsingTransform) -> tuple[DataFrame, Tally]:
    """Return all records of the source, transformed where they are rows, and what they count; parses each once. Lazy."""
    judged = transform.judged(records)
    if isinstance(transform, FoldingTransform):
        given = (F.col(PARTITION), ~F.col(DELETE), *map(F.col, (RECORDS, BAD, FIRST, LAST, SPREAD)))
        return transform.tallied(judged), Tally(*given)
    is_row = F.col(REASON).isNull()
    named = zip(transform.columns, transform.names, strict=True)
    # Not filtered: a record that is no row counts too.
    rows = (F.when(is_row, column).alias(name) for column, name in named)
    places = (F.col("partition").alias(PARTITION), F.col("offset").alias(FIRST), F.col(REASON))
    return judged.select(*rows, *places), _of_rows(F.col(PARTITION), F.col(FIRST), is_row, is_bad())


def target_tally(transform: Transform) -> Tally | None:
    """Return what the rows of the target count; None: it does not keep partition and offset."""
    places = place_columns(transform)
    if places is None:
        return None
    return _of_rows(F.col(quoted(places.partition)), F.col(quoted(places.offset)), F.lit(True), F.lit(False))


def _of_rows(partition: Column, offset: Column, is_row: Column, bad: Column) -> Tally:
    return Tally(partition, is_row, F.lit(1), bad.cast("int"), offset, offset, F.lit(False))


@dataclass(frozen=True, slots=True)
class PartitionSums:
    """What one side has of one partition."""

    rows: int = 0
    records: int = 0
    bad: int = 0
    spread: int = 0
    """Keys that have records elsewhere too."""

    first: int | None = None
    last: int | None = None


def partition_receipts(
    source: Mapping[str, PartitionSums], target: Mapping[str, PartitionSums] | None, ranges: Sequence[OffsetRange]
) -> tuple[PartitionReceipt, ...]:
    """Return one for each partition, in the order of their numbers.

    Args:
        source: Of the source, by partition; where the last record of a key decides, a row counts for the partition of that record.
        target: Of the target; None: it does not keep the places.
        ranges: What is compared; a partition may have several.

    Raises:
        DuplicateKeyError: the last record of a key would have to decide, and records of a key are in several partitions.
    """
    spread = sum(one.spread for one in source.values())
    if spread:
        words = f"{counted(spread, 'key')} with records in several partitions, whose order nothing tells"
        raise DuplicateKeyError(f"{words}: which of them the target should hold is unknown.", hint=SPREAD_HINT)
    by_partition: dict[str, list[OffsetRange]] = {}
    for one in ranges:
        by_partition.setdefault(one.partition, []).append(one)
    nothing = PartitionSums()
    return tuple(
        _receipt(name, spans, source.get(name, nothing), None if target is None else target.get(name, nothing))
        for name, spans in sorted(by_partition.items(), key=lambda one: (len(one[0]), one[0]))
    )


def _receipt(
    name: str, spans: list[OffsetRange], source: PartitionSums, target: PartitionSums | None
) -> PartitionReceipt:
    return PartitionReceipt(
        partition=name,
        start=min(one.start for one in spans),
        stop=max(one.stop for one in spans),
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
