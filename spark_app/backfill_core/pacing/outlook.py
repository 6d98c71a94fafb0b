"""What can be told of partitions with offsets before they are read: what goes meanwhile, and what comes."""

from __future__ import annotations

from backfill_api.amounts import counted, show_seconds
from backfill_core.positions.offsets import Offsets
from backfill_core.protocol.strategy import JobWarning


def warn_of_ending(
    first: Offsets, newest: Offsets, at_the_end: Offsets, *, needed_s: float, kept_s: int
) -> tuple[JobWarning, ...]:
    """Warn of rows that the source need not keep for as long as the job takes.

    Args:
        first: Where history begins.
        newest: Where it ends.
        at_the_end: The first offset that the source still keeps when the job ends, by partition.
        needed_s: How long the job may take, seconds.
        kept_s: How long the source keeps a row, seconds.
    """
    going = {name: min(at_the_end.get(name, 0), end) - first.get(name, 0) for name, end in newest.items()}
    risky = [offsets for offsets in going.values() if offsets > 0]
    if not risky:
        return ()
    total = sum(end - first.get(name, 0) for name, end in newest.items())
    words = (
        f"{sum(risky):,} of {counted(total, 'offset')}, in {len(risky):,} of {counted(len(newest), 'partition')}, may be gone "
        f"before they are read: the source keeps a record for {show_seconds(kept_s)}, "
        f"the job may take {show_seconds(round(needed_s))}."
    )
    return (JobWarning("RetentionEnding", words),)


def warn_of_speed(before: Offsets, newest: Offsets, *, seconds: float, read_per_s: float) -> tuple[JobWarning, ...]:
    """Warn of a source that grows faster than it is read.

    Args:
        before: The newest offsets, `seconds` ago; a partition that was not there began at 0.
        newest: Now.
        seconds: Between the two.
        read_per_s: Rows that are read in a second; 0: not known.
    """
    written = sum(max(0, end - before.get(name, 0)) for name, end in newest.items()) / seconds
    if not 0 < read_per_s <= written:
        return ()
    words = (
        f"{written:,.0f} records/s were written in the last {show_seconds(round(seconds))}, and {read_per_s:,.0f} are read: "
        "the job may never catch up."
    )
    return (JobWarning("NonConvergent", words),)
