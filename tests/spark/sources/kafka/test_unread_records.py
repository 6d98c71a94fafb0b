"""Records whose times Spark cannot represent: they are rows if their time is not selected, else bad records (fault B11)."""

import time

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.endings import assert_ending
from support.kafka.jobs import job_of
from support.kafka.topics import producing

from backfill_api.spec.sources.kafka import KafkaSource as Params
from backfill_core.errors import SourceDamagedError
from backfill_core.positions.offsets import OffsetRange
from backfill_spark.sources.kafka.client import client_settings
from backfill_spark.sources.kafka.source import TopicSource
from backfill_spark.sources.kafka.unread_records import UnreadRecord, without

TEXTS = ["`partition`", "`offset`", "CAST(value AS STRING) AS text"]
UPSERT = {
    "delta": {"writeMode": "Upsert", "key": ["id"]},
    "transform": {"select": ["CAST(key AS STRING) AS id", *TEXTS]},
}


@pytest.fixture
def run_topic(spark, broker, tmp_path):
    """Run a job of a topic, as `job_of`."""
    return job_of(spark, broker.address, tmp_path)


@pytest.fixture
def topic(topics):
    """Return a topic of ten records; the times of the third, the fourth and the eighth are in nanoseconds."""
    name = topics.create()
    now_ms = time.time_ns() // 1_000_000
    with producing(topics.address) as send:
        for number in range(10):
            timestamp_ms = now_ms * 1_000_000 if number in (2, 3, 7) else now_ms
            headers = [("h", b"1"), ("h", None)] if number == 3 else []
            send(name, b"%d" % number, b"key %d" % (number % 4), headers=headers, timestamp_ms=timestamp_ms)
    return name


def rows_of(path):
    """Return the rows of a table as an independent reader sees them, by offset."""
    result = QueryBuilder().register("t", DeltaTable(path)).execute('SELECT * FROM t ORDER BY "offset"').read_all()
    names = result.schema.names
    return [
        dict(zip(names, row, strict=True)) for row in zip(*(result[name].to_pylist() for name in names), strict=True)
    ]


class TestATimeInNanoseconds:
    """Spark's connector computes the time of each record and fails at such a time, for any selection."""

    @pytest.mark.always
    def test_such_a_time_costs_no_row_if_it_is_not_selected(self, topic, run_topic, tmp_path):
        """The driver reads those records itself."""
        ended = run_topic(topic, transform={"select": TEXTS}, verify="Final")

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert ended.receipt.equal
        assert [row["text"] for row in rows_of(tmp_path / "t")] == [str(number) for number in range(10)]

    def test_such_a_time_sets_its_record_aside_if_it_is_selected(self, topic, run_topic, tmp_path):
        """The quarantine has key, value and headers, no timestamp, and the invalid number in the reason."""
        kafka = {"onBadRecord": "Quarantine", "quarantinePath": str(tmp_path / "bad")}

        ended = run_topic(topic, kafka=kafka, verify="Final")

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert (ended.receipt.equal, ended.receipt.rows) == (True, 7)
        assert [row["offset"] for row in rows_of(tmp_path / "t")] == [0, 1, 4, 5, 6, 8, 9]
        bad = rows_of(tmp_path / "bad")
        assert [(row["partition"], row["offset"], row["value"]) for row in bad] == [
            (0, 2, b"2"),
            (0, 3, b"3"),
            (0, 7, b"7"),
        ]
        assert [row["timestamp"] for row in bad] == [None] * 3
        assert bad[1]["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
        assert all("is beyond the range of Spark's timestamps: is it in nanoseconds?" in row["_reason"] for row in bad)

    def test_such_a_time_ends_the_job_with_its_offset_without_a_quarantine(self, topic, run_topic, tmp_path):
        """A filter that uses other columns excludes such records."""
        failed = run_topic(topic)
        other = {"path": str(tmp_path / "u")}
        ended = run_topic(topic, transform={"where": "`offset` NOT IN (2, 3, 7)"}, delta=other)

        assert_ending(failed, "BadRecord")
        assert "the record at offset 2 of partition 0 " in failed.message
        assert "is it in nanoseconds?" in failed.message
        assert "onBadRecord: Quarantine" in failed.hint
        assert (ended.outcome, ended.message) == ("Complete", "")

    def test_a_record_is_bad_if_the_filter_needs_such_a_time(self, topic, run_topic):
        """It is unknown if the record passes, so it is not dropped silently."""
        failed = run_topic(topic, transform={"select": TEXTS, "where": "timestamp > '2020-01-01'"})

        assert (failed.outcome, failed.reason) == ("Failed", "BadRecord")
        assert "the record at offset 2 of partition 0 " in failed.message

    def test_such_a_record_may_be_the_last_one_of_a_key(self, topic, run_topic, tmp_path):
        """A target with one row a key has the values of that record."""
        ended = run_topic(topic, verify="Final", **UPSERT)

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert {row["id"]: row["text"] for row in rows_of(tmp_path / "t")} == {
            "key 0": "8", "key 1": "9", "key 2": "6", "key 3": "7",
        }  # fmt: skip

    def test_many_such_records_end_the_job_by_name(self, topic, run_topic, monkeypatch):
        """The driver does not read a whole topic in place of Spark."""
        monkeypatch.setattr("backfill_spark.sources.kafka.unread_records.RECORDS_MAX", 2)

        failed = run_topic(topic, transform={"select": TEXTS})

        assert (failed.outcome, failed.reason) == ("Failed", "SourceDamaged")
        assert "3 up to offset 7 of partition 0" in failed.message
        assert "in milliseconds" in failed.hint

    def test_a_time_before_spark_s_range_is_named_by_its_offset(self, topics, spark, broker):
        """The driver searches only for times after the range, because the broker's index finds no others."""
        topic = topics.create()
        with producing(broker.address) as send:
            send(topic, b"value", timestamp_ms=-(2**62))
        params = Params.model_validate({"bootstrapServers": broker.address, "topic": topic})
        source = TopicSource(spark, params, client_settings(params, None))

        with pytest.raises(Exception) as refused:
            source.read_offsets([OffsetRange("0", 0, 1)]).collect()
        explained = source.explain_failure(refused.value)
        assert isinstance(explained, SourceDamagedError)
        assert f"offset 0 of partition 0 of the topic {topic} has a time" in explained.message


class TestRangesWithoutSomeRecords:
    """Spark reads the remaining ranges."""

    def test_ranges_have_a_hole_for_each_record(self):
        """The record splits a range of its partition, and empty parts are dropped."""
        records = [UnreadRecord(name, at, 0, None, None, ()) for name, at in (("0", 7), ("0", 3), ("0", 4), ("1", 5))]
        ranges = [OffsetRange("0", 3, 9), OffsetRange("1", 0, 6), OffsetRange("2", 0, 1)]

        assert without(ranges, records) == [
            OffsetRange("0", 5, 7), OffsetRange("0", 8, 9), OffsetRange("1", 0, 5), OffsetRange("2", 0, 1),
        ]  # fmt: skip
