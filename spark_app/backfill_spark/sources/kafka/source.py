"""A Kafka topic: partitions of records with offsets. Records are read in ranges of offsets, any number of times."""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from backfill_api.amounts import counted
from backfill_api.spec.sources.kafka import KafkaSource as Params
from backfill_core.errors import RECREATED_HINT, BackfillError, InvalidSpecError, SourceReplacedError
from backfill_core.pacing.record_sizes import POLL_RECORDS, PacedRange
from backfill_core.positions.offsets import OffsetRange, Offsets, Subscribed, count
from backfill_core.protocol.events import Head
from backfill_spark.rows.columns import no_rows
from backfill_spark.sources.kafka.client import FIELD, ClientSettings
from backfill_spark.sources.kafka.failures import expired, explain
from backfill_spark.sources.kafka.offsets_client import OffsetsClient
from backfill_spark.sources.kafka.record_sizes import RecordSizes
from backfill_spark.sources.kafka.unread_records import FIRST_TOO_LATE_MS, UnreadRecord, find_unread, frame_of, without

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", ArrayType(HEADER)),
    ]
)
"""Schema of a record; `timestampType` is 0 for the producer's time, 1 for the broker's, -1 for none."""

POLL_MS = 30_000
"""Milliseconds that a task waits for records of a broker that does not answer."""

TASK_OFFSETS_MIN = 50_000
"""Smallest number of offsets that justifies another task with its own consumer."""

TASK_OFFSETS = 250_000
TASK_RANGES = 32
"""Offsets and ranges per task, if there are many small ranges: each task writes a file, each range is a request to the broker."""


class TopicSource:
    """The topic of one job; implements `Source`, `SupportsOffsets` and `SupportsMoments`."""

    def __init__(self, spark: SparkSession, params: Params, settings: ClientSettings) -> None:
        """Store the topic and its client settings; sends no request yet."""
        self._spark, self._params, self._settings = spark, params, settings
        self._topic = params.topic
        self._client = OffsetsClient(spark, params.topic, settings)
        self._kept: int | None = None
        self._removals_kept: int | None = None
        self._sizes = RecordSizes(spark, self._topic, self._client)
        # Unique for this attempt, so that its tasks reuse their consumers and no other reader shares them.
        self._group = f"backfill-{uuid.uuid4().hex}"
        self.path = f"kafka://{settings.address}/{self._topic}"

    # ------------------------------------------------------------------ positions
    def head(self) -> Head:
        """See `Source`; one request to the broker for all partitions."""
        seen = self._client.newest()
        now_ms = time.time_ns() // 1_000_000
        return Head(seen.offsets, now_ms, seen.topic_id, self._kept, seen.watermarks, self._removals_kept)

    def subscribe(self, after: Offsets | None) -> Subscribed:
        """See `SupportsOffsets`.

        Raises:
            OffsetsExpiredError: a later record is gone; names the partition and the first available offset.
            InvalidSpecError: the spec starts at a partition or an offset that does not exist.
            SourceReplacedError: a partition ends before the consumed offset.
        """
        first, seen = self._client.first().offsets, self._client.newest()
        newest = seen.offsets
        # A partition that was added between the two requests begins at 0.
        oldest = {name: first.get(name, 0) for name in newest}
        configured = self._client.settings_of_topic()
        self._kept, self._removals_kept = _kept_seconds(configured), _removals_kept_seconds(configured)
        # If this user may not read the settings, compaction must be assumed.
        compacts = "compact" in configured.get("cleanup.policy", "compact")
        if after is None:
            return Subscribed(self._begin(oldest, newest), newest, seen.topic_id, compacts, seen.watermarks)
        self._check(after, oldest, newest)
        beyond = {name: offset for name, offset in after.items() if offset > newest.get(name, 0)}
        if beyond:
            name, offset = min(beyond.items())
            raise SourceReplacedError(
                f"partition {name} of {self.path} ends at offset {newest.get(name, 0)}, but {offset} were consumed.",
                hint=RECREATED_HINT,
            )
        return Subscribed(oldest, newest, seen.topic_id, compacts, seen.watermarks)

    def _begin(self, oldest: Offsets, newest: Offsets) -> dict[str, int]:
        """Return the first offsets of the history, as the spec defines them."""
        field = f"{FIELD}.partitionStartingOffsets"
        requested = self._params.partition_starting_offsets
        for name, offset in requested.items():
            if name not in newest:
                raise InvalidSpecError(
                    f'{field}["{name}"]: the topic {self._topic} has {counted(len(newest), "partition")}.',
                    hint="Remove the partition; partitions are numbered from 0.",
                )
            if offset > newest[name]:
                raise InvalidSpecError(
                    f'{field}["{name}"]: offset {offset} is after the end of the partition, {newest[name]}.',
                    hint="Check that these are not the offsets of another topic.",
                )
            if offset < oldest[name]:
                raise expired(self._topic, name, offset, oldest[name])
        begin = oldest if self._params.starting_offsets == "Earliest" else newest
        return {**begin, **requested}

    def check_kept(self, after: Offsets, head: Head) -> None:
        """See `Source`; one request to the broker for all partitions.

        Raises:
            OffsetsExpiredError: the first record after a position is gone, or a later one up to the newest.
        """
        self._check(after, self._client.first().offsets, head.position)

    def _check(self, after: Offsets, oldest: Offsets, newest: Offsets) -> None:
        for name, end in sorted(newest.items()):
            offset = after.get(name, 0)
            if offset < min(oldest.get(name, 0), end):
                raise expired(self._topic, name, offset, oldest[name])

    def oldest(self) -> Offsets:
        """See `SupportsOldest`; one request to the broker for all partitions."""
        return self._client.first().offsets

    def kept_seconds(self) -> int | None:
        """Return the retention time of records; `None` if it is unlimited, depends on the topic's size, or is unknown."""
        return _kept_seconds(self._client.settings_of_topic()) if self._kept is None else self._kept

    def offsets_at(self, moment_ms: int) -> Offsets:
        """See `SupportsMoments`; two requests to the broker for all partitions."""
        return self._client.at(moment_ms)

    # ------------------------------------------------------------------ records
    def read_offsets(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        """See `SupportsOffsets`; the columns are those of `SCHEMA`, the rows have no order.

        Raises:
            SourceDamagedError: Spark cannot represent the timestamps of too many records.
        """
        reads, oversized = self._sizes.reads(ranges)
        late = self._unread([read.span for read in reads])
        reads = [replace(read, span=span) for read in reads for span in without([read.span], late)]
        if not late and not oversized:
            return self._read(reads)
        rows = frame_of(self._spark, self._topic, [*late, *oversized], SCHEMA)
        return self._read(reads).unionByName(rows, allowMissingColumns=True)

    def measure(self, ranges: Sequence[OffsetRange]) -> None:
        """See `SupportsRecordSizes`; fetches the ranges from the broker, and decompresses them without holding them in memory."""
        self._sizes.measure(ranges)

    def unread(self, ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
        """See `SupportsRecordSizes`."""
        return self._sizes.unread(ranges)

    def leave_unread(self, ranges: Sequence[OffsetRange]) -> None:
        """See `SupportsRecordSizes`."""
        self._sizes.leave_unread(ranges)

    def _unread(self, ranges: Sequence[OffsetRange]) -> list[UnreadRecord]:
        """Return the records of ranges whose timestamps Spark cannot represent; one request to the broker if there are none."""
        names = sorted({span.partition for span in ranges if span.start < span.stop})
        first = self._client.first_since(FIRST_TOO_LATE_MS, names) if names else {}
        spans = [
            replace(span, start=max(span.start, first[span.partition])) for span in ranges if span.partition in first
        ]
        spans = [span for span in spans if span.start < span.stop]
        if not spans:
            return []
        with self._client.consumer() as consumer:
            return find_unread(self._spark, consumer, self._topic, spans)

    def _read(self, reads: Sequence[PacedRange]) -> DataFrame:
        """Return the records of ranges, read by Spark."""
        rounds: dict[tuple[int, int], list[OffsetRange]] = defaultdict(list)
        seen: dict[tuple[str, int], int] = defaultdict(int)
        for read in reads:
            span, per_poll = read.span, read.records_per_poll
            if span.start < span.stop:
                # The connector accepts one range per partition.
                rounds[seen[span.partition, per_poll], per_poll].append(span)
                seen[span.partition, per_poll] += 1
        if not rounds:
            return no_rows(self._spark, SCHEMA)
        return reduce(DataFrame.unionAll, (self._frame(spans, per_poll) for (_, per_poll), spans in rounds.items()))

    def _frame(self, ranges: Sequence[OffsetRange], per_poll: int) -> DataFrame:
        cores = self._spark.sparkContext.defaultParallelism
        offsets = count(tuple(ranges))
        tasks = min(cores, max(1, offsets // TASK_OFFSETS_MIN, len(ranges) // TASK_RANGES))
        options = {
            **self._settings.of_spark,
            # Consumers of one group are reused, and share this setting.
            "kafka.group.id": self._group if per_poll == POLL_RECORDS else f"{self._group}-{per_poll}",
            **({} if per_poll == POLL_RECORDS else {"kafka.max.poll.records": str(per_poll)}),
            "kafkaConsumer.pollTimeoutMs": str(POLL_MS),
            "assign": json.dumps({self._topic: [int(span.partition) for span in ranges]}),
            "startingOffsets": json.dumps({self._topic: {span.partition: span.start for span in ranges}}),
            "endingOffsets": json.dumps({self._topic: {span.partition: span.stop for span in ranges}}),
            "failOnDataLoss": "true",
            "includeHeaders": "true",
        }
        if tasks > len(ranges):
            options["minPartitions"] = str(tasks)
        records = self._spark.read.format("kafka").options(**options).load().select(*SCHEMA.names)
        # The connector creates a task for each range, and each task writes a file.
        few = max(tasks, offsets // TASK_OFFSETS)
        return records.coalesce(few) if few < len(ranges) else records

    def close(self) -> None:
        """See `SupportsClose`; the consumers of tasks belong to Spark, which closes them after some minutes."""
        self._client.close()

    def explain_failure(self, error: Exception) -> BackfillError | None:
        """See `Source`."""
        return explain(error, topic=self._topic, address=self._settings.address)


def _removals_kept_seconds(configured: Mapping[str, str]) -> int | None:
    """Return how long compaction keeps a record without a value; `None` without compaction."""
    kept_ms = int(configured.get("delete.retention.ms", "-1"))
    return None if kept_ms < 0 or "compact" not in configured.get("cleanup.policy", "") else kept_ms // 1000


def _kept_seconds(configured: Mapping[str, str]) -> int | None:
    kept_ms = int(configured.get("retention.ms", "-1"))
    return None if kept_ms < 0 or "delete" not in configured.get("cleanup.policy", "") else kept_ms // 1000
