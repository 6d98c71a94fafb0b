"""Ranges of offsets that work reads: how a message names them, and whether they are still of the same source."""

from __future__ import annotations

from backfill_core.errors import MADE_AGAIN_HINT, SourceReplacedError
from backfill_core.positions.offsets import OffsetRange, Subscribed, count
from backfill_spark.ports.work import WorkContext


def words(ranges: tuple[OffsetRange, ...]) -> str:
    """Return ranges in words; at least one."""
    first = ranges[0]
    if len(ranges) == 1:
        return f"the offsets {first.start} to {first.stop} of partition {first.partition}"
    return f"{count(ranges)} offsets of {len(ranges)} partitions, from offset {first.start} of partition {first.partition} on"


def check_same_source(context: WorkContext) -> None:
    """Refuse what was read if the source was made again: another one has other records at these offsets.

    Raises:
        SourceReplacedError: it was, before the read or during it.
    """
    source, opened = context.job.source, context.job.opened.found
    if isinstance(opened, Subscribed) and source.head().source_id != opened.source_id:
        raise SourceReplacedError(
            f"{source.path} is another one than when the attempt began.",
            hint=MADE_AGAIN_HINT,
        )
