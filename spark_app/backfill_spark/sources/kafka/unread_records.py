"""Records that Spark cannot read: with timestamps that it cannot represent, for example nanoseconds taken for milliseconds, or oversized.

Spark's connector converts the timestamp of each record, even if it is not used, and fails. So the driver reads such records
without their timestamp, and Spark reads the offsets around them. The broker's time index returns the first such record, so a
topic without any costs one request.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill_core.errors import SourceDamagedError, TransientError
from backfill_core.positions.offsets import OffsetRange
from backfill_spark.jvm.bulk_calls import java_function
from backfill_spark.jvm.gateway import java
from backfill_spark.records.parsing import UNREAD
from backfill_spark.rows.columns import local_rows
from backfill_spark.sources.kafka.failures import TIMES_HINT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST_TOO_LATE_MS = (2**63 - 1) // 1000 + 1
"""First millisecond whose value in microseconds exceeds 64 bits."""

RECORDS_MAX = 10_000
BYTES_MAX = 64 * 1024 * 1024
GAPS_MAX = 500
"""Limits of one read: the driver holds the records in memory, and each gap between them is a separate scan."""

POLL_MS = 1000
SILENCE_S = 30.0
_RECORD = "org.apache.kafka.clients.consumer.ConsumerRecord"


CONTENT = ("key", "value", "headers")
"""Columns of a record with its content."""


@dataclass(frozen=True, slots=True)
class UnreadRecord:
    """One record without its timestamp, or without its content."""

    partition: str
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    oversized: str = ""
    """Message why the record has no content; empty if it has."""

    @property
    def unread(self) -> tuple[str, ...]:
        """Columns that are null because they were not read."""
        times = ("timestamp",) if abs(self.timestamp_ms) >= FIRST_TOO_LATE_MS else ()
        return (*CONTENT, *times) if self.oversized else times

    @property
    def reason(self) -> str:
        """Message why the record lacks columns."""
        return self.oversized or (
            f"Its timestamp, {self.timestamp_ms} ms, is beyond the range of Spark's timestamps: is it in nanoseconds?"
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of the record in the driver's memory."""
        parts = (self.key, self.value, *(value for _, value in self.headers))
        return sum(len(part) for part in parts if part is not None)


def find_unread(spark: SparkSession, consumer: Any, topic: str, ranges: Sequence[OffsetRange]) -> list[UnreadRecord]:
    """Return the records of ranges whose timestamps Spark cannot represent.

    Args:
        spark: The session.
        consumer: A Java consumer for this call only; it reads all records of the ranges.
        topic: The topic.
        ranges: Ranges that may have such records.

    Raises:
        SourceDamagedError: the ranges have too many such records.
        TransientError: the broker sends no records.
    """
    records: list[UnreadRecord] = []
    gaps, left_bytes = 0, BYTES_MAX
    for span in ranges:
        for record in _beyond(spark, consumer, topic, span):
            gaps += not (
                records and records[-1].partition == record.partition and records[-1].offset + 1 == record.offset
            )
            records.append(record)
            left_bytes -= record.size_bytes
            if len(records) > RECORDS_MAX or left_bytes < 0 or gaps > GAPS_MAX:
                raise SourceDamagedError(
                    f"the topic {topic} has too many records with a timestamp that Spark cannot represent: {len(records):,} up to "
                    f"offset {record.offset} of partition {record.partition}.",
                    hint=TIMES_HINT,
                )
    return records


def _beyond(spark: SparkSession, consumer: Any, topic: str, span: OffsetRange) -> Iterator[UnreadRecord]:
    jvm = java(spark)
    partition = jvm.org.apache.kafka.common.TopicPartition(topic, int(span.partition))
    wait, timestamp = jvm.java.time.Duration.ofMillis(POLL_MS), java_function(spark, _RECORD, "timestamp")
    consumer.assign(jvm.java.util.Collections.singletonList(partition))
    consumer.seek(partition, span.start)
    progress_s, at = time.monotonic(), span.start
    while at < span.stop:
        batch = consumer.poll(wait).records(partition)
        # One JVM call for all timestamps, because each call takes 0.1 ms.
        times = str(batch.stream().map(timestamp).toList().toString()).strip("[]")
        for place, text in enumerate(times.split(", ") if times else ()):
            if abs(int(text)) >= FIRST_TOO_LATE_MS:
                record = _record(span.partition, batch.get(place))
                if record.offset < span.stop:
                    yield record
        before, at = at, int(consumer.position(partition))
        progress_s = time.monotonic() if at > before else progress_s
        if time.monotonic() - progress_s > SILENCE_S:
            raise TransientError(f"the broker sends no records of partition {span.partition} after offset {at}.")


def _record(partition: str, record: Any) -> UnreadRecord:
    headers = tuple((str(header.key()), header.value()) for header in record.headers().toArray())
    return UnreadRecord(partition, int(record.offset()), int(record.timestamp()), record.key(), record.value(), headers)


def without(ranges: Sequence[OffsetRange], records: Sequence[UnreadRecord]) -> list[OffsetRange]:
    """Return ranges without the offsets of some records."""
    left: list[OffsetRange] = []
    for span in ranges:
        start = span.start
        offsets = (record.offset for record in records if record.partition == span.partition)
        for offset in sorted(offset for offset in offsets if span.start <= offset < span.stop):
            left.append(OffsetRange(span.partition, start, offset))
            start = offset + 1
        left.append(OffsetRange(span.partition, start, span.stop))
    return [span for span in left if span.start < span.stop]


def frame_of(spark: SparkSession, topic: str, records: Sequence[UnreadRecord], schema: StructType) -> DataFrame:
    """Return unread records as rows of a topic, with column `UNREAD`; `schema` has the topic's columns."""
    jvm = java(spark)
    rows = jvm.java.util.ArrayList()
    for record in records:
        headers = [_row(jvm, key, value) for key, value in record.headers]
        listed = _array(jvm, headers) if headers else None
        # As strings: py4j converts small Python numbers to Integer, even for a bigint column.
        time_ms = None if "timestamp" in record.unread else str(record.timestamp_ms)
        places = (record.partition, str(record.offset), time_ms)
        texts = (",".join(record.unread), record.reason)
        rows.add(_row(jvm, topic, *places, record.key, record.value, listed, *texts))
    given = StructType().add("topic", "string").add("partition", "string").add("offset", "string")
    given.add("timestamp", "string")
    given.add(schema["key"]).add(schema["value"]).add(schema["headers"]).add("unread", "string").add("reason", "string")
    columns = {
        "partition": F.col("partition").cast("int"),
        "offset": F.col("offset").cast("bigint"),
        "timestamp": F.timestamp_millis(F.col("timestamp").cast("bigint")),
        "timestampType": F.lit(0),
        UNREAD: F.struct(F.split("unread", ",").alias("columns"), F.col("reason").alias("reason")),
    }
    return local_rows(spark, rows, given).withColumns(columns).select(*schema.names, UNREAD)


def _row(jvm: Any, *values: object) -> Any:
    return jvm.org.apache.spark.sql.RowFactory.create(_array(jvm, values))


def _array(jvm: Any, values: Sequence[object]) -> Any:
    listed = jvm.java.util.ArrayList()
    for value in values:
        listed.add(value)
    return listed.toArray()
