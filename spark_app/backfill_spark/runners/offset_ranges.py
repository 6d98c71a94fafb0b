"""Offset ranges that work reads: their description in messages, and the check that the source is still the same."""

from __future__ import annotations

from backfill_core.errors import RECREATED_HINT, SourceReplacedError
from backfill_core.positions.offsets import OffsetRange, Subscribed, count
from backfill_core.protocol.work import MergeOffsetRanges, ReadOffsetRanges, SetBadRecordsAside
from backfill_spark.ports.source import Source, SupportsRecordSizes
from backfill_spark.work.context import WorkContext


def describe_ranges(ranges: tuple[OffsetRange, ...]) -> str:
    """Return the description of one or more ranges for a message."""
    first = ranges[0]
    if len(ranges) == 1:
        return f"the offsets {first.start} to {first.stop} of partition {first.partition}"
    return f"{count(ranges)} offsets of {len(ranges)} partitions, starting at offset {first.start} of partition {first.partition}"


def measured(
    work: ReadOffsetRanges | SetBadRecordsAside | MergeOffsetRanges, source: Source
) -> tuple[OffsetRange, ...]:
    """Measure the records of work that requires it; return the ranges of oversized ones, which the source leaves unread."""
    if not isinstance(source, SupportsRecordSizes):
        return ()
    if work.measures:
        source.measure(work.ranges)
    return source.unread(work.ranges)


def check_same_source(context: WorkContext) -> None:
    """Reject the records read if the source was recreated, because the new one has other records at these offsets.

    Raises:
        SourceReplacedError: the source was recreated before or during the read.
    """
    source, opened = context.tables.source, context.tables.opened.answer
    if isinstance(opened, Subscribed) and source.head().source_id != opened.source_id:
        raise SourceReplacedError(
            f"{source.path} was replaced since the attempt began.",
            hint=RECREATED_HINT,
        )
