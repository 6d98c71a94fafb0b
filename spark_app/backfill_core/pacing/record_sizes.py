"""Records of a topic that are too large for Java's memory: which ones, and how the records around them are read.

A broker limits only compressed bytes, and a record of a few kilobytes may need hundreds of megabytes. Reading it ends Java, also in the
next attempt. So a resumed attempt measures records before it reads them (`PartitionSplits`). A consumer decompresses a batch from its
start, and several records ahead. So a read of other records must not come close to an oversized one:

records                                                   read
-------------------------------------------------------   ---------------------------------------------------------------
without an oversized one nearby                           several at a time
the last ones before an oversized record                  one at a time, and not beyond the last readable one
an oversized record, and those after it in its batch      never; the source returns them without their content
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from backfill_core.positions.offsets import OffsetRange

HEAP_PER_BYTE = 10
"""Bytes of heap for each byte of a record. Java has several copies: Kafka's, Spark's row and the columns of a file."""

POLL_RECORDS = 500
"""Kafka's default number of records that a consumer decompresses at once."""

OVERSIZED_MAX = 100
"""Maximum number of unread ranges of a job, because its state lists them."""

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecordMemory:
    """Memory of the process that reads records."""

    heap_bytes: int
    tasks: int
    """Tasks that read at the same time."""

    @property
    def record_bytes_max(self) -> int:
        """Return the size of the largest record that is read."""
        return max(1, self.heap_bytes // (HEAP_PER_BYTE * self.tasks))

    def records_per_poll(self, largest_bytes: int) -> int:
        """Return how many records a consumer may decompress at once, if the largest has `largest_bytes`."""
        return min(POLL_RECORDS, max(1, self.record_bytes_max // max(1, largest_bytes)))

    def describe(self, oversized: MeasuredRecord, topic: str) -> str:
        """Return the reason why records are not read, with the memory that the oversized one needs."""
        heap = oversized.size_bytes * HEAP_PER_BYTE * self.tasks
        return (
            f"The record at offset {oversized.offset} of the topic {topic} has {_mib(oversized.size_bytes)} MiB, and a heap of "
            f"{_mib(self.heap_bytes)} MiB permits {_mib(self.record_bytes_max)} MiB. To read it, give Java {_mib(heap)} MiB "
            "(BACKFILL_MEMORY; on a cluster, the memory of spec.driver or spec.executor)."
        )


@dataclass(frozen=True, slots=True)
class PacedRange:
    """Offsets that are read with a limited number of records at a time."""

    span: OffsetRange
    records_per_poll: int


@dataclass(frozen=True, slots=True)
class MeasuredRecord:
    """A record without its content."""

    offset: int
    size_bytes: int
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class LeftUnread:
    """A record that is not read."""

    record: MeasuredRecord
    oversized: MeasuredRecord
    """The record that is too large: this one, or an earlier one in the same batch."""


@dataclass(frozen=True, slots=True)
class MeasuredRange:
    """The reads of a range."""

    reads: tuple[PacedRange, ...]
    unread: tuple[LeftUnread, ...]
    holes: tuple[OffsetRange, ...]
    """Ranges that hold exactly the unread records, and offsets without a record."""


class RangeMeter:
    """Measures one range: takes the sizes of its records batch by batch, in order."""

    def __init__(self, span: OffsetRange, memory: RecordMemory, known: Sequence[OffsetRange] = ()) -> None:
        """Measure a range; `known` are ranges of records that an earlier attempt did not read, whatever their size."""
        self._span, self._memory = span, memory
        self._known = [hole for hole in known if hole.partition == span.partition]
        self._largest = 0
        self._beyond = 0
        """Readable records after the range, which a consumer may decompress together with its last ones."""

        self._stops_short = False
        """True if an oversized record is close to the end of the range."""

        self._start = span.start
        self._last = deque[int](maxlen=POLL_RECORDS)
        """The last readable offsets since `_start`."""

        self._closed: list[tuple[int, tuple[int, ...]]] = []
        self._unread: list[LeftUnread] = []
        self._holes: list[OffsetRange] = []

    @property
    def done(self) -> bool:
        """Return true if all records that matter were measured."""
        return self._stops_short or self._beyond >= POLL_RECORDS

    def take(self, records: Sequence[MeasuredRecord], stop: int) -> None:
        """Take the readable records of a batch, also those before the range; `stop` is the offset after the batch."""
        oversized: MeasuredRecord | None = None
        unread: list[LeftUnread] = []
        for record in records:
            if oversized is None and self._is_oversized(record):
                oversized = record
            if record.offset >= self._span.stop:
                self._stops_short = self._stops_short or oversized is not None
                self._beyond += 1
            elif record.offset >= self._span.start and oversized is not None:
                unread.append(LeftUnread(record, oversized))
            elif record.offset >= self._span.start:
                self._last.append(record.offset)
            if oversized is None:
                self._largest = max(self._largest, record.size_bytes)
        if unread:
            self._closed.append((self._start, tuple(self._last)))
            self._last.clear()
            self._start = min(stop, self._span.stop)
            self._unread += unread
            self._holes.append(OffsetRange(self._span.partition, unread[0].record.offset, self._start))

    def _is_oversized(self, record: MeasuredRecord) -> bool:
        known = any(hole.start <= record.offset < hole.stop for hole in self._known)
        return known or record.size_bytes > self._memory.record_bytes_max

    def result(self) -> MeasuredRange:
        """Return how the range is read."""
        per_poll = self._memory.records_per_poll(self._largest)
        closed = [*self._closed, (self._start, tuple(self._last))] if self._stops_short else self._closed
        reads = [part for start, last in closed for part in self._cautious(start, last, per_poll)]
        if not self._stops_short and self._start < self._span.stop:
            reads.append(PacedRange(self._part(self._start, self._span.stop), per_poll))
        return MeasuredRange(tuple(reads), tuple(self._unread), tuple(self._holes))

    def _cautious(self, start: int, last: Sequence[int], per_poll: int) -> list[PacedRange]:
        """Return the reads of a part before an oversized record; `last` are its last readable offsets."""
        if not last:
            return []
        single = last[-per_poll] if len(last) >= per_poll else start
        parts = [PacedRange(self._part(start, single), per_poll)] if start < single else []
        return [*parts, PacedRange(self._part(single, last[-1] + 1), 1)]

    def _part(self, start: int, stop: int) -> OffsetRange:
        return OffsetRange(self._span.partition, start, stop)


def _mib(size_bytes: int) -> int:
    return -(-size_bytes // MIB)
