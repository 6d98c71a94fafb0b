"""Measures the records of a topic, and plans reads that avoid records which need too much memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from backfill_core.errors import SourceDamagedError
from backfill_core.pacing.record_sizes import (
    OVERSIZED_MAX,
    POLL_RECORDS,
    LeftUnread,
    MeasuredRange,
    PacedRange,
    RangeMeter,
    RecordMemory,
)
from backfill_core.positions.offsets import OffsetRange
from backfill_spark.jvm.gateway import java
from backfill_spark.sources.kafka.offsets_client import OffsetsClient
from backfill_spark.sources.kafka.raw_batches import RawBatches
from backfill_spark.sources.kafka.unread_records import UnreadRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RecordSizes:
    """Measured ranges of one attempt. Thread-safe."""

    def __init__(self, spark: SparkSession, topic: str, client: OffsetsClient) -> None:
        """Measure nothing yet."""
        self._spark, self._topic, self._client = spark, topic, client
        self._lock = threading.Lock()
        self._measured: dict[OffsetRange, tuple[MeasuredRange, tuple[UnreadRecord, ...]]] = {}
        self._holes: set[OffsetRange] = set()

    def leave_unread(self, ranges: Sequence[OffsetRange]) -> None:
        """Leave out the records of ranges, whatever their size."""
        with self._lock:
            self._holes.update(ranges)

    def unread(self, ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
        """Return the parts of ranges whose records are left unread."""
        with self._lock:
            holes = [hole for hole in self._holes if any(_overlap(span, hole) for span in ranges)]
        return tuple(sorted(holes, key=lambda hole: (int(hole.partition), hole.start)))

    def measure(self, ranges: Sequence[OffsetRange]) -> None:
        """Measure the records of ranges.

        Raises:
            SourceDamagedError: the job has too many oversized records.
            TransientError: the broker sends no records.
        """
        spans = [span for span in ranges if span.start < span.stop]
        if not spans:
            return
        with self._lock:
            known = tuple(self._holes)
        ends = self._client.newest().offsets
        memory = self._memory()
        with self._client.consumer() as consumer:
            batches = RawBatches(self._spark, consumer, self._topic)
            measured = {span: self._range(batches, span, ends[span.partition], memory, known) for span in spans}
        holes = {hole for part, _ in measured.values() for hole in part.holes}
        with self._lock:
            self._measured |= measured
            self._holes |= holes
            if len(self._holes) > OVERSIZED_MAX:
                raise SourceDamagedError(
                    f"the topic {self._topic} has more than {OVERSIZED_MAX:,} records that need too much memory.",
                    hint="Give Java more memory: BACKFILL_MEMORY, or on a cluster spec.driver and spec.executor.",
                )

    def _range(
        self, batches: RawBatches, span: OffsetRange, end: int, memory: RecordMemory, known: Sequence[OffsetRange]
    ) -> tuple[MeasuredRange, tuple[UnreadRecord, ...]]:
        meter = RangeMeter(span, memory, known)
        for batch in batches.read(span, max(span.stop, end)):
            meter.take(batch.records, batch.stop)
            if meter.done:
                break
        result = meter.result()
        return result, tuple(self._unread(span.partition, left, memory) for left in result.unread)

    def _unread(self, partition: str, left: LeftUnread, memory: RecordMemory) -> UnreadRecord:
        reason = memory.describe(left.oversized, self._topic)
        return UnreadRecord(partition, left.record.offset, left.record.timestamp_ms, None, None, (), reason)

    def reads(self, ranges: Sequence[OffsetRange]) -> tuple[list[PacedRange], list[UnreadRecord]]:
        """Return how ranges are read, and their unread records. A range with unread records of an earlier attempt is measured first."""
        with self._lock:
            missing = [
                span
                for span in ranges
                if span not in self._measured and any(_overlap(span, hole) for hole in self._holes)
            ]
        self.measure(missing)
        reads, unread = list[PacedRange](), list[UnreadRecord]()
        with self._lock:
            for span in ranges:
                if span in self._measured:
                    part, records = self._measured[span]
                    reads += part.reads
                    unread += records
                else:
                    reads.append(PacedRange(span, POLL_RECORDS))
        return reads, unread

    def _memory(self) -> RecordMemory:
        """Return the memory of the process whose tasks read records: this one in local mode, or else an executor."""
        context = self._spark.sparkContext
        if context.master.startswith("local"):
            return RecordMemory(
                int(java(self._spark).java.lang.Runtime.getRuntime().maxMemory()), context.defaultParallelism
            )
        conf = context.getConf()
        size = java(self._spark).org.apache.spark.network.util.JavaUtils.byteStringAsBytes(
            conf.get("spark.executor.memory", "1g")
        )
        return RecordMemory(int(size), int(conf.get("spark.executor.cores", "1") or 1))


def _overlap(span: OffsetRange, hole: OffsetRange) -> bool:
    return span.partition == hole.partition and span.start < hole.stop and hole.start < span.stop
