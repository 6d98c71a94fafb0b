"""Receipts of a topic of a real broker after retention deleted records that the job has read."""

from support.endings import assert_ending
from support.kafka.topics import producing, send_all
from support.tables.oracle import columns_of

from backfill_spark.sources.kafka.source import TopicSource

SELECT = ["CAST(key AS STRING) AS id", "from_json(CAST(value AS STRING), 'n INT').n AS n", "`partition`", "`offset`"]
UPSERT = {"delta": {"writeMode": "Upsert", "key": ["id"]}, "transform": {"select": SELECT}}


class TestRecordsThatExpireAfterTheirRead:
    """Retention deletes records that the target already has: they are no loss, but they can no longer be compared."""

    def test_a_receipt_compares_the_remaining_records(self, topics, run_topic, tmp_path):
        """Such a receipt once ended the job as `OffsetsExpired`, which asks for a new job on a new target."""
        topic = topics.create(partitions=2)
        send_all(topics.address, topic, [b"%d" % number for number in range(60)])
        send_all(topics.address, topic, [b"x"] * 10, partition=1)
        run_topic(topic)
        topics.delete_records(topic, {0: 45})

        outcome = run_topic(topic, mode="refresh", verify="Final")

        assert (outcome.outcome, outcome.receipt.equal) == ("Complete", True)
        compared = [(part.partition, part.start, part.stop, part.missing) for part in outcome.receipt.partitions]
        assert compared == [("0", 45, 60, 0), ("1", 0, 10, 0)]
        assert len(columns_of(str(tmp_path / "t"), "offset")) == 70

    def test_a_wrong_row_of_a_remaining_record_is_found(self, topics, run_topic, spark, tmp_path):
        """Only rows of records that are gone are left out."""
        topic = topics.create()
        send_all(topics.address, topic, [b"%d" % number for number in range(60)])
        run_topic(topic)
        topics.delete_records(topic, {0: 45})
        spark.sql(f"UPDATE delta.`{tmp_path / 't'}` SET value = X'00' WHERE offset IN (3, 50)")

        outcome = run_topic(topic, mode="refresh", verify="Final")

        assert_ending(outcome, "VerificationFailed")
        assert sum(vnode.source_rows for vnode in outcome.receipt.mismatches) <= 2

    def test_records_that_expire_during_a_receipt_are_left_out_by_its_next_try(self, topics, run_topic, monkeypatch):
        """Retention deletes records at any time, also between the choice of the compared offsets and their read."""
        topic, oldest = topics.create(), TopicSource.oldest
        send_all(topics.address, topic, [b"%d" % number for number in range(60)])
        run_topic(topic)
        expiring = [lambda: topics.delete_records(topic, {0: 45})]

        def expire_afterwards(source):
            first = oldest(source)
            if expiring:
                expiring.pop()()
            return first

        monkeypatch.setattr(TopicSource, "oldest", expire_afterwards)
        outcome = run_topic(topic, mode="refresh", verify="Final")

        assert not expiring
        assert (outcome.outcome, outcome.receipt.equal, outcome.receipt.rows) == ("Complete", True, 15)

    def test_a_target_without_places_names_what_a_receipt_needs(self, topics, run_topic):
        """Its rows do not show which records they come from."""
        topic = topics.create()
        send_all(topics.address, topic, [b"%d" % number for number in range(60)])
        run_topic(topic, transform={"select": ["value"]})
        topics.delete_records(topic, {0: 45})

        outcome = run_topic(topic, mode="refresh", verify="Final", transform={"select": ["value"]})

        assert_ending(outcome, "OffsetsExpired")
        assert "the target lacks their partition and offset" in outcome.message


class TestOneRowAKey:
    """A row whose record is gone cannot be compared, and all others are."""

    def test_a_receipt_compares_the_keys_that_remain(self, topics, run_topic, tmp_path):
        """A key whose records are all gone keeps its row; a removed key, and one with a later record, are compared."""
        topic = topics.create()
        with producing(topics.address) as send:
            for number in range(40):
                send(topic, b'{"n": %d}' % number, b"%d" % number)
            for key in (7, 33):
                send(topic, None, b"%d" % key)
            send(topic, b'{"n": 100}', b"8")
        run_topic(topic, **UPSERT)
        topics.delete_records(topic, {0: 30})

        outcome = run_topic(topic, mode="refresh", verify="Final", **UPSERT)

        assert (outcome.outcome, outcome.receipt.equal, outcome.receipt.rows) == ("Complete", True, 10)
        assert len(columns_of(str(tmp_path / "t"), "offset")) == 38

    def test_a_row_that_a_remaining_record_removed_is_found(self, topics, run_topic, spark, tmp_path):
        """The key has no row in the source, so it must have none in the target."""
        topic = topics.create()
        with producing(topics.address) as send:
            for number in range(40):
                send(topic, b'{"n": %d}' % number, b"%d" % number)
            send(topic, None, b"7")
        run_topic(topic, **UPSERT)
        topics.delete_records(topic, {0: 30})
        spark.sql(f"INSERT INTO delta.`{tmp_path / 't'}` VALUES ('7', 7, 0, 7)")

        outcome = run_topic(topic, mode="refresh", verify="Final", **UPSERT)

        assert_ending(outcome, "VerificationFailed")
        assert [(vnode.source_rows, vnode.target_rows) for vnode in outcome.receipt.mismatches] == [(0, 1)]
