"""Partitions whose newest records wait behind an open transaction.

A reader of committed records stops at the last stable offset, which is the start of the oldest open transaction. The high watermark
is the offset after the last record. They differ briefly whenever a producer uses transactions, and for long after a producer died.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backfill_api.amounts import show_seconds
from backfill_core.positions.offsets import OffsetRange, Offsets, Subscribed, between
from backfill_core.protocol.events import Head
from backfill_core.protocol.strategy import JobWarning

LASTING_S = 5.0
"""Age in seconds from which an open transaction is reported."""

SHOWN_MAX = 4


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """The oldest open transaction of each partition that has one."""

    since: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """Last stable offset, and the monotonic time of the first poll that returned it."""

    lasting: tuple[OffsetRange, ...] = ()
    """Offsets behind transactions that had been open for `LASTING_S` at the last poll."""

    def poll(self, stable: Offsets, watermarks: Offsets, now_s: float) -> OpenTransactions:
        """Return the open transactions of a poll; a partition whose stable offset moved has another one."""
        since = dict[str, tuple[int, float]]()
        for span in between(stable, watermarks):
            before = self.since.get(span.partition)
            since[span.partition] = before if before is not None and before[0] == span.start else (span.start, now_s)
        lasting = (span for span in between(stable, watermarks) if now_s - since[span.partition][1] >= LASTING_S)
        return OpenTransactions(since, tuple(lasting))

    def warnings(self, now_s: float) -> tuple[JobWarning, ...]:
        """Warn with the partitions, their offsets, and the age of the oldest transaction."""
        if not self.lasting:
            return ()
        age_s = now_s - min(self.since[span.partition][1] for span in self.lasting)
        message = (
            f"records wait behind transactions that have been open for up to {show_seconds(round(age_s))}: {describe_ranges(self.lasting)}. "
            "End the producer's transaction, or wait until the broker aborts it (transaction.timeout.ms)"
        )
        return (JobWarning("OpenTransaction", message),)


def warn_of_open(subscribed: Subscribed, head: Head, *, opened_s: float, now_s: float) -> tuple[JobWarning, ...]:
    """Warn of transactions that are open at both the first and the last poll of a plan; both times are monotonic."""
    opened = OpenTransactions().poll(subscribed.newest, subscribed.watermarks or subscribed.newest, opened_s)
    return opened.poll(head.position, head.watermarks or head.position, now_s).warnings(now_s)


@dataclass(frozen=True, slots=True)
class PolledEnds:
    """Ends of all partitions as of one poll."""

    readable: Offsets = field(default_factory=dict)
    """Offset after the last readable record."""

    watermarks: Offsets = field(default_factory=dict)
    """Offset after the last record, including records behind open transactions."""

    def reached(self, offsets: Offsets) -> bool:
        """Return whether a target with everything before these offsets has all records that were readable."""
        return not between(offsets, self.readable)


@dataclass(frozen=True, slots=True)
class TransactionWait:
    """Wait of a job that has read all readable records, for records behind transactions that were open at that time."""

    watermarks: Offsets
    """High watermarks that are awaited. Later records are not awaited, because a job could never catch up with a busy topic."""

    until_s: float
    """Monotonic time at which the job ends without the rest; infinite if it follows its source."""

    def reason(self, now_s: float) -> str:
        """Describe the wait and its end."""
        left = (
            ""
            if self.until_s == math.inf
            else f"; without their records it ends in {show_seconds(round(max(0.0, self.until_s - now_s)))}"
        )
        return f"waiting for open transactions{left}"

    def missing(self, reached: Offsets) -> tuple[OffsetRange, ...]:
        """Return the awaited offsets that the target lacks; it contains everything before `reached`."""
        return between(reached, self.watermarks)


def describe_ranges(ranges: Sequence[OffsetRange]) -> str:
    """Describe ranges for users: the first few by partition and offset, and the number of the rest."""
    spans = [f"partition {span.partition} offset {span.start} to {span.stop}" for span in ranges[:SHOWN_MAX]]
    more = len(ranges) - SHOWN_MAX
    return ", ".join(spans) + (f", and {more} more partitions" if more > 0 else "")


def describe_cut_off(ranges: Sequence[OffsetRange]) -> str:
    """Return the message of a job that ended without records behind open transactions; empty if none is missing."""
    if not ranges:
        return ""
    return f"the target lacks records behind transactions that are still open: {describe_ranges(ranges)}"
