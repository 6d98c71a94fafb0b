"""The test broker changes a topic as a real one does. Its reader sees exactly the committed records."""

from support.kafka.topics import COMPACTED, Topics, producing, send_all, transacting


def test_only_committed_records_are_seen(broker):
    """An aborted transaction leaves offsets without records, and so do the markers that end each transaction."""
    topics = Topics(broker.address)
    topic = topics.create(partitions=2)
    send_all(broker.address, topic, [b"a", None])
    with transacting(broker.address) as transaction:
        with transaction() as send:
            send(topic, b"b", partition=1, headers=[("h", None), ("h", b"2")], timestamp_ms=5)
        with transaction(abort=True) as send:
            send(topic, b"aborted", partition=1)

    records = topics.committed(topic)

    assert {at: record.value for at, record in records.items()} == {(0, 0): b"a", (0, 1): None, (1, 0): b"b"}
    assert (records[1, 0].headers, records[1, 0].timestamp_ms) == ((("h", None), ("h", b"2")), 5)
    assert topics.watermarks(topic) == {0: (0, 2), 1: (0, 4)}


def test_records_and_partitions_are_added_and_removed(broker):
    """A long backfill meets retention, new partitions and compaction."""
    topics = Topics(broker.address)
    topic, compacted = topics.create(), topics.create(config=COMPACTED)
    send_all(broker.address, topic, [b"a", b"b", b"c"])
    topics.delete_records(topic, {0: 2})
    topics.grow(topic, 2)
    with producing(broker.address) as send:
        for number in range(9):
            send(compacted, b"%d" % number, b"key")

    remaining = topics.compact(compacted)

    assert topics.watermarks(topic) == {0: (2, 3), 1: (0, 0)}
    assert (0, 0) not in remaining
    assert (0, 8) in remaining


def test_a_stopped_broker_returns_with_its_records(broker):
    """A test of an outage must find the same topic at the same address."""
    topics = Topics(broker.address)
    topic = topics.create()
    send_all(broker.address, topic, [b"a"])

    with broker.stopped():
        pass

    assert topics.watermarks(topic) == {0: (0, 1)}
