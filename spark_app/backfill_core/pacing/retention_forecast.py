"""Forecast for partitions with offsets: records that may expire before they are read, and producers faster than the job."""

from __future__ import annotations

from backfill_api.amounts import counted, show_seconds
from backfill_core.positions.offsets import Offsets
from backfill_core.protocol.strategy import JobWarning


def warn_of_ending(
    first: Offsets, newest: Offsets, at_the_end: Offsets, *, needed_s: float, kept_s: int
) -> tuple[JobWarning, ...]:
    """Warn of records that the source may delete before the job reads them.

    Args:
        first: Start of history, by partition.
        newest: End of history, by partition.
        at_the_end: The first offset that the source still keeps when the job ends, by partition.
        needed_s: Estimated duration of the job, seconds.
        kept_s: Time for which the source keeps a record, seconds.
    """
    expiring = {name: min(at_the_end.get(name, 0), end) - first.get(name, 0) for name, end in newest.items()}
    risky = [offsets for offsets in expiring.values() if offsets > 0]
    if not risky:
        return ()
    total = sum(end - first.get(name, 0) for name, end in newest.items())
    message = (
        f"{sum(risky):,} of {counted(total, 'offset')}, in {len(risky):,} of {counted(len(newest), 'partition')}, may be gone "
        f"before they are read: the source keeps a record for {show_seconds(kept_s)}, "
        f"the job may take {show_seconds(round(needed_s))}."
    )
    return (JobWarning("RetentionEnding", message),)


def warn_of_speed(before: Offsets, newest: Offsets, *, seconds: float, read_per_s: float) -> tuple[JobWarning, ...]:
    """Warn of producers that are faster than the job.

    Args:
        before: The newest offsets `seconds` ago; a missing partition started at 0.
        newest: The newest offsets now.
        seconds: Time between the two.
        read_per_s: Rows that the job reads per second; 0 if unknown.
    """
    written = sum(max(0, end - before.get(name, 0)) for name, end in newest.items()) / seconds
    if not 0 < read_per_s <= written:
        return ()
    message = (
        f"{written:,.0f} records/s were written in the last {show_seconds(round(seconds))}, and {read_per_s:,.0f} are read: "
        "the job may never catch up."
    )
    return (JobWarning("NonConvergent", message),)
