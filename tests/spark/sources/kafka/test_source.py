"""A topic of a real broker is read as an independent client reads it: each committed record once, by its offset."""

import pytest
from support.kafka.jobs import admins, lives_on
from support.kafka.topics import COMPACTED, producing, send_all, transacting

from backfill_core.errors import (
    InvalidSpecError,
    OffsetsExpiredError,
    SourceNotFoundError,
    SourceReplacedError,
    TransientError,
)
from backfill_core.pacing.open_transactions import warn_of_open
from backfill_core.positions.offsets import OffsetRange
from backfill_spark.records.parsing import UNREAD
from backfill_spark.sources.kafka import format_offsets
from backfill_spark.sources.kafka.source import SCHEMA


def rows(frame):
    """Return rows of a topic in the form of the independent reader, by partition and offset."""
    collected = frame.selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    assert len({(row.partition, row.offset) for row in collected}) == len(collected)
    plain = lambda value: None if value is None else bytes(value)  # noqa: E731
    return {
        (row.partition, row.offset): (
            plain(row.key), plain(row.value), tuple((header.key, plain(header.value)) for header in row.headers or ()), row.ms
        )
        for row in collected
    }  # fmt: skip


def as_seen(records):
    """Return records of the independent reader in the same form."""
    return {at: (record.key, record.value, record.headers, record.timestamp_ms) for at, record in records.items()}


class TestRecords:
    """A range has the records that a reader of committed records sees in it."""

    def test_the_records_are_those_that_another_client_sees(self, topics, opened, broker):
        """Keys and values that are null, headers that are null or repeated, aborted transactions, markers at the end."""
        topic = topics.create(partitions=3)
        with producing(broker.address) as send:
            send(topic, None, b"key", headers=[("h", None), ("h", b"2")], timestamp_ms=1)
            send(topic, b"", None, timestamp_ms=4_102_444_800_000)
        with transacting(broker.address) as transaction:
            for number in range(6):
                with transaction(abort=number % 2 == 0) as send:
                    send(topic, b"%d" % number, partition=1)
        source = opened(topic)

        subscribed = source.subscribe(None)
        frame = source.read_offsets([OffsetRange(name, 0, end) for name, end in subscribed.newest.items()])

        assert frame.schema.names == SCHEMA.names == source.read_offsets([]).schema.names
        assert subscribed.newest == {"0": 2, "1": 12, "2": 0}
        assert rows(frame) == as_seen(topics.committed(topic))
        assert rows(frame.where("partition = 1")).keys() == {(1, 2), (1, 6), (1, 10)}

    def test_only_records_of_the_ranges_are_read(self, topics, opened, broker):
        """A split may have several ranges of one partition, and none of another."""
        topic = topics.create(partitions=2)
        for partition in (0, 1):
            send_all(broker.address, topic, [b"%d" % number for number in range(9)], partition=partition)
        source = opened(topic)

        frame = source.read_offsets([OffsetRange("0", 1, 3), OffsetRange("0", 5, 6), OffsetRange("1", 8, 9)])

        assert rows(frame).keys() == {(0, 1), (0, 2), (0, 5), (1, 8)}
        assert rows(source.read_offsets([OffsetRange("1", 4, 4)])) == {}

    def test_many_small_ranges_become_few_tasks(self, topics, opened, broker):
        """Each task writes a file of the target: a topic of a thousand partitions would make a thousand small files a second."""
        topic = topics.create(partitions=40)
        with producing(broker.address) as send:
            for number in range(80):
                send(topic, b"%d" % number, partition=number % 40)

        frame = opened(topic).read_offsets([OffsetRange(str(partition), 0, 2) for partition in range(40)])

        assert frame.rdd.getNumPartitions() <= 2
        assert rows(frame) == as_seen(topics.committed(topic))

    def test_records_that_compaction_left_are_read(self, topics, opened, broker):
        """Offsets without a record are no loss."""
        topic = topics.create(config=COMPACTED)
        with producing(broker.address) as send:
            for number in range(12):
                send(topic, b"%d" % number, b"key %d" % (number % 3))
        remaining = topics.compact(topic)
        source = opened(topic)

        read = rows(source.read_offsets([OffsetRange("0", 0, source.head().position["0"])]))

        assert read == as_seen(remaining)
        assert (0, 0) not in read

    def test_records_of_any_time_are_read(self, topics, opened, broker):
        """Times before 1970 and missing times are read.

        A time after Spark's range leaves its column null. A time before that range is an error that names the record.
        """
        topic = topics.create()
        times_ms = (-1, -5, -946_080_000_001, -11_000_000_000_000, 2**62, -(2**62))
        with producing(broker.address) as send:
            for timestamp_ms in times_ms:
                send(topic, b"value", timestamp_ms=timestamp_ms)
        source, records = opened(topic), as_seen(topics.committed(topic))
        too_late, too_early = records.pop((0, 4)), records.pop((0, 5))

        assert rows(source.read_offsets([OffsetRange("0", 0, 4)])) == records
        assert (too_late[-1], too_early[-1]) == (2**62, -(2**62))
        (unread,) = source.read_offsets([OffsetRange("0", 4, 5)]).collect()
        assert (unread.offset, bytes(unread.value), unread.timestamp) == (4, b"value", None)
        assert unread[UNREAD].columns == ["timestamp"]
        assert "4611686018427387904 ms" in unread[UNREAD].reason
        assert {row.offset for row in source.read_offsets([OffsetRange("0", 3, 6)]).collect()} == {3, 4, 5}

    def test_a_record_of_ten_megabytes_is_read(self, topics, opened, broker):
        """A record is read in any size that the broker accepts."""
        topic = topics.create(config={"max.message.bytes": str(11 * 1024 * 1024)})
        large = bytes(10 * 1024 * 1024)
        send_all(broker.address, topic, [large, b"small"])

        frame = opened(topic).read_offsets([OffsetRange("0", 0, 2)])

        assert [row.size for row in frame.selectExpr("length(value) AS size").collect()] == [len(large), 5]


class TestAGroupOfOthers:
    """Other readers of a topic have their own groups and offsets."""

    def test_other_groups_stay_unchanged(self, topics, opened, broker):
        """The job joins no group and moves no offset. Offsets of other groups do not move the job's."""
        topic = topics.create()
        send_all(broker.address, topic, [b"%d" % number for number in range(9)])
        before = topics.read_by(topic, "others", upto=4)
        source = opened(topic)

        frame = source.read_offsets([OffsetRange("0", 0, source.subscribe(None).newest["0"])])

        assert len(rows(frame)) == 9
        assert topics.groups(topic) == before == {"others": {0: 4}}


class TestPositions:
    """Positions are the first and last offsets of a topic; expired ones are named."""

    def test_an_open_transaction_ends_the_readable_offsets(self, topics, opened, broker):
        """Its records may still be aborted, and records after them wait, too."""
        topic = topics.create()
        source, uncommitted = opened(topic), opened(topic, isolation="ReadUncommitted")
        with transacting(broker.address) as transaction:
            with transaction() as send:
                send_all(broker.address, topic, [b"before"])
                send(topic, b"open")
                transaction.flush()
                send_all(broker.address, topic, [b"after"])
                ends, heads = (source.head().position, uncommitted.head().position), [source.head(), uncommitted.head()]
            after = source.head()

        assert (ends, after.position) == (({"0": 1}, {"0": 3}), {"0": 4})
        assert [head.watermarks for head in (*heads, after)] == [{"0": 3}, None, {"0": 4}]

    def test_a_plan_names_an_open_transaction_that_lasts(self, topics, opened, broker):
        """It was already open when the source was opened. A recent one is normal (fault B8)."""
        topic = topics.create()
        source = opened(topic)
        with transacting(broker.address) as transaction, transaction(abort=True) as send:
            send(topic, b"open")
            transaction.flush()
            send_all(broker.address, topic, [b"after"])
            subscribed = source.subscribe(None)
            young, old = (warn_of_open(subscribed, source.head(), opened_s=0, now_s=age_s) for age_s in (4, 9))
        ended = warn_of_open(subscribed, source.head(), opened_s=0, now_s=9)

        assert (young, ended) == ((), ())
        assert "open for up to 9 s: partition 0 offset 0 to 2" in old[0].message

    def test_every_partition_has_a_high_watermark(self, topics, opened, broker):
        """This includes a partition that is empty, and one that is added later."""
        topic = topics.create(partitions=2)
        source = opened(topic)
        send_all(broker.address, topic, [b"a", b"b"], partition=1)
        before = source.head().watermarks
        topics.grow(topic, 3)

        assert (before, source.head().watermarks) == ({"0": 0, "1": 2}, {"0": 0, "1": 2, "2": 0})

    def test_expired_offsets_are_named(self, topics, opened, broker, spark):
        """A gap is never skipped: the message has the partition and its first existing offset."""
        topic = topics.create(partitions=2)
        send_all(broker.address, topic, [b"%d" % number for number in range(9)], partition=1)
        source = opened(topic)
        source.subscribe(None)
        topics.delete_records(topic, {1: 4})
        gone = rf"offset 3 of partition 1 of the topic {topic} is gone; the first available offset is 4\."

        assert source.subscribe({"0": 0, "1": 4}).first == {"0": 0, "1": 4}
        with pytest.raises(OffsetsExpiredError, match=gone):
            source.subscribe({"0": 0, "1": 3})
        with pytest.raises(OffsetsExpiredError, match=gone):
            source.check_kept({"0": 0, "1": 3}, source.head())
        with pytest.raises(OffsetsExpiredError, match="offset 0 of partition 1"):
            source.subscribe({"0": 0})
        with pytest.raises(Exception) as lost:
            source.read_offsets([OffsetRange("1", 3, 9)]).collect()
        explained = source.explain_failure(lost.value)
        assert isinstance(explained, OffsetsExpiredError)
        assert "offset 3 of partition 1" in explained.message

    def test_a_job_begins_at_the_offsets_of_the_spec(self, topics, opened, broker):
        """It begins at the oldest record, after the newest, or at an existing offset of a partition."""
        topic = topics.create(partitions=2)
        send_all(broker.address, topic, [b"a", b"b", b"c"])

        def begins(**given):
            return opened(topic, **given).subscribe(None).first

        assert begins() == {"0": 0, "1": 0}
        assert begins(startingOffsets="Latest") == {"0": 3, "1": 0}
        assert begins(startingOffsets="Latest", partitionStartingOffsets={"0": 2}) == {"0": 2, "1": 0}
        with pytest.raises(InvalidSpecError, match=r'partitionStartingOffsets\["2"\]: the topic \S+ has 2 partitions'):
            begins(partitionStartingOffsets={"2": 0})
        with pytest.raises(InvalidSpecError, match=r"offset 4 is after the end of the partition, 3\. Check that these"):
            begins(partitionStartingOffsets={"0": 4})
        topics.delete_records(topic, {0: 2})
        with pytest.raises(OffsetsExpiredError, match="offset 1 of partition 0"):
            begins(partitionStartingOffsets={"0": 1})

    def test_a_partition_that_is_added_while_a_job_begins_is_read_from_its_first_record(
        self, topics, opened, broker, monkeypatch
    ):
        """The topic grows between the two requests of the start, which once ended the job with a KeyError."""
        topic = topics.create()
        source = opened(topic, partitionStartingOffsets={"1": 0})
        ask = source._client.first  # noqa: SLF001 - the topic grows after this request

        def first():
            seen = ask()
            topics.grow(topic, 2)
            return seen

        monkeypatch.setattr(source._client, "first", first)  # noqa: SLF001

        assert source.subscribe(None).first == {"0": 0, "1": 0}

    def test_offsets_are_found_by_the_age_of_records(self, topics, opened, broker):
        """A plan needs them to find records that expire before they are read.

        A partition without such a record has only older ones.
        """
        topic = topics.create(partitions=3)
        with producing(broker.address) as send:
            for offset, moment_ms in enumerate((5_000_000_000_000, 6_000_000_000_000, 7_000_000_000_000)):
                send(topic, b"%d" % offset, timestamp_ms=moment_ms)
                send(topic, b"old", partition=1, timestamp_ms=1_000_000_000_000)
        source = opened(topic)

        assert source.offsets_at(6_000_000_000_000) == {"0": 1, "1": 3, "2": 0}
        assert source.offsets_at(-5) == {"0": 0, "1": 0, "2": 0}

    def test_a_closed_source_leaves_no_client_and_can_be_used_again(self, topics, opened, spark):
        """A caller's session may live for weeks."""
        source, before = opened(topics.create()), admins(spark).keys()
        source.head()
        clients = [thread for number, thread in admins(spark).items() if number not in before]
        source.close()

        assert [lives_on(thread) for thread in clients] == [False]
        assert source.head().position == {"0": 0}
        source.close()

    def test_partitions_are_added_and_a_topic_is_made_again(self, topics, opened, broker):
        """The next poll finds new partitions. Another topic with the same name has another id."""
        kept = {"retention.ms": "86400000", "cleanup.policy": "compact,delete", "delete.retention.ms": "3600000"}
        topic = topics.create(config=kept)
        with producing(broker.address) as send:
            for key in (b"a", b"b"):
                send(topic, b"x", key)
        source = opened(topic)
        first = source.subscribe(None)
        topics.grow(topic, 3)

        grown = source.head()
        topics.delete(topic)
        with pytest.raises(SourceNotFoundError, match=f"the topic {topic} does not exist at"):
            source.head()
        topics.create(topic)
        again = source.head()

        assert (grown.position, grown.source_id) == ({"0": 2, "1": 0, "2": 0}, first.source_id)
        assert (grown.kept_s, grown.removals_kept_s) == (86400, 3600)
        assert first.source_id not in ("", again.source_id)
        with pytest.raises(SourceReplacedError, match=r"partition 0 of .* ends at offset 0, but 2 were consumed"):
            source.subscribe(first.newest)

    def test_a_partition_that_vanished_is_named(self, topics, opened, broker):
        """A topic with fewer partitions is another one, and the records of the missing partitions are unknown."""
        topic = topics.create(partitions=3)
        send_all(broker.address, topic, [b"a", b"b"], partition=2)
        consumed = opened(topic).subscribe(None).newest
        topics.delete(topic)
        topics.create(topic)
        source = opened(topic)

        with pytest.raises(SourceReplacedError, match=r"partition 2 of .* ends at offset 0, but 2 were consumed"):
            source.subscribe(consumed)
        with pytest.raises(TransientError) as lost:
            source.read_offsets([OffsetRange("2", 0, 2)]).collect()
        assert f"{topic}" in lost.value.message
        assert broker.address in lost.value.message

    def test_a_topic_that_never_existed_is_not_found(self, opened, broker):
        """A poll does not create it."""
        source = opened("no-such-topic")

        for poll in (source.head, lambda: source.subscribe(None)):
            with pytest.raises(
                SourceNotFoundError, match=f"the topic no-such-topic does not exist at {broker.address}"
            ):
                poll()

    def test_positions_are_formatted_in_a_short_message(self):
        """A message has space for some partitions, but not for a thousand."""
        assert format_offsets({"10": 5, "9": 1}) == "offsets 9:1 10:5"
        assert (
            format_offsets({str(partition): 7 for partition in range(1000)})
            == "offsets of 1000 partitions, 7000 in all"
        )
