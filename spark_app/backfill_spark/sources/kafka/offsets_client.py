"""What a broker says of a topic: its identity, its partitions, and the first and the last offset of each.

The clients are those that Spark's connector uses, in the same JVM, with the same settings. An answer comes as one text: a call into
the JVM costs a tenth of a millisecond, and a topic may have a thousand partitions.
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
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Kafka's identity of a topic that has none."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a topic."""

    topic_id: str
    """Empty: the broker gives topics no identity."""

    offsets: Offsets
    """Of every partition that it has."""

    watermarks: Offsets | None = None
    """High watermark of every partition, where `offsets` are last stable offsets."""


class OffsetsClient:
    """Asks for the offsets of one topic. Safe to use from several threads; each method raises what `explain_look` makes of a failure."""

    def __init__(self, spark: SparkSession, topic: str, settings: ClientSettings) -> None:
        """Take the settings; nothing is connected before the first question."""
        self._spark, self._topic, self._settings = spark, topic, settings
        self._found = re.compile(rf"(?:^\{{|, ){re.escape(topic)}-(\d+)=(\d+)(?=[,}}])")
        self._watermark = re.compile(rf"(?:^\{{|, ){re.escape(topic)}-(\d+)=ListOffsetsResultInfo\(offset=(\d+),")
        self._found_at = re.compile(rf"(?:^\{{|, ){re.escape(topic)}-(\d+)=\([^()]*offset=(\d+)\)")
        self._lock = threading.Lock()
        self._admin: Any = None
        self._consumer: Any = None
        self._partitions: Any = None
        """Java's list of partitions; grows with the topic."""

        self._latest: Any = None
        """Java's map from each partition to the question for its high watermark."""

    def first(self) -> Seen:
        """Return the offset of the oldest record that is there, by partition.

        Raises:
            SourceNotFoundError: there is no such topic.
        """
        return self._look("beginningOffsets")

    def newest(self) -> Seen:
        """Return the offset after the last record that may be read, by partition: an open transaction ends there.

        A client that reads committed records also returns the high watermarks, which are asked for first: records that are written
        between the two questions stand behind no transaction.

        Raises:
            SourceNotFoundError: there is no such topic.
        """
        return self._look("endOffsets")

    def at(self, moment_ms: int) -> Offsets:
        """Return the first offset of each partition whose record is no older than a moment; where all are older, the newest one.

        Raises:
            SourceNotFoundError: there is no such topic.
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
        """Return the first offset whose record is no older than a time, of those of some partitions that have one.

        The broker has an index of times: it reads no records to answer.
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
        """Yield a Java consumer of the caller's own, as Spark's are configured; it is closed afterwards."""
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
        """Return how the topic is configured; empty where this user may not know."""
        with self._lock:
            try:
                return self._configured()
            except JAVA_ERRORS:
                return {}

    def close(self) -> None:
        """Close the clients; the next question opens others."""
        with self._lock:
            self._disconnect()

    def _look(self, question: str) -> Seen:
        with self._lock:
            try:
                self._connect()
                return self._offsets(question)
            except JAVA_ERRORS as error:
                self._disconnect()
                raise explain_look(error, topic=self._topic, address=self._settings.address) from error

    # ------------------------------------------------------------------ with the lock
    def _connect(self) -> None:
        if self._admin is not None:
            return
        self._check_connector()
        jvm = java(self._spark)
        # One reads it as a consumer's, the other as an administrator's: neither minds what is not its own.
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
        """Close what is open: a client that lost its broker, or was refused, is made anew."""
        for one in (self._admin, self._consumer):
            if one is not None:
                try:
                    one.close(java(self._spark).java.time.Duration.ZERO)
                except JAVA_ERRORS:
                    continue
        self._admin = self._consumer = self._partitions = self._latest = None

    def _check_connector(self) -> None:
        """Refuse a session without Spark's Kafka connector.

        Raises:
            SessionUnfitError: the hint has the line that it lacks.
        """
        jvm = java(self._spark)
        try:
            jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(CONNECTOR)
        except JAVA_ERRORS as error:
            raise SessionUnfitError(
                "the Spark session lacks the jars of the Kafka connector.",
                hint=f'Add to its builder, and build it anew:\n    .config("spark.jars.packages", "…,{CONNECTOR_PACKAGE}")',
            ) from error

    def _offsets(self, question: str) -> Seen:
        jvm = java(self._spark)
        asked = jvm.java.util.Collections.singletonList(self._topic)
        described = self._admin.describeTopics(asked).allTopicNames().get().get(self._topic)
        topic_id, count = str(described.topicId().toString()), int(described.partitions().size())
        for number in range(self._partitions.size(), count):
            partition = jvm.org.apache.kafka.common.TopicPartition(self._topic, number)
            self._partitions.add(partition)
            self._latest.put(partition, jvm.org.apache.kafka.clients.admin.OffsetSpec.latest())
        committed_alone = self._settings.values.get("isolation.level") == "read_committed"
        watermarks = self._watermarks() if question == "endOffsets" and committed_alone else None
        answer = str(getattr(self._consumer, question)(self._partitions).toString())
        offsets = {name: int(offset) for name, offset in self._found.findall(answer)}
        if len(offsets) < count:
            raise SourceNotFoundError(
                f"the topic {self._topic} at {self._settings.address} has {counted(count, 'partition')}, and offsets of {len(offsets)}.",
                hint="It was deleted: give the job another topic.",
            )
        return Seen("" if topic_id == NO_ID else topic_id, offsets, watermarks)

    def _watermarks(self) -> Offsets:
        """Return the high watermarks: an administrator's question has no isolation level, so open transactions end nothing."""
        answer = str(self._admin.listOffsets(self._latest).all().get().toString())
        return {name: int(offset) for name, offset in self._watermark.findall(answer)}

    def _offsets_at(self, moment_ms: int, partitions: Iterable[Any]) -> Offsets:
        moments = java(self._spark).java.util.HashMap()
        for partition in partitions:
            # A number below 2 ** 31 would be another class in Java; no record is as old as that.
            moments.put(partition, max(moment_ms, 1 << 32))
        answer = str(self._consumer.offsetsForTimes(moments).toString())
        return {name: int(offset) for name, offset in self._found_at.findall(answer)}

    def _configured(self) -> dict[str, str]:
        self._connect()
        jvm = java(self._spark)
        resource = jvm.org.apache.kafka.common.config.ConfigResource
        asked = resource(resource.Type.TOPIC, self._topic)
        config = self._admin.describeConfigs(jvm.java.util.Collections.singletonList(asked)).all().get().get(asked)
        entries = {name: config.get(name) for name in ("cleanup.policy", "retention.ms")}
        return {name: str(entry.value()) for name, entry in entries.items() if entry is not None}
