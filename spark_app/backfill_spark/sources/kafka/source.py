"""A Kafka topic: partitions whose records have offsets. A record is read by its offset, in ranges, any number of times."""

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
from backfill_core.errors import MADE_AGAIN_HINT, BackfillError, InvalidSpecError, SourceReplacedError
from backfill_core.positions.offsets import OffsetRange, Offsets, Subscribed, count
from backfill_core.protocol.events import Head
from backfill_spark.rows.columns import no_rows
from backfill_spark.sources.kafka.client import FIELD, ClientSettings
from backfill_spark.sources.kafka.failures import expired, explain
from backfill_spark.sources.kafka.offsets_client import OffsetsClient
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
"""Of a record; `timestampType`: 0 the producer's time, 1 the broker's, -1 none."""

POLL_MS = 30_000
"""So long a task waits for records of a broker that does not answer."""

TASK_OFFSETS_MIN = 50_000
"""Offsets of a task that is worth a consumer of its own."""

TASK_OFFSETS = 250_000
TASK_RANGES = 32
"""What a task of many small ranges reads: it costs a file, and each range a question to the broker."""


class KafkaSource:
    """The topic of one job; satisfies `Source`, `SupportsOffsets` and `SupportsMoments`."""

    def __init__(self, spark: SparkSession, params: Params, settings: ClientSettings) -> None:
        """Take the place of the topic; nothing is asked yet."""
        self._spark, self._params, self._settings = spark, params, settings
        self._topic = params.topic
        self._client = OffsetsClient(spark, params.topic, settings)
        self._kept: int | None = None
        # Of this attempt alone, so that its tasks find their consumers again and no other reader has a part in them.
        self._group = f"backfill-{uuid.uuid4().hex}"
        self.path = f"kafka://{settings.address}/{self._topic}"

    # ------------------------------------------------------------------ positions
    def head(self) -> Head:
        """See `Source`; one question to the broker for all partitions."""
        found = self._client.newest()
        return Head(found.offsets, time.time_ns() // 1_000_000, found.topic_id, self._kept, found.watermarks)

    def subscribe(self, after: Offsets | None) -> Subscribed:
        """See `SupportsOffsets`.

        Raises:
            OffsetsExpiredError: a record that comes after is gone; names the partition and the first offset that is there.
            InvalidSpecError: the spec begins at a partition or an offset that is not there.
            SourceReplacedError: a partition ends before what is consumed.
        """
        oldest, found = self._client.first().offsets, self._client.newest()
        newest = found.offsets
        configured = self._client.settings_of_topic()
        self._kept = _kept_seconds(configured)
        # Of one that may not be looked at, nothing is sure.
        compacts = "compact" in configured.get("cleanup.policy", "compact")
        if after is None:
            return Subscribed(self._begin(oldest, newest), newest, found.topic_id, compacts, found.watermarks)
        self._check(after, oldest, newest)
        behind = {name: offset for name, offset in after.items() if offset > newest.get(name, 0)}
        if behind:
            name, offset = min(behind.items())
            raise SourceReplacedError(
                f"partition {name} of {self.path} ends at offset {newest.get(name, 0)}, and {offset} were consumed.",
                hint=MADE_AGAIN_HINT,
            )
        return Subscribed(oldest, newest, found.topic_id, compacts, found.watermarks)

    def _begin(self, oldest: Offsets, newest: Offsets) -> dict[str, int]:
        """Return where history begins by the spec."""
        field = f"{FIELD}.partitionStartingOffsets"
        asked = self._params.partition_starting_offsets
        for name, offset in asked.items():
            if name not in newest:
                raise InvalidSpecError(
                    f'{field}["{name}"]: the topic {self._topic} has {counted(len(newest), "partition")}.',
                    hint="Take the partition out; partitions are counted from 0.",
                )
            if offset > newest[name]:
                raise InvalidSpecError(
                    f'{field}["{name}"]: offset {offset} is behind the end of the partition, {newest[name]}.',
                    hint="Are these the offsets of another topic?",
                )
            if offset < oldest[name]:
                raise expired(self._topic, name, offset, oldest[name])
        begin = oldest if self._params.starting_offsets == "Earliest" else newest
        return {**begin, **asked}

    def check_kept(self, after: Offsets, head: Head) -> None:
        """See `Source`; one question to the broker for all partitions.

        Raises:
            OffsetsExpiredError: the first record after a position is gone, or another one up to the newest.
        """
        self._check(after, self._client.first().offsets, head.position)

    def _check(self, after: Offsets, oldest: Offsets, newest: Offsets) -> None:
        for name, end in sorted(newest.items()):
            wanted = after.get(name, 0)
            if wanted < min(oldest.get(name, 0), end):
                raise expired(self._topic, name, wanted, oldest[name])

    def kept_seconds(self) -> int | None:
        """Return how long the topic keeps a record; None: for ever, by the size of the topic, or it does not say."""
        return _kept_seconds(self._client.settings_of_topic()) if self._kept is None else self._kept

    def offsets_at(self, moment_ms: int) -> Offsets:
        """See `SupportsMoments`; two questions to the broker for all partitions."""
        return self._client.at(moment_ms)

    # ------------------------------------------------------------------ records
    def read_offsets(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        """See `SupportsOffsets`; the columns are `SCHEMA`'s, in no order.

        Raises:
            SourceDamagedError: Spark cannot represent the times of too many records.
        """
        unread = self._unread(ranges)
        if not unread:
            return self._read(ranges)
        rows = frame_of(self._spark, self._topic, unread, SCHEMA)
        return self._read(without(ranges, unread)).unionByName(rows, allowMissingColumns=True)

    def _unread(self, ranges: Sequence[OffsetRange]) -> list[UnreadRecord]:
        """Return the records of ranges whose times Spark cannot represent; one question to the broker where there are none."""
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

    def _read(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        """Return the records of ranges that Spark reads."""
        rounds: dict[int, list[OffsetRange]] = defaultdict(list)
        seen: dict[str, int] = defaultdict(int)
        for one in ranges:
            if one.start < one.stop:
                # The connector takes one range of a partition.
                rounds[seen[one.partition]].append(one)
                seen[one.partition] += 1
        if not rounds:
            return no_rows(self._spark, SCHEMA)
        return reduce(DataFrame.unionAll, map(self._frame, rounds.values()))

    def _frame(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        cores = self._spark.sparkContext.defaultParallelism
        offsets = count(tuple(ranges))
        tasks = min(cores, max(1, offsets // TASK_OFFSETS_MIN, len(ranges) // TASK_RANGES))
        options = {
            **self._settings.of_spark,
            "kafka.group.id": self._group,
            "kafkaConsumer.pollTimeoutMs": str(POLL_MS),
            "assign": json.dumps({self._topic: [int(one.partition) for one in ranges]}),
            "startingOffsets": json.dumps({self._topic: {one.partition: one.start for one in ranges}}),
            "endingOffsets": json.dumps({self._topic: {one.partition: one.stop for one in ranges}}),
            "failOnDataLoss": "true",
            "includeHeaders": "true",
        }
        if tasks > len(ranges):
            options["minPartitions"] = str(tasks)
        records = self._spark.read.format("kafka").options(**options).load().select(*SCHEMA.names)
        # The connector makes a task of each range, and a task of a write makes a file.
        few = max(tasks, offsets // TASK_OFFSETS)
        return records.coalesce(few) if few < len(ranges) else records

    def close(self) -> None:
        """See `SupportsClose`; the consumers of tasks are Spark's, which closes them after some minutes."""
        self._client.close()

    def explain_failure(self, error: Exception) -> BackfillError | None:
        """See `Source`."""
        return explain(error, topic=self._topic, address=self._settings.address)


def _kept_seconds(configured: Mapping[str, str]) -> int | None:
    kept_ms = int(configured.get("retention.ms", "-1"))
    return None if kept_ms < 0 or "delete" not in configured.get("cleanup.policy", "") else kept_ms // 1000
