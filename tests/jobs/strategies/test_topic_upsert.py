"""A topic of a real broker into a table with one row a key: at each commit it is what the records that its state names leave.

An independent client folds the topic, an independent reader of Delta says what the table holds.
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
    """Return what a record says, or None where it cannot be parsed."""
    try:
        return json.loads(record.value)["n"]
    except ValueError:
        return None


def is_bad(record):
    """Nothing tells its key, or what it says."""
    return record.key is None or (record.value is not None and number_in(record) is None)


def fold(committed, spans):
    """Return the rows that some prefixes of partitions leave: of each key the last record, none where that has no value."""
    rows = {}
    for (number, offset), one in sorted(committed.items()):
        if is_bad(one) or not any(number == partition and start <= offset < stop for partition, start, stop in spans):
            continue
        rows[one.key] = None if one.value is None else (one.key.decode(), number_in(one), number, offset)
    return sorted(row for row in rows.values() if row is not None)


def rows_in(target, version=None):
    """Return the rows of a version of a target."""
    query = 'SELECT id, n, "partition", "offset" FROM t'
    found = QueryBuilder().register("t", DeltaTable(target, version=version)).execute(query).read_all()
    return sorted(zip(*(found[name].to_pylist() for name in ("id", "n", "partition", "offset")), strict=True))


def wrong_seals(target, committed):
    """Return the versions at which the target is not what its state says."""
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
    """Its history under a limit, and what comes meanwhile."""

    @pytest.mark.always
    def test_is_right_at_every_commit(self, topics, run_topic, tmp_path):
        """Markers, aborted records, removals, bad records beside it, a new partition, and a second attempt."""
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
        spec = {**UPSERT, "kafka": aside, "limit": 60, "verify": "Final"}
        stopped = run_topic(topic, stops=True, **spec)
        ended = run_topic(topic, seen=meanwhile, **spec)

        assert (stopped.outcome, ended.outcome, ended.message) == ("Stopped", "Complete", "")
        assert not waiting
        committed = topics.committed(topic)
        whole = fold(committed, [(number, 0, 1 << 60) for number in range(4)])
        assert rows_in(tmp_path / "t") == whole
        assert (ended.receipt.equal, ended.receipt.rows) == (True, len(whole))
        assert wrong_seals(tmp_path / "t", committed) == []
        bad = {(number, offset) for (number, offset), one in committed.items() if is_bad(one)}
        assert len(bad) > 5
        found = columns_of(str(tmp_path / "bad"), "partition", "offset")
        assert sorted((int(number), offset) for number, offset in found) == sorted(bad)
        states = [seal.progress for seal in seals(str(tmp_path / "t"))]
        assert sum("merging" in one for one in states) > 1
        # What is new waits for the history of its own partition.
        assert not any(
            isinstance(one["state"], dict)
            and "Backfilling" in one["state"]
            and state["live"][name] > int(one["target_offset"]) + 1
            for state in states
            for name, one in state["splits"].items()
        )

    def test_of_a_compacted_topic(self, topics, run_topic, tmp_path):
        """What compaction left says the same as what it took."""
        topic = topics.create(config=COMPACTED)
        with producing(topics.address) as send:
            for number in range(60):
                send(topic, None if number == 57 else b'{"n": %d}' % number, b"%d" % (number % 9))
        whole = topics.committed(topic)
        left = topics.compact(topic)
        assert len(left) < len(whole)

        spec = {**UPSERT, "transform": {"select": SELECT, "where": "CAST(key AS STRING) <> 'filler'"}}
        ended = run_topic(topic, verify="Final", **spec)

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert rows_in(tmp_path / "t") == fold(whole, [(0, 0, 60)])
        assert len(rows_in(tmp_path / "t")) == 8
        assert ended.receipt.equal


class TestARecordThatRemovesNothingKnown:
    """It is no row, and must not be passed over."""

    def test_ends_the_job_unless_it_may_be_set_aside(self, topics, run_topic, tmp_path):
        """The message names the place, and what a record without a value needs."""
        topic = topics.create()
        with producing(topics.address) as send:
            send(topic, b'{"n": 1}', b"a")
            send(topic, None, None)

        ended = run_topic(topic, **UPSERT)

        assert (ended.outcome, ended.reason) == ("Failed", "BadRecord")
        assert "the record at offset 1 of partition 0 cannot be parsed. the record has no value" in ended.message
        assert rows_in(tmp_path / "t") == []

    def test_of_a_key_in_two_partitions(self, topics, run_topic):
        """Nothing orders them: the mistake is named."""
        topic = topics.create(partitions=2)
        with producing(topics.address) as send:
            send(topic, b'{"n": 1}', b"a", partition=0)
            send(topic, b'{"n": 2}', b"a", partition=1)

        ended = run_topic(topic, **UPSERT)

        assert (ended.outcome, ended.reason) == ("Failed", "KeyNotUnique")
        assert "has records in several partitions" in ended.message
