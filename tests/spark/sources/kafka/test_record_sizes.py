"""Oversized records of a real broker: they are found without their content, and the records around them are read as usual."""

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable, QueryBuilder
from support.endings import assert_ending
from support.kafka.jobs import job_of
from support.kafka.topics import send_all, transacting

from backfill_api.spec.sources.kafka import KafkaSource as Params
from backfill_core.positions.offsets import OffsetRange
from backfill_spark.jvm.gateway import java
from backfill_spark.records.parsing import UNREAD
from backfill_spark.sources.kafka.client import client_settings
from backfill_spark.sources.kafka.source import TopicSource

LARGE = b"0" * 100_000
"""A record that is too large here: the tests let a byte need much more heap."""

PERMITTED = 50_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
UPSERT = {
    "delta": {"writeMode": "Upsert", "key": ["id"]},
    "transform": {"select": ["CAST(key AS STRING) AS id", "CAST(value AS STRING) AS text"]},
}


@pytest.fixture
def small_memory(spark, monkeypatch):
    """Let a record of more than `PERMITTED` bytes need more than the memory."""
    heap = int(java(spark).java.lang.Runtime.getRuntime().maxMemory())
    needs = heap // (PERMITTED * spark.sparkContext.defaultParallelism)
    monkeypatch.setattr("backfill_core.pacing.record_sizes.HEAP_PER_BYTE", needs)
    return monkeypatch


@pytest.fixture
def opened(spark, broker, small_memory):
    """Make a source of a topic."""

    def make(topic, **given):
        params = Params.model_validate({"bootstrapServers": broker.address, "topic": topic, **given})
        return TopicSource(spark, params, client_settings(params, None))

    return make


def send_batch(address, topic, values, codec="zstd"):
    """Send records in one batch."""
    settings = {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 500, "log_level": 0}
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value, b"key", partition=0, headers=[("h", b"1")])
    assert producer.flush(30) == 0


def read(source, start, stop):
    """Return the rows of partition 0 by offset."""
    frame = source.read_offsets([OffsetRange("0", start, stop)])
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    assert len({row.offset for row in rows}) == len(rows)
    return {row.offset: row for row in rows}


def rows_of(path):
    """Return the rows of a table as an independent reader sees them."""
    result = QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT * FROM t").read_all()
    names = result.schema.names
    return [
        dict(zip(names, row, strict=True)) for row in zip(*(result[name].to_pylist() for name in names), strict=True)
    ]


class TestAMeasuredRange:
    """The source returns each committed record: with its content, or with the reason why it is left unread."""

    @pytest.mark.parametrize("codec", CODECS)
    def test_oversized_records_are_returned_without_their_content(self, topics, opened, broker, codec):
        """The reference is another client."""
        topic = topics.create()
        for values in ([b"a", b"b"], [LARGE], [b"c", LARGE, b"d"], [b"e"]):
            send_batch(broker.address, topic, values, codec)
        records = {offset: record for (_, offset), record in topics.committed(topic).items()}
        source = opened(topic)

        source.measure([OffsetRange("0", 0, 7)])
        rows = read(source, 0, 7)

        assert source.unread([OffsetRange("0", 0, 7)]) == (OffsetRange("0", 2, 3), OffsetRange("0", 4, 6))
        assert {offset: row.ms for offset, row in rows.items()} == {
            offset: record.timestamp_ms for offset, record in records.items()
        }
        assert {offset: row.value and bytes(row.value) for offset, row in rows.items()} == {
            0: b"a", 1: b"b", 2: None, 3: b"c", 4: None, 5: None, 6: b"e",
        }  # fmt: skip
        assert all(row.key is None and row.headers is None for row in (rows[2], rows[4], rows[5]))
        assert [row[UNREAD].columns for row in (rows[2], rows[0]) if row[UNREAD]] == [["key", "value", "headers"]]
        assert f"The record at offset 4 of the topic {topic} has " in rows[5][UNREAD].reason

    def test_a_record_of_an_aborted_transaction_is_no_record(self, topics, opened, broker):
        """A reader of committed records skips it without decompressing it; before, offset 2 is the marker of a transaction."""
        topic = topics.create()
        with transacting(broker.address) as transactions:
            with transactions() as send:
                send(topic, b"a")
            with transactions(abort=True) as send:
                send(topic, LARGE)
            with transactions() as send:
                send(topic, LARGE)
            with transactions() as send:
                send(topic, b"z")
        end = topics.watermarks(topic)[0][1]
        committed, uncommitted = opened(topic), opened(topic, isolation="ReadUncommitted")

        for source in (committed, uncommitted):
            source.measure([OffsetRange("0", 0, end)])

        assert {offset: bool(row.value) for offset, row in read(committed, 0, end).items()} == {
            0: True, 4: False, 6: True,
        }  # fmt: skip
        assert {offset: bool(row.value) for offset, row in read(uncommitted, 0, end).items()} == {
            0: True, 2: False, 4: False, 6: True,
        }  # fmt: skip

    def test_a_range_that_ends_before_an_oversized_record_is_read_up_to_it(self, topics, opened, broker):
        """A consumer decompresses several records ahead."""
        topic = topics.create()
        send_all(broker.address, topic, [b"%d" % number for number in range(600)])
        send_batch(broker.address, topic, [LARGE])
        source = opened(topic)

        source.measure([OffsetRange("0", 0, 600)])

        assert source.unread([OffsetRange("0", 0, 600)]) == ()
        assert {offset: int(row.value) for offset, row in read(source, 0, 600).items()} == {at: at for at in range(600)}

    def test_the_same_records_stay_unread_in_a_later_attempt(self, topics, opened, broker, small_memory):
        """Also with more memory: a receipt must compare the same rows."""
        topic = topics.create()
        for values in ([b"a"], [LARGE], [b"b"]):
            send_batch(broker.address, topic, values)
        small_memory.undo()
        source = opened(topic)

        source.leave_unread([OffsetRange("0", 1, 2)])

        assert [row.value is None for _, row in sorted(read(source, 0, 3).items())] == [False, True, False]
        assert [row.value is None for _, row in sorted(read(opened(topic), 0, 3).items())] == [False] * 3


class TestAResumedJob:
    """An attempt may have ended at such a record, so the next one measures its first reads."""

    @pytest.fixture
    def resumed(self, spark, broker, topics, tmp_path, small_memory):
        """Stop a job of a topic before its oversized record; return the topic, and a function that resumes the job."""

        def go(**spec):
            run = job_of(spark, broker.address, tmp_path)
            topic = topics.create()
            for values in ([b"%d" % number for number in range(10)], [b"before"], [LARGE], [b"after"]):
                send_batch(broker.address, topic, values)
            run(topic, stops=True, limit=5, **spec)
            return topic, lambda **more: run(topic, **spec, **more)

        return go

    @pytest.mark.parametrize("spec", [pytest.param({}, marks=pytest.mark.always), UPSERT], ids=["Append", "Upsert"])
    def test_an_oversized_record_is_set_aside_by_its_offset(self, resumed, tmp_path, small_memory, spec):
        """The receipt of a later attempt with more memory is equal, too."""
        kafka = {"onBadRecord": "Quarantine", "quarantinePath": str(tmp_path / "bad")}
        topic, run = resumed(kafka=kafka, **spec)

        ended = run(verify="Final")
        bad = rows_of(tmp_path / "bad")

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert ended.receipt.equal
        assert [(row["topic"], row["partition"], row["offset"], row["value"]) for row in bad] == [(topic, 0, 11, None)]
        assert f"The record at offset 11 of the topic {topic} has 1 MiB" in bad[0]["_reason"]

    def test_an_oversized_record_ends_the_job_by_its_place_without_a_quarantine(self, resumed):
        """The message has the memory to set."""
        topic, run = resumed()

        failed = run()

        assert_ending(failed, "BadRecord")
        assert "the record at offset 11 of partition 0 " in failed.message
        assert f"of the topic {topic} has 1 MiB" in failed.message
        assert "BACKFILL_MEMORY" in failed.message

    def test_an_oversized_record_is_a_row_if_its_content_is_not_selected(self, resumed, tmp_path):
        """Its place and its time are readable."""
        _, run = resumed(transform={"select": ["`partition`", "`offset`", "timestamp"]})

        ended = run(verify="Final")

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert ended.receipt.equal
        rows = rows_of(tmp_path / "t")
        assert sorted(row["offset"] for row in rows) == list(range(13))
        assert all(row["timestamp"] for row in rows)
