"""Facts about a topic from a broker: its id, its partitions, and the first and last offset of each.

The clients are those of Spark's connector, in the same JVM and with the same settings. An answer is read as one string, because
each JVM call takes 0.1 ms, and a topic may have a thousand partitions.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_api.amounts import counted
from backfill_core.errors import SessionUnfitError, SourceNotFoundError
from backfill_core.positions.offsets import Offsets
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import java
from backfill_spark.sources.kafka.client import ClientSettings
from backfill_spark.sources.kafka.failures import explain_look

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
CONNECTOR_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
TOPIC_SETTINGS = ("cleanup.policy", "retention.ms", "delete.retention.ms")
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Kafka's topic id for topics without one."""


@dataclass(frozen=True, slots=True)
class Seen:
    """State of a topic at one time."""

    topic_id: str
    """Id of the topic; empty if the broker does not support topic ids."""

    offsets: Offsets
    """Offset of every partition."""

    watermarks: Offsets | None = None
    """High watermark of every partition, if `offsets` are last stable offsets."""


class OffsetsClient:
    """Requests the offsets of one topic. Thread-safe; each method raises the errors of `explain_look`."""

    def __init__(self, spark: SparkSession, topic: str, settings: ClientSettings) -> None:
        """Store the settings; connects at the first request."""
        self._spark, self._topic, self._settings = spark, topic, settings
        self._end = re.compile(rf"(?:^\{{|, ){re.escape(topic)}-(\d+)=(\d+)(?=[,}}])")
        self._watermark = re.compile(rf"(?:^\{{|, ){re.escape(topic)}-(\d+)=ListOffsetsResultInfo\(offset=(\d+),")
        self._at_time = re.compile(rf"(?:^\{{|, ){re.escape(topic)}-(\d+)=\([^()]*offset=(\d+)\)")
        self._lock = threading.Lock()
        self._admin: Any = None
        self._consumer: Any = None
        self._partitions: Any = None
        """Java list of partitions; grows with the topic."""

        self._latest: Any = None
        """Java map from each partition to the request for its high watermark."""

    def first(self) -> Seen:
        """Return the offset of the oldest available record, by partition.

        Raises:
            SourceNotFoundError: the topic does not exist.
        """
        return self._seen("beginningOffsets")

    def newest(self) -> Seen:
        """Return the offset after the last readable record, by partition; open transactions are not readable.

        A client that reads committed records also returns the high watermarks. These are requested first, so that records
        written between the two requests do not seem to belong to an open transaction.

        Raises:
            SourceNotFoundError: the topic does not exist.
        """
        return self._seen("endOffsets")

    def at(self, moment_ms: int) -> Offsets:
        """Return the first offset of each partition with a record at or after a time; the newest offset if all are older.

        Raises:
            SourceNotFoundError: the topic does not exist.
        """
        with self._lock:
            try:
                self._connect()
                newest = self._offsets("endOffsets").offsets
                return {**newest, **self._offsets_at(moment_ms, self._partitions)}
            except JAVA_ERRORS as error:
                self._disconnect()
                raise explain_look(error, topic=self._topic, address=self._settings.address) from error

    def first_since(self, moment_ms: int, names: Iterable[str]) -> Offsets:
        """Return the first offset with a record at or after a time, for the partitions with such a record.

        The broker answers from its time index, and reads no records.
        """
        with self._lock:
            try:
                self._connect()
                partition = java(self._spark).org.apache.kafka.common.TopicPartition
                return self._offsets_at(moment_ms, [partition(self._topic, int(name)) for name in names])
            except JAVA_ERRORS as error:
                self._disconnect()
                raise explain_look(error, topic=self._topic, address=self._settings.address) from error

    @contextmanager
    def consumer(self) -> Iterator[Any]:
        """Yield a new Java consumer with the configuration of Spark's consumers; closes it afterwards."""
        try:
            self._check_connector()
            consumer = java(self._spark).org.apache.kafka.clients.consumer.KafkaConsumer(self._of_consumer())
            try:
                yield consumer
            finally:
                consumer.close(java(self._spark).java.time.Duration.ZERO)
        except JAVA_ERRORS as error:
            raise explain_look(error, topic=self._topic, address=self._settings.address) from error

    def settings_of_topic(self) -> Mapping[str, str]:
        """Return the topic's settings; empty if this user may not read them."""
        with self._lock:
            try:
                return self._configured()
            except JAVA_ERRORS:
                return {}

    def close(self) -> None:
        """Close the clients; the next request opens new ones."""
        with self._lock:
            self._disconnect()

    def _seen(self, method: str) -> Seen:
        with self._lock:
            try:
                self._connect()
                return self._offsets(method)
            except JAVA_ERRORS as error:
                self._disconnect()
                raise explain_look(error, topic=self._topic, address=self._settings.address) from error

    # ------------------------------------------------------------------ callers hold the lock
    def _connect(self) -> None:
        if self._admin is not None:
            return
        self._check_connector()
        jvm = java(self._spark)
        # Consumer and admin client share one map, because each ignores settings of the other.
        settings = self._of_consumer()
        self._admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
        self._consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        self._partitions, self._latest = jvm.java.util.ArrayList(), jvm.java.util.HashMap()

    def _of_consumer(self) -> Any:
        given = {"key.deserializer": BYTES, "value.deserializer": BYTES, "enable.auto.commit": "false"}
        settings = java(self._spark).java.util.HashMap()
        for name, value in {**self._settings.values, **given}.items():
            settings.put(name, value)
        return settings

    def _disconnect(self) -> None:
        """Close the open clients; after a lost or rejected connection, the next request creates new ones."""
        for client in (self._admin, self._consumer):
            if client is not None:
                try:
                    client.close(java(self._spark).java.time.Duration.ZERO)
                except JAVA_ERRORS:
                    continue
        self._admin = self._consumer = self._partitions = self._latest = None

    def _check_connector(self) -> None:
        """Reject a session without Spark's Kafka connector.

        Raises:
            SessionUnfitError: the hint contains the missing line.
        """
        jvm = java(self._spark)
        try:
            jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(CONNECTOR)
        except JAVA_ERRORS as error:
            raise SessionUnfitError(
                "the Spark session lacks the jars of the Kafka connector.",
                hint=f'Add to its builder, and create the session again:\n    .config("spark.jars.packages", "…,{CONNECTOR_PACKAGE}")',
            ) from error

    def _offsets(self, method: str) -> Seen:
        jvm = java(self._spark)
        topics = jvm.java.util.Collections.singletonList(self._topic)
        described = self._admin.describeTopics(topics).allTopicNames().get().get(self._topic)
        topic_id, count = str(described.topicId().toString()), int(described.partitions().size())
        for number in range(self._partitions.size(), count):
            partition = jvm.org.apache.kafka.common.TopicPartition(self._topic, number)
            self._partitions.add(partition)
            self._latest.put(partition, jvm.org.apache.kafka.clients.admin.OffsetSpec.latest())
        committed_only = self._settings.values.get("isolation.level") == "read_committed"
        watermarks = self._watermarks() if method == "endOffsets" and committed_only else None
        answer = str(getattr(self._consumer, method)(self._partitions).toString())
        offsets = {name: int(offset) for name, offset in self._end.findall(answer)}
        if len(offsets) < count:
            raise SourceNotFoundError(
                f"the topic {self._topic} at {self._settings.address} has {counted(count, 'partition')}, but offsets of only {len(offsets)}.",
                hint="It was deleted: give the job another topic.",
            )
        return Seen("" if topic_id == NO_ID else topic_id, offsets, watermarks)

    def _watermarks(self) -> Offsets:
        """Return the high watermarks; requests of the admin client have no isolation level, so they ignore open transactions."""
        answer = str(self._admin.listOffsets(self._latest).all().get().toString())
        return {name: int(offset) for name, offset in self._watermark.findall(answer)}

    def _offsets_at(self, moment_ms: int, partitions: Iterable[Any]) -> Offsets:
        times = java(self._spark).java.util.HashMap()
        for partition in partitions:
            # py4j would convert a number below 2 ** 31 to Integer, not Long; no record is that old.
            times.put(partition, max(moment_ms, 1 << 32))
        answer = str(self._consumer.offsetsForTimes(times).toString())
        return {name: int(offset) for name, offset in self._at_time.findall(answer)}

    def _configured(self) -> dict[str, str]:
        self._connect()
        jvm = java(self._spark)
        resource = jvm.org.apache.kafka.common.config.ConfigResource
        topic = resource(resource.Type.TOPIC, self._topic)
        config = self._admin.describeConfigs(jvm.java.util.Collections.singletonList(topic)).all().get().get(topic)
        entries = {name: config.get(name) for name in TOPIC_SETTINGS}
        return {name: str(entry.value()) for name, entry in entries.items() if entry is not None}
