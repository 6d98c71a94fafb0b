"""Batches of a topic as the broker sends them, and the sizes of their records, which are decompressed but not held in memory.

A Kafka consumer decompresses each record as a whole before it returns it. So a batch is taken out of the consumer before that. No
public interface has batches: these are fields and methods of the consumer's internals, in the version of Spark's connector.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_core.errors import TransientError
from backfill_core.pacing.record_sizes import MeasuredRecord
from backfill_core.positions.offsets import OffsetRange
from backfill_spark.jvm.bulk_calls import java_function
from backfill_spark.jvm.gateway import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_MS = 20
SILENCE_S = 30.0
_BATCH = "org.apache.kafka.common.record.MutableRecordBatch"
_RECORD = "org.apache.kafka.common.record.Record"


@dataclass(frozen=True, slots=True)
class RawBatch:
    """The readable records of a batch; none if it is a marker or part of an aborted transaction."""

    records: tuple[MeasuredRecord, ...]
    stop: int
    """Offset after the batch."""


class RawBatches:
    """Reads the batches of one topic with a consumer that no other code uses."""

    def __init__(self, spark: SparkSession, consumer: Any, topic: str) -> None:
        """Let the consumer fetch batches without decompressing them."""
        self._jvm, self._consumer, self._topic = java(spark), consumer, topic
        self._reflect = self._jvm.org.apache.commons.lang3.reflect.FieldUtils
        fetcher = self._field(self._field(consumer, "delegate"), "fetcher")
        config = self._field(fetcher, "fetchConfig")
        limit = config.getClass().getDeclaredField("maxPollRecords")
        limit.setAccessible(True)
        limit.set(config, 0)  # `poll` fetches, and takes no record out of the fetched batches
        self._fetched = self._field(self._field(fetcher, "fetchBuffer"), "completedFetches")
        self._of_batch = {
            name: java_function(spark, _BATCH, name)
            for name in ("baseOffset", "lastOffset", "producerId", "isControlBatch", "isTransactional")
        }
        self._of_record = {name: java_function(spark, _RECORD, name) for name in ("offset", "sizeInBytes", "timestamp")}
        self._records = self._record_iterators()

    def _field(self, owner: Any, name: str) -> Any:
        return self._reflect.readField(owner, name, True)

    def _record_iterators(self) -> Any:
        """Return a Java function from a batch to the iterator of its records, which skips their keys and values."""
        handles, reflection = self._jvm.java.lang.invoke, self._jvm.py4j.reflection.ReflectionUtil
        methods = reflection.classForName(_BATCH).getMethods()
        (skips,) = (method for method in methods if method.getName() == "skipKeyValueIterator")
        buffers = self._jvm.java.util.ArrayList()
        buffers.add(self._jvm.org.apache.kafka.common.utils.BufferSupplier.NO_CACHING)
        handle = handles.MethodHandles.publicLookup().unreflect(skips)
        handle = handles.MethodHandles.insertArguments(handle, 1, buffers.toArray())
        return handles.MethodHandleProxies.asInterfaceInstance(
            reflection.classForName("java.util.function.Function"), handle
        )

    def read(self, span: OffsetRange, stop: int) -> Iterator[RawBatch]:
        """Yield the batches from the start of a range to the offset `stop`; the first one may begin earlier.

        Raises:
            TransientError: the broker sends no batch for 30 s.
        """
        partition = self._jvm.org.apache.kafka.common.TopicPartition(self._topic, int(span.partition))
        self._consumer.assign(self._jvm.java.util.Collections.singletonList(partition))
        at = span.start
        while at < stop:
            self._consumer.seek(partition, at)
            data = self._fetch(span.partition, at)
            if int(data.errorCode()):
                return  # Spark's read reports the reason.
            for batch in self._parsed(data):
                at = batch.stop
                yield batch

    def _fetch(self, partition: str, at: int) -> Any:
        until_s = time.monotonic() + SILENCE_S
        while time.monotonic() < until_s:
            self._consumer.poll(self._jvm.java.time.Duration.ofMillis(POLL_MS))
            fetched = self._fetched.poll()
            if fetched is None:
                continue
            data = self._field(fetched, "partitionData")
            records = data.records()
            # A fetch from the partition's end has no records, and one of an earlier position is obsolete.
            if int(data.errorCode()) or (int(self._field(fetched, "nextFetchOffset")) == at and records.sizeInBytes()):
                return data
        raise TransientError(f"the broker sends no records of partition {partition} after offset {at}.")

    def _parsed(self, data: Any) -> Iterator[RawBatch]:
        batches = self._jvm.org.apache.commons.collections4.IteratorUtils.toList(data.records().batchIterator())
        base, last, producer = (self._numbers(batches, name) for name in ("baseOffset", "lastOffset", "producerId"))
        control, transactional = (self._flags(batches, name) for name in ("isControlBatch", "isTransactional"))
        begins = sorted((int(txn.firstOffset()), int(txn.producerId())) for txn in data.abortedTransactions() or ())
        aborted = set[int]()
        for place in range(len(base)):
            while begins and begins[0][0] <= last[place]:
                aborted.add(begins.pop(0)[1])
            if control[place]:
                aborted.discard(producer[place])
            hidden = control[place] or (transactional[place] and producer[place] in aborted)
            yield RawBatch(() if hidden else self._measured(batches.get(place)), last[place] + 1)

    def _measured(self, batch: Any) -> tuple[MeasuredRecord, ...]:
        iterators = self._jvm.java.util.Collections.singletonList(batch).stream().map(self._records).toList()
        listed = self._jvm.org.apache.commons.collections4.IteratorUtils.toList(iterators.get(0))
        values = (self._values(listed, self._of_record[name]) for name in ("offset", "sizeInBytes", "timestamp"))
        return tuple(MeasuredRecord(*map(int, row)) for row in zip(*values, strict=True))

    def _numbers(self, batches: Any, name: str) -> list[int]:
        return [int(text) for text in self._values(batches, self._of_batch[name])]

    def _flags(self, batches: Any, name: str) -> list[bool]:
        return [text == "true" for text in self._values(batches, self._of_batch[name])]

    @staticmethod
    def _values(items: Any, function: Any) -> Sequence[str]:
        """Return a value of each element, by one JVM call: each call takes 0.1 ms."""
        text = str(items.stream().map(function).toList().toString()).strip("[]")
        return text.split(", ") if text else ()
