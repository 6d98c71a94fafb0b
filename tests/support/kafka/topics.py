"""Topics of a broker, writers to them, and an independent reader of them.

All of it uses another client library than the driver: its view of a topic shares no code with the code under test.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType
from support.kafka.broker import MESSAGE_MAX

WAIT_S = 30
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
"""Configuration of a topic that keeps the last record of each key."""

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a reader of committed records sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class Topics:
    """The topics of one broker."""

    def __init__(self, address: str) -> None:
        """Take the address of the broker."""
        self.address = address
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        self._numbers = itertools.count(1)

    def create(self, name: str = "", partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Make a topic, by default with a unique name; return its name."""
        made = name or f"topic-{next(self._numbers)}-{uuid.uuid4().hex[:6]}"
        _done(self._admin.create_topics([NewTopic(made, partitions, 1, config=dict(config or {}))]))
        return made

    def delete(self, name: str) -> None:
        """Delete a topic, and return when it is gone."""
        _done(self._admin.delete_topics([name]))
        self._until(lambda: name not in self._admin.list_topics(timeout=WAIT_S).topics)

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions, up to this number."""
        _done(self._admin.create_partitions([NewPartitions(name, partitions)]))
        self._until(lambda: len(self._admin.list_topics(name, timeout=WAIT_S).topics[name].partitions) == partitions)

    def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        """Delete the records of each partition before an offset, as retention would."""
        _done(
            self._admin.delete_records(
                [TopicPartition(name, partition, offset) for partition, offset in before.items()]
            )
        )

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Set the configuration of a topic; settings that are not named return to the default."""
        _done(self._admin.alter_configs([ConfigResource(ResourceType.TOPIC, name, set_config=dict(config))]))

    def watermarks(self, name: str) -> dict[int, tuple[int, int]]:
        """Return the first existing offset and the one after the last, by partition; markers count as offsets."""
        with _consumer(self.address) as reader:
            return {
                partition: reader.get_watermark_offsets(TopicPartition(name, partition), WAIT_S)
                for partition in self._of(name)
            }

    def committed(self, name: str) -> dict[tuple[int, int], Record]:
        """Return every committed record of a topic, by partition and offset."""
        records: dict[tuple[int, int], Record] = {}
        with _consumer(self.address) as reader:
            left = self._of(name)
            reader.assign([TopicPartition(name, partition, OFFSET_BEGINNING) for partition in left])
            deadline = time.monotonic() + WAIT_S
            while left:
                assert time.monotonic() < deadline, f"{name}: no end of the partitions {left}"
                for message in reader.consume(1000, timeout=0.2):
                    if message.error() is None:
                        record = _record(message)
                        records[record.partition, record.offset] = record
                    else:
                        assert message.error().code() == KafkaError._PARTITION_EOF, message.error()  # noqa: SLF001 - its public name
                        left.discard(message.partition())
        return records

    def read_by(self, name: str, group: str, *, upto: int) -> dict[str, dict[int, int]]:
        """Let a group read partition 0 up to an offset, and commit that; return the result of `groups`."""
        with _consumer(self.address, group) as reader:
            reader.commit(offsets=[TopicPartition(name, 0, upto)], asynchronous=False)
        return self.groups(name)

    def groups(self, name: str) -> dict[str, dict[int, int]]:
        """Return the offsets that each group has committed for a topic, by partition; groups without commits are left out."""
        listed = self._admin.list_consumer_groups().result(WAIT_S).valid
        committed = dict[str, dict[int, int]]()
        for group in sorted(group_.group_id for group_ in listed):
            request = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
            offsets = {
                partition.partition: partition.offset
                for partition in request.result(WAIT_S).topic_partitions
                if partition.topic == name
            }
            if offsets:
                committed[group] = offsets
        return committed

    def compact(self, name: str, partition: int = 0) -> dict[tuple[int, int], Record]:
        """Wait until a compacted partition keeps one record of a key before its last segment; return the remaining records.

        Each turn writes a filler record, because only a segment that is no longer written to is compacted.
        """
        before = len(self.committed(name))
        with producing(self.address) as send:
            for number in itertools.count():
                send(name, b"filler", b"filler", partition=partition)
                left = self.committed(name)
                if len(left) < before:
                    return left
                assert number < 10 * WAIT_S, f"{name} was not compacted"
        raise AssertionError

    def _of(self, name: str) -> set[int]:
        return set(self._admin.list_topics(name, timeout=WAIT_S).topics[name].partitions)

    def _until(self, holds) -> None:
        deadline = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < deadline


@contextmanager
def producing(address: str):
    """Yield a function that sends one record: `send(topic, value, key=None, partition=0, headers=(), timestamp_ms=0)`; all
    records are delivered afterwards."""
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 2, "message.max.bytes": MESSAGE_MAX, "log_level": 0}
    )
    yield _sender(producer)
    assert producer.flush(WAIT_S) == 0


@contextmanager
def transacting(address: str, name: str = ""):
    """Yield a `Transactions` of one transactional producer."""
    # A busy machine must not make the broker end a transaction that a test holds open.
    settings = {
        "bootstrap.servers": address,
        "transactional.id": name or uuid.uuid4().hex,
        "transaction.timeout.ms": 600_000,
        "log_level": 0,
    }
    producer = Producer({**settings, "linger.ms": 2, "message.max.bytes": MESSAGE_MAX})
    producer.init_transactions(WAIT_S)
    yield Transactions(producer, AdminClient({"bootstrap.servers": address, "log_level": 0}))


class Transactions:
    """One transactional producer: each `with` of it is one transaction."""

    def __init__(self, producer: Producer, admin: AdminClient) -> None:
        """Take the producer, and a client of the same broker."""
        self._producer, self._admin = producer, admin
        self._last: dict[tuple[str, int], int] = {}
        """Offset of the last record of the current transaction, by topic and partition."""

    def flush(self) -> None:
        """Return when the broker has all records that were sent."""
        assert self._producer.flush(WAIT_S) == 0

    @contextmanager
    def __call__(self, *, abort: bool = False):
        """Yield a function that sends one record, as `producing`; the transaction ends committed, or aborted, for all readers."""
        self._producer.begin_transaction()
        self._last.clear()
        yield _sender(self._producer, self._delivered)
        self.flush()
        if abort:
            self._producer.abort_transaction(WAIT_S)
        else:
            self._producer.commit_transaction(WAIT_S)
        self._until_markers()

    def _delivered(self, error, message) -> None:
        if error is None:
            self._last[message.topic(), message.partition()] = message.offset()

    def _until_markers(self) -> None:
        """Wait until readers see the end: a broker answers the producer before it writes the marker of each partition."""
        deadline = time.monotonic() + WAIT_S
        request = {TopicPartition(*place): OffsetSpec.latest() for place in self._last}
        while request:
            ends = self._admin.list_offsets(request, isolation_level=IsolationLevel.READ_COMMITTED)
            if all(end.result(WAIT_S).offset > self._last[at.topic, at.partition] for at, end in ends.items()):
                return
            assert time.monotonic() < deadline, f"a transaction has no marker in one of {self._last}"


def _sender(producer: Producer, delivered=None):
    def send(
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int = 0,
        headers: Headers = (),
        timestamp_ms: int = 0,
    ) -> None:
        while True:
            try:
                producer.produce(
                    topic, value, key, partition, headers=list(headers), timestamp=timestamp_ms, on_delivery=delivered
                )
            except BufferError:
                producer.poll(0.1)
            else:
                producer.poll(0)
                return

    return send


def send_all(address: str, topic: str, values: Iterable[bytes | None], *, partition: int = 0) -> None:
    """Send records without a key to a partition; they are delivered afterwards."""
    with producing(address) as send:
        for value in values:
            send(topic, value, partition=partition)


@contextmanager
def _consumer(address: str, group: str = ""):
    reader = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group or f"independent-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": MESSAGE_MAX,
            "log_level": 0,
        }
    )
    try:
        yield reader
    finally:
        reader.close()


def _record(message) -> Record:
    headers = tuple(message.headers() or ())
    _, timestamp = message.timestamp()
    return Record(message.partition(), message.offset(), message.key(), message.value(), headers, timestamp)


def _done(futures) -> None:
    for future in futures.values():
        future.result(WAIT_S)
