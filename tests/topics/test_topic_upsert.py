"""A topic of a real broker into a table with one row a key: each commit has the result of its state's records.

An independent client folds the topic, and an independent reader of Delta reads the table.
"""

import json

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.kafka.topics import COMPACTED, producing, transacting
from support.simulation.models.source_splits import SourceSplitsModel
from support.tables.oracle import columns_of, seals

SELECT = ["CAST(key AS STRING) AS id", "from_json(CAST(value AS STRING), 'n INT').n AS n", "`partition`", "`offset`"]
UPSERT = {"delta": {"writeMode": "Upsert", "key": ["id"]}, "transform": {"select": SELECT}}


def number_in(record):
    """Return the number in a record, or None if the record cannot be parsed."""
    try:
        return json.loads(record.value)["n"]
    except ValueError:
        return None


def is_bad(record):
    """Return True if the record's key or its number is unknown."""
    return record.key is None or (record.value is not None and number_in(record) is None)


def fold(committed, spans):
    """Return the rows of some prefixes of partitions: the last record of each key, and no row if that has no value."""
    rows = {}
    for (number, offset), record in sorted(committed.items()):
        if is_bad(record) or not any(
            number == partition and start <= offset < stop for partition, start, stop in spans
        ):
            continue
        rows[record.key] = None if record.value is None else (record.key.decode(), number_in(record), number, offset)
    return sorted(row for row in rows.values() if row is not None)


def rows_in(target, version=None):
    """Return the rows of a version of a target."""
    query = 'SELECT id, n, "partition", "offset" FROM t'
    result = QueryBuilder().register("t", DeltaTable(target, version=version)).execute(query).read_all()
    return sorted(zip(*(result[name].to_pylist() for name in ("id", "n", "partition", "offset")), strict=True))


def wrong_seals(target, committed):
    """Return the versions at which the target differs from its state."""
    return [
        seal.version
        for seal in seals(str(target))
        if rows_in(target, seal.version) != fold(committed, [*SourceSplitsModel.spans(seal.progress)])
    ]


def send_some(topics, topic, count, *, at=0, partitions=3):
    """Send records of few keys, each key to one partition; some remove their key, and some cannot be parsed."""
    with producing(topics.address) as send:
        for number in range(at, at + count):
            partition = number % partitions
            key = b"%d-%d" % (partition, number % 17)
            value = None if number % 5 == 4 else b"no" if number % 29 == 7 else b'{"n": %d}' % number
            send(topic, value, None if number % 61 == 13 else key, partition=partition)


class TestOneRowAKey:
    """The history of a topic is read under a limit, and new records are added meanwhile."""

    @pytest.mark.always
    def test_a_table_of_one_row_a_key_is_right_at_every_commit(self, topics, run_topic, tmp_path):
        """There are markers, aborted records, removals, bad records in a quarantine, a new partition, and a second attempt."""
        topic = topics.create(partitions=3)
        send_some(topics, topic, 120)
        with transacting(topics.address) as transaction:
            for abort in (True, False):
                with transaction(abort=abort) as send:
                    send(topic, b'{"n": 1000}', b"1-1", partition=1)
        waiting = [
            lambda: send_some(topics, topic, 36, at=1000),
            lambda: topics.grow(topic, 4),
            lambda: send_some(topics, topic, 24, at=2000, partitions=4),
        ]
        at = set()

        def meanwhile(progress):
            if waiting and progress.rows_done and progress.table_version not in at:
                at.add(progress.table_version)
                waiting.pop(0)()

        aside = {"onBadRecord": "Quarantine", "quarantinePath": str(tmp_path / "bad")}
        # One commit a second: each is a MERGE, and the history needs only a few of them.
        spec = {**UPSERT, "kafka": aside, "limit": 40, "verify": "Final", "barrier": {"intervalMs": 1000}}
        stopped = run_topic(topic, stops=True, **spec)
        ended = run_topic(topic, seen=meanwhile, **spec)

        assert (stopped.outcome, ended.outcome, ended.message) == ("Stopped", "Complete", "")
        assert not waiting
        committed = topics.committed(topic)
        whole = fold(committed, [(number, 0, 1 << 60) for number in range(4)])
        assert rows_in(tmp_path / "t") == whole
        assert (ended.receipt.equal, ended.receipt.rows) == (True, len(whole))
        assert wrong_seals(tmp_path / "t", committed) == []
        bad = {(number, offset) for (number, offset), record in committed.items() if is_bad(record)}
        assert len(bad) > 5
        places = columns_of(str(tmp_path / "bad"), "partition", "offset")
        assert sorted((int(number), offset) for number, offset in places) == sorted(bad)
        states = [seal.progress for seal in seals(str(tmp_path / "t"))]
        assert sum("merging" in state for state in states) > 1
        # New records wait for the history of their partition.
        assert not any(
            isinstance(split["state"], dict)
            and "Backfilling" in split["state"]
            and state["live"][name] > int(split["target_offset"]) + 1
            for state in states
            for name, split in state["splits"].items()
        )

    def test_a_compacted_topic_gives_the_same_rows(self, topics, run_topic, tmp_path):
        """The remaining records have the same result as all records."""
        topic = topics.create(config=COMPACTED)
        with producing(topics.address) as send:
            for number in range(60):
                send(topic, None if number == 57 else b'{"n": %d}' % number, b"%d" % (number % 9))
        whole = topics.committed(topic)
        remaining = topics.compact(topic)
        assert len(remaining) < len(whole)

        spec = {**UPSERT, "transform": {"select": SELECT, "where": "CAST(key AS STRING) <> 'filler'"}}
        ended = run_topic(topic, verify="Final", **spec)

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert rows_in(tmp_path / "t") == fold(whole, [(0, 0, 60)])
        assert len(rows_in(tmp_path / "t")) == 8
        assert ended.receipt.equal


class TestARecordThatRemovesNothingKnown:
    """It is no row, and must not be skipped."""

    def test_such_a_record_ends_the_job_without_a_quarantine(self, topics, run_topic, tmp_path):
        """The message names the offset, and the requirement of a record without a value."""
        topic = topics.create()
        with producing(topics.address) as send:
            send(topic, b'{"n": 1}', b"a")
            send(topic, None, None)

        ended = run_topic(topic, **UPSERT)

        assert (ended.outcome, ended.reason) == ("Failed", "BadRecord")
        assert "the record at offset 1 of partition 0 cannot be parsed. the record has no value" in ended.message
        assert rows_in(tmp_path / "t") == []

    def test_a_key_in_two_partitions_ends_the_job(self, topics, run_topic):
        """The two records have no order, so the mistake is named."""
        topic = topics.create(partitions=2)
        with producing(topics.address) as send:
            send(topic, b'{"n": 1}', b"a", partition=0)
            send(topic, b'{"n": 2}', b"a", partition=1)

        ended = run_topic(topic, **UPSERT)

        assert (ended.outcome, ended.reason) == ("Failed", "KeyNotUnique")
        assert "has records in several partitions" in ended.message
