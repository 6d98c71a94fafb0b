"""A topic of a real broker into a Delta table: at each commit the target has the records of its state, each once.

An independent client reads the topic, and an independent reader of Delta reads the target.
"""

import time
from contextlib import ExitStack, contextmanager

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.endings import assert_ending
from support.kafka.jobs import admins, lives_on
from support.kafka.topics import COMPACTED, producing, send_all, transacting
from support.simulation.models.source_splits import SourceSplitsModel
from support.tables.oracle import seals

from backfill_api.load import load_backfill
from backfill_core.positions.offsets import OffsetRange
from backfill_spark.driver.plan import plan_job
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

DAY_S = 86_400
QUICK = {"default.api.timeout.ms": "4000", "request.timeout.ms": "2000"}


def records_in(target, version=None):
    """Return partition, offset and value of each row of a target, sorted."""
    query = 'SELECT "partition", "offset", value FROM t'
    result = QueryBuilder().register("t", DeltaTable(target, version=version)).execute(query).read_all()
    return sorted(zip(*(result[name].to_pylist() for name in ("partition", "offset", "value")), strict=True))


def wrong_seals(target, committed):
    """Return the versions at which the target differs from its state."""
    wrong = []
    for seal in seals(str(target)):
        held = [*SourceSplitsModel.spans(seal.progress)]
        expected = sorted(
            (number, offset, record.value)
            for (number, offset), record in committed.items()
            if any(number == partition and start <= offset < stop for partition, start, stop in held)
        )
        if records_in(target, seal.version) != expected:
            wrong.append(seal.version)
    return wrong


class TestAPlanOfATopic:
    """A plan has the records to read, and those that may expire before they are read."""

    def test_a_plan_names_partitions_and_records_that_expire(self, topics, spark, broker, tmp_path):
        """Records expire in a quarter of an hour, and the limit needs half an hour.

        After the start it would be too late.
        """
        topic = topics.create(partitions=12, config={"retention.ms": str(DAY_S * 1000)})
        ends_soon_ms = int((time.time() - DAY_S + 900) * 1000)
        with producing(broker.address) as send:
            for partition in range(12):
                for number in range(320 if partition == 7 else 160):
                    send(topic, b"%d" % number, partition=partition, timestamp_ms=ends_soon_ms)
        backfill = load_backfill(
            {
                "apiVersion": "backfill.dev/v1alpha1",
                "kind": "Backfill",
                "metadata": {"name": "job"},
                "spec": {
                    "source": {"type": "Kafka", "kafka": {"bootstrapServers": broker.address, "topic": topic}},
                    "target": {"type": "Delta", "delta": {"path": str(tmp_path / "t"), "writeMode": "Append"}},
                    "strategy": {"type": "SourceSplits"},
                    "throttle": {"rowsPerSecond": 1},
                },
            }
        )
        planned = plan_job(backfill, settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark)

        assert (planned.rows, planned.retention_seconds) == (2080, DAY_S)
        assert (planned.partitions.largest[0].partition, planned.partitions.largest[0].rows) == ("7", 320)
        assert (len(planned.partitions.largest), planned.partitions.others, planned.partitions.other_rows) == (
            10,
            2,
            320,
        )
        assert planned.estimated_seconds >= 2080
        (warning,) = planned.warnings
        assert warning.reason == "RetentionEnding"
        assert "2,080 of 2,080 offsets, in 12 of 12 partitions, may be gone before they are read" in warning.message
        assert not (tmp_path / "t").exists()


class TestATopic:
    """The history of a topic is read under a limit, and new records are added meanwhile."""

    @pytest.mark.always
    def test_a_topic_is_right_at_every_commit(self, topics, run_topic, tmp_path):
        """R-SRC-2, 5, 8, 31, 40, 41, 42: live records next to history, markers, a new partition, and a second attempt."""
        topic = topics.create(partitions=3)
        send_all(topics.address, topic, (b"%d" % number for number in range(400)))
        with transacting(topics.address) as transaction:
            for abort in (False, True):
                with transaction(abort=abort) as send:
                    for number in range(20):
                        send(topic, b"of a transaction %d" % number, partition=1)
        waiting = [
            lambda: send_all(topics.address, topic, [b"new"] * 5),
            lambda: topics.grow(topic, 4),
            lambda: send_all(topics.address, topic, [b"later"] * 5, partition=3),
        ]
        at = set()

        def meanwhile(progress):
            if waiting and progress.rows_done and progress.table_version not in at:
                at.add(progress.table_version)
                waiting.pop(0)()

        stopped = run_topic(topic, stops=True, limit=60, verify="Final")
        first = len(seals(str(tmp_path / "t")))
        ended = run_topic(topic, seen=meanwhile, limit=60, verify="Final")

        assert (stopped.outcome, ended.outcome, ended.message) == ("Stopped", "Complete", "")
        assert not waiting
        assert ended.receipt.equal
        assert ended.receipt.rows == 430
        committed = topics.committed(topic)
        assert len(committed) == 430
        assert records_in(tmp_path / "t") == sorted((*place, record.value) for place, record in committed.items())
        assert wrong_seals(tmp_path / "t", committed) == []
        states = [seal.progress for seal in seals(str(tmp_path / "t"))]
        assert 0 < first < len(states)
        assert any(isinstance(state["splits"]["0"]["state"], dict) and state["live"]["0"] > 400 for state in states)
        # Twenty records, a marker, twenty records of an aborted transaction, a marker.
        assert states[-1]["splits"]["1"] == {
            "state": {"SourceCachingUp": "41"},
            "num_consumed_rows": 20,
            "target_offset": "41",
        }
        assert states[-1]["splits"]["3"]["target_offset"] is None

    def test_a_job_from_the_latest_offsets_reads_only_new_records(self, topics, run_topic, tmp_path):
        """R-SRC-7, #20083: no older record is read.

        The transform also applies to records that come while no driver runs.
        """
        topic = topics.create()
        send_all(topics.address, topic, [b'{"n": 1}'] * 3)
        number = "cast(get_json_object(cast(value AS string), '$.n') AS int)"
        spec = {
            "kafka": {"startingOffsets": "Latest"},
            "transform": {"select": ["`partition`", "`offset`", f"{number} AS value"], "where": f"{number} > 7"},
            "after": "Follow",
        }
        waiting = [lambda: send_all(topics.address, topic, (b'{"n": %d}' % n for n in (7, 8, 9)))]
        stop = StopSignal()

        def come(progress):
            if waiting and progress.caught_up:
                waiting.pop()()
            if progress.changes_done:
                stop.ask(force=False)

        run_topic(topic, seen=come, stop=stop, **spec)

        assert records_in(tmp_path / "t") == [(0, 4, 8), (0, 5, 9)]
        state = seals(str(tmp_path / "t"))[-1].progress
        assert state["splits"]["0"] == {"state": "Finished", "num_consumed_rows": 0, "target_offset": None}
        assert (state["starts"], state["live"]) == ({"0": 3}, {"0": 6})


class TestAnOpenTransaction:
    """A producer died inside a transaction, and committed records of other producers follow it (fault B8)."""

    @pytest.fixture
    def held(self, topics):
        """Return a context in which an open transaction holds back 15 of 100 records of a new topic."""

        @contextmanager
        def hold():
            topic = topics.create(partitions=2)
            send_all(topics.address, topic, (b"%d" % number for number in range(85)))
            with transacting(topics.address) as transaction, transaction(abort=True) as send:
                send(topic, b"of the producer that died")
                transaction.flush()
                send_all(topics.address, topic, (b"%d" % number for number in range(85, 100)))
                yield topic

        return hold

    def test_an_open_transaction_cuts_a_copy_off_by_name(self, held, run_topic, tmp_path):
        """After the configured time the job ends. Its message and its receipt name partition and offsets."""
        seen = []
        with held() as topic:
            # A transaction is reported from five seconds on, so some polls fall between the report and the end.
            spec = {"kafka": {"openTransactionWaitSeconds": 20}, "verify": "Final"}
            ended = run_topic(topic, seen=seen.append, **spec)
            again = run_topic(topic, **spec)

        assert (ended.outcome, ended.exit_code) == ("Complete", 0)
        assert "partition 0 offset 85 to 101" in ended.message
        assert "partitionStartingOffsets" in ended.hint
        for receipt in (ended.receipt, again.receipt):
            assert (receipt.equal, receipt.complete, receipt.rows) == (True, False, 85)
            assert receipt.cut_off == (OffsetRange("0", 85, 101),)
        assert len(records_in(tmp_path / "t")) == 85
        assert not any(progress.caught_up for progress in seen)
        assert max(progress.lag_records for progress in seen) >= 16
        assert any("without their records it ends in" in progress.reason for progress in seen)
        assert any("OpenTransaction" in progress.warning_codes for progress in seen)

    def test_an_open_transaction_that_ends_in_time_costs_no_record(self, held, topics, run_topic, tmp_path):
        """The job waits for it, and then copies the records after it."""
        holding = ExitStack()
        topic = holding.enter_context(held())

        def end(progress):
            if "waiting for open transactions" in progress.reason:
                holding.close()

        ended = run_topic(topic, seen=end, verify="Final")

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert (ended.receipt.complete, ended.receipt.cut_off, ended.receipt.rows) == (True, (), 100)
        assert records_in(tmp_path / "t") == sorted(
            (*at, record.value) for at, record in topics.committed(topic).items()
        )

    def test_an_open_transaction_holds_back_a_job_that_follows(self, held, run_topic):
        """The job is not caught up, its lag counts to the high watermark, and it reports the age of the transaction."""
        stop, seen = StopSignal(), []

        def collect(progress):
            seen.append(progress)
            if progress.warnings or len(seen) > 200:
                stop.ask(force=False)

        with held() as topic:
            run_topic(topic, seen=collect, stop=stop, after="Follow")

        assert "OpenTransaction" in seen[-1].warning_codes
        assert (seen[-1].caught_up, seen[-1].lag_records) == (False, 16)
        assert seen[-1].lag_seconds >= 4


class TestAPartitionThatEndsWithoutARecord:
    """Its last offsets are a marker, or records of an aborted transaction: no record shows its end."""

    def test_such_a_partition_is_done_within_two_barriers(self, topics, run_topic, tmp_path):
        """R-SRC-42: the two barriers follow the commit that has its last record."""
        topic = topics.create(partitions=2)
        with transacting(topics.address) as transaction:
            for partition, abort in ((0, False), (1, False), (1, True)):
                with transaction(abort=abort) as send:
                    for number in range(20):
                        send(topic, b"%d" % number, partition=partition)

        outcome = run_topic(topic, verify="Final")

        assert (outcome.outcome, outcome.receipt.equal, outcome.receipt.rows) == ("Complete", True, 40)
        states = [(len(records_in(tmp_path / "t", seal.version)), seal.progress) for seal in seals(str(tmp_path / "t"))]
        after = [state for rows, state in states if rows == 40]
        done = [all(split["state"] != "Backfilling" for split in state["splits"].values()) for state in after]
        assert {name: split["target_offset"] for name, split in after[-1]["splits"].items()} == {"0": "20", "1": "41"}
        assert done[:3].count(True) > 0
        assert [state["phase"] for state in after][-1] == "Live"


class TestABrokerThatIsAway:
    """A broker that does not answer may come back."""

    def test_a_short_outage_costs_no_record(self, topics, broker, run_topic, tmp_path):
        """Reads and polls that fail meanwhile are repeated."""
        topic = topics.create(partitions=2)
        send_all(topics.address, topic, [b"%d" % number for number in range(300)])
        away = [broker.stopped]

        def leave(progress):
            if away and progress.rows_done:
                with away.pop()():
                    pass

        outcome = run_topic(topic, seen=leave, limit=60, verify="Final", kafka={"options": QUICK})

        assert not away
        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert records_in(tmp_path / "t") == [(0, offset, b"%d" % offset) for offset in range(300)]

    def test_a_lasting_outage_ends_the_job_with_the_address(self, run_topic):
        """Another start may find it."""
        outcome = run_topic("orders", kafka={"bootstrapServers": "127.0.0.1:1", "options": QUICK})

        assert (outcome.outcome, outcome.reason) == ("Failed", "Transient")
        assert "127.0.0.1:1" in outcome.message


class TestATopicThatIsCompactedMeanwhile:
    """The target has records that the topic has lost."""

    def test_a_compacted_topic_is_proven_by_its_remaining_records(self, topics, run_topic, tmp_path):
        """A record that was read before a compaction is no error, but it can no longer be compared."""
        topic = topics.create(config=COMPACTED)
        with producing(topics.address) as send:
            for number in range(40):
                send(topic, b"%d" % number, b"key %d" % (number % 4))
        run_topic(topic, stops=True, limit=20)
        topics.compact(topic)

        outcome = run_topic(topic, verify="Final")

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal
        places = [(partition, offset) for partition, offset, _ in records_in(tmp_path / "t")]
        assert outcome.receipt.rows < len(places) == len(set(places))


class TestATopicThatIsRefused:
    """The topic is refused after its offsets were read."""

    def test_a_refused_topic_leaves_no_client(self, topics, run_topic, spark):
        """The session may be a caller's and live for weeks; each client has threads and connections."""
        topic, before = topics.create(), admins(spark).keys()

        outcome = run_topic(topic, transform={"select": ["nothing"]})

        assert (outcome.outcome, outcome.reason) == ("Failed", "InvalidTransform")
        assert not [thread for number, thread in admins(spark).items() if number not in before and lives_on(thread)]


class TestATopicThatLostRecords:
    """Lost records are never skipped."""

    def test_lost_records_end_the_job_with_the_first_existing_offset(self, topics, run_topic, tmp_path):
        """The job ends before the next attempt writes anything. The partition and the offset are named."""
        topic = topics.create()
        send_all(topics.address, topic, [b"x"] * 300)
        run_topic(topic, stops=True, limit=40)
        topics.delete_records(topic, {0: 290})
        before = len(seals(str(tmp_path / "t")))

        outcome = run_topic(topic)

        assert_ending(outcome, "OffsetsExpired")
        assert "partition 0 " in outcome.message
        assert outcome.message.endswith("the first available offset is 290.")
        assert len(seals(str(tmp_path / "t"))) == before

    def test_a_topic_that_was_made_again_ends_the_job(self, topics, run_topic):
        """It has the same name, and other records at the same offsets."""
        topic = topics.create()
        send_all(topics.address, topic, [b"x"] * 100)
        run_topic(topic, stops=True, limit=40)
        topics.delete(topic)
        topics.create(topic)
        send_all(topics.address, topic, [b"y"] * 200)

        outcome = run_topic(topic)

        assert (outcome.outcome, outcome.reason) == ("Failed", "SourceReplaced")
