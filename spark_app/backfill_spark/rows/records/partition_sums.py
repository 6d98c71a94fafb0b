"""A receipt by partition: what each partition of a topic has, and what the target has of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_core.errors import DuplicateKeyError
from backfill_core.positions.offsets import OffsetRange, count
from backfill_core.protocol.receipt import PartitionReceipt
from backfill_spark.rows.changes import ADD
from backfill_spark.rows.columns import quoted
from backfill_spark.rows.records.folding import PARTITION, SPREAD_HINT, FoldingTransform
from backfill_spark.rows.records.parsing import fates

if TYPE_CHECKING:
    from pyspark.sql import Column

    from backfill_spark.rows.transform import Transform

SOURCE, TARGET, FOLDED = 0, 1, 2
_NO_OFFSET = "__backfill_no_offset"


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


def partition_receipts(
    records: DataFrame, target: DataFrame, transform: Transform, ranges: Sequence[OffsetRange]
) -> tuple[PartitionReceipt, ...]:
    """Count the records of each partition, and the rows that the target has of it; reads both sides once.

    Args:
        records: Of the source, at the offsets of `ranges`, before the transform.
        target: The target's rows.
        transform: Of the job.
        ranges: What is compared; a partition may have several.

    Returns:
        One for each partition, in the order of their numbers; without target rows where the target does not keep the places.
        Where the last record of a key decides, a row counts for the partition of that record.

    Raises:
        DuplicateKeyError: it would have to decide, and records of a key are in several partitions.
    """
    is_bad, is_row = fates(transform)
    sides = [_sums(records, SOURCE, "partition", "offset", is_bad, is_row)]
    places = place_columns(transform)
    if places is not None:
        sides.append(_sums(target, TARGET, places.partition, places.offset, F.lit(False), F.lit(True)))
    if isinstance(transform, FoldingTransform):
        folded, spread = transform.apply(records, PARTITION, ADD), F.col(ADD) > 1
        sides.append(
            _sums(folded.withColumn(_NO_OFFSET, F.lit(None)), FOLDED, PARTITION, _NO_OFFSET, spread, F.lit(True))
        )
    found = {(row["side"], row["partition"]): row for row in reduce(DataFrame.unionAll, sides).collect()}
    doubled = sum(row["bad"] for (side, _), row in found.items() if side == FOLDED)
    if doubled:
        words = f"{doubled:,} keys have records in several partitions, whose order nothing tells"
        raise DuplicateKeyError(f"{words}: which of them the target should hold is unknown.", hint=SPREAD_HINT)
    told_by = FOLDED if isinstance(transform, FoldingTransform) else SOURCE
    rows = {name: row["rows"] for (side, name), row in found.items() if side == told_by}
    by_partition: dict[str, list[OffsetRange]] = {}
    for one in ranges:
        by_partition.setdefault(one.partition, []).append(one)
    return tuple(
        _receipt(
            name,
            spans,
            rows.get(name, 0),
            found.get((SOURCE, name)),
            found.get((TARGET, name)),
            kept=places is not None,
        )
        for name, spans in sorted(by_partition.items(), key=lambda one: (len(one[0]), one[0]))
    )


def _sums(rows: DataFrame, side: int, partition: str, offset: str, is_bad: Column, is_row: Column) -> DataFrame:
    at = F.col(quoted(offset))
    return rows.groupBy(F.col(quoted(partition)).cast("string").alias("partition")).agg(
        F.lit(side).alias("side"),
        F.count(F.lit(1)).alias("records"),
        F.count_if(is_bad).alias("bad"),
        F.count_if(is_row).alias("rows"),
        F.min(at).alias("first"),
        F.max(at).alias("last"),
    )


def _receipt(
    name: str, spans: list[OffsetRange], rows: int, source: Any, target: Any, *, kept: bool
) -> PartitionReceipt:
    nothing: dict[str, Any] = {"records": 0, "bad": 0, "rows": 0, "first": None, "last": None}
    ours, theirs = source or nothing, target or nothing
    return PartitionReceipt(
        partition=name,
        start=min(one.start for one in spans),
        stop=max(one.stop for one in spans),
        offsets=count(tuple(spans)),
        records=ours["records"],
        first=ours["first"],
        last=ours["last"],
        bad_records=ours["bad"],
        rows=rows,
        target_rows=theirs["rows"] if kept else None,
        target_first=theirs["first"] if kept else None,
        target_last=theirs["last"] if kept else None,
    )
