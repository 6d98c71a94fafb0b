"""A finished job of a topic runs again: from the offsets that its target holds, with only the later records."""

from deltalake import DeltaTable
from support.endings import assert_ending
from support.kafka.topics import producing
from support.tables.oracle import columns_of, seals

APPEND = {"delta": {"writeMode": "Append"}, "verify": "Final"}


def send(topics, topic, first, count, *, partition=0):
    """Send records with consecutive numbers to a partition."""
    with producing(topics.address) as produce:
        for number in range(first, first + count):
            produce(topic, b'{"n": %d}' % number, partition=partition)


class TestARefreshOfATopic:
    """The history is not read again, and a topic without new records costs no commit."""

    def test_a_refresh_reads_each_later_record_once(self, topics, run_topic, tmp_path):
        """A partition that was created after the end belongs to the later records."""
        topic, target = topics.create(partitions=1), str(tmp_path / "t")
        send(topics, topic, 0, 30)
        assert run_topic(topic, **APPEND).reason == "Complete"
        quiet = DeltaTable(target).version()
        assert run_topic(topic, mode="refresh", **APPEND).reason == "UpToDate"
        assert DeltaTable(target).version() == quiet
        topics.grow(topic, 2)
        send(topics, topic, 100, 20)
        send(topics, topic, 200, 5, partition=1)

        refreshed = run_topic(topic, mode="refresh", **APPEND)

        assert (refreshed.reason, refreshed.receipt.equal, refreshed.receipt.rows) == ("Complete", True, 55)
        assert refreshed.message.endswith(" with 25 changes")
        places = columns_of(target, "partition", "offset")
        expected = [(0, offset) for offset in range(50)] + [(1, offset) for offset in range(5)]
        assert sorted((int(number), offset) for number, offset in places) == expected
        last = seals(target)[-1].state
        assert (last["finished"], last["refresh"]["after"]) == (True, {"0": 30})

    def test_records_that_are_gone_are_refused_by_name(self, topics, run_topic, tmp_path):
        """A topic that keeps its records for a day cannot be refreshed once a week."""
        topic, target = topics.create(partitions=1), str(tmp_path / "t")
        send(topics, topic, 0, 30)
        run_topic(topic, **APPEND)
        send(topics, topic, 100, 20)
        topics.delete_records(topic, {0: 40})
        before = DeltaTable(target).version()

        outcome = run_topic(topic, mode="refresh", **APPEND)

        assert_ending(outcome, "OffsetsExpired")
        assert outcome.message.startswith("the changes of the source after ")
        assert "another jobId and another target" in outcome.hint
        assert DeltaTable(target).version() == before
