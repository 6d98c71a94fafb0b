"""A fenced table refuses every writer at hand and serves every reader; without the fence all of them write again."""

import json
import os
import re
import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.errors import StreamingQueryException
from support.endings import assert_ending
from support.source_fence.writers import (
    REFUSED_BY_DELTA_RS,
    REFUSED_BY_SPARK,
    STATEMENTS,
    by_delta_rs,
    by_spark,
    newest,
)
from support.tables.jobs import forget_before, job, make_changed_orders, make_orders
from support.tables.logs import forget_sums

from backfill_core.errors import SourceFencedError, UnsupportedSourceFeatureError
from backfill_core.source_fence.fence import Request
from backfill_core.source_fence.table_protocol import FENCED
from backfill_spark.delta.log import head_actions
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.fence import fence_log, fence_source, unfence_log, unfence_source
from backfill_spark.settings import DriverSettings
from backfill_spark.sources.delta.fenced_log import DeltaFencedLog

OURS = Request("shop/orders", "2026-11-26T22:00:00Z", 1_795_000_000_000, "entry-1", "change 4711")
THEIRS = Request("shop/other", "2026-11-26T22:01:00Z", 1_795_000_000_000, "entry-2")
WAIT_S = 60


def fenced(spark, path, request=OURS):
    return fence_log(DeltaFencedLog(spark, path), request, timeout_s=WAIT_S)


def unfenced(spark, path, request=OURS, *, force=False):
    return unfence_log(DeltaFencedLog(spark, path), request, force=force, timeout_s=WAIT_S)


def count_by_delta_rs(path):
    return (
        QueryBuilder().register("t", DeltaTable(path)).execute("SELECT count(*) AS n FROM t").read_all()["n"][0].as_py()
    )


class TestAllWriters:
    """The fence is an unknown feature for each of them, so they refuse the table themselves."""

    def test_a_fence_stops_writers_and_no_reader(self, spark, tmp_path):
        """Spark and delta-rs refuse to write, and read on; after the fence both write."""
        at, insert = str(tmp_path / "orders"), STATEMENTS[:1]
        make_orders(spark, at, 100, files=2)

        done = fenced(spark, at)

        ((_, refusal),) = by_spark(spark, at, insert)
        assert f"{REFUSED_BY_SPARK} Unsupported Delta write feature: table " in refusal
        assert {message for _, message in by_delta_rs(at)} == {REFUSED_BY_DELTA_RS}
        assert (newest(spark, at), done.fence.version) == (1, 1)
        assert (spark.read.format("delta").load(at).count(), count_by_delta_rs(at)) == (100, 100)
        assert fenced(spark, at).fence == done.fence
        assert unfenced(spark, at).version == 2
        assert [*by_spark(spark, at, insert)] == [(insert[0], None)]
        assert {message for _, message in by_delta_rs(at)} == {None}
        assert unfenced(spark, at).entries == 0

    def test_each_writer_is_refused_while_readers_continue_and_all_write_again_afterwards(self, spark, tmp_path):
        """One table for all steps, because a table takes Spark seconds."""
        at, other = str(tmp_path / "orders"), str(tmp_path / "other")
        make_changed_orders(spark, at, "UPDATE {t} SET amount = 7 WHERE id < 10")
        before, settings = head_actions(spark, at), DriverSettings(state_dir=tmp_path / "state", cores=2)

        done = fenced(spark, at)

        assert (done.fence.version, done.entries) == (before.version + 1, 1)
        make_orders(spark, other, 10, files=1)
        filled = run_driver(
            job(other, at, target={"writeMode": "Append", "existingRows": "Keep"}), settings=settings, spark=spark
        )
        refusals = [*by_spark(spark, at)]
        assert [statement for statement, message in refusals if not message or REFUSED_BY_SPARK not in message] == []
        assert [statement for statement, message in refusals if FENCED not in message] == []
        assert {message for _, message in by_delta_rs(at)} == {REFUSED_BY_DELTA_RS}
        assert_ending(filled, "UnsupportedTargetFeature")
        assert FENCED in filled.message
        assert "lifts its fence" in filled.hint
        assert newest(spark, at) == done.fence.version

        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(at)
        assert (spark.read.format("delta").load(at).where("amount = 7").count(), feed.count()) == (10, 20)
        assert spark.read.format("delta").option("versionAsOf", 0).load(at).count() == 100
        assert (count_by_delta_rs(at), DeltaTable(at, version=0).version()) == (100, 0)
        shown = dict(spark.sql(f"SHOW TBLPROPERTIES delta.`{at}`").collect())
        assert json.loads(shown[FENCED])["reason"] == "change 4711"
        history = spark.sql(f"DESCRIBE HISTORY delta.`{at}`").first()
        assert (history["operation"], history["operationParameters"]["job"]) == ("FENCE", "shop/orders")

        lifted = unfenced(spark, at)

        after = head_actions(spark, at)
        assert (after.protocol, after.metadata) == (before.protocol, before.metadata)
        assert lifted.lifted == done.fence
        assert {message for _, message in by_delta_rs(at)} == {None}
        assert [message for _, message in by_spark(spark, at) if message] == []


class TestWritersInFlight:
    """A writer that began before the fence meets it at its commit."""

    def test_a_merge_in_flight_commits_nothing(self, spark, tmp_path):
        """A function of the MERGE waits until the fence is in the log."""
        at, begun, go = str(tmp_path / "orders"), str(tmp_path / "begun"), str(tmp_path / "go")
        released = tmp_path / "released"
        make_orders(spark, at, 100, files=2)
        os.mkfifo(begun)
        os.mkfifo(go)

        def hold(number):
            if not os.path.exists(str(released)):
                open(begun, "w").close()
                open(go).close()
            return number

        spark.udf.register("hold_merge", hold, "long")
        ended = []

        def merge():
            statement = "MERGE INTO {t} AS t USING (SELECT hold_merge(id) AS id FROM range(1)) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = 'y'"
            ended.extend(by_spark(spark, at, (statement,)))

        writer = threading.Thread(target=merge)
        writer.start()
        open(begun).close()
        done = fenced(spark, at)
        released.touch()
        open(go, "w").close()
        writer.join(WAIT_S)

        ((_, message),) = ended
        assert re.search(r"DELTA_UNSUPPORTED_FEATURES_FOR_WRITE|DELTA_PROTOCOL_CHANGED", message)
        assert FENCED in message
        assert newest(spark, at) == done.fence.version
        assert spark.read.format("delta").load(at).where("note = 'y'").count() == 0

    def test_a_running_stream_stops_and_continues_after_the_fence_without_a_gap(self, spark, tmp_path):
        """The stream keeps its checkpoint, and each of its rows arrives once."""
        at, feeder, state = (str(tmp_path / name) for name in ("orders", "feeder", "checkpoint"))
        make_orders(spark, at, 10, files=1)
        make_orders(spark, feeder, 20, files=1)

        def stream(**trigger):
            rows = spark.readStream.format("delta").load(feeder)
            started = rows.writeStream.format("delta").option("checkpointLocation", state)
            return (started.trigger(**trigger) if trigger else started).start(at)

        running = stream()
        running.processAllAvailable()
        fenced(spark, at)
        spark.sql(f"INSERT INTO delta.`{feeder}` SELECT id + 100, customer, amount, note, status FROM delta.`{feeder}`")

        with pytest.raises(StreamingQueryException, match=FENCED):
            running.processAllAvailable()
        assert spark.read.format("delta").load(at).count() == 30

        unfenced(spark, at)
        stream(availableNow=True).awaitTermination()
        assert spark.read.format("delta").load(at).count() == 50


class TestReadersThatFollow:
    """A stream from the table sees the fence as a commit without rows."""

    def test_a_stream_from_a_fenced_table_continues(self, spark, tmp_path):
        """Before, during and after the fence it reads each row once."""
        at, to, state = (str(tmp_path / name) for name in ("orders", "rows", "checkpoint"))
        make_orders(spark, at, 10, files=1)

        def read_on():
            rows = spark.readStream.format("delta").load(at).select("id").writeStream.format("parquet")
            rows.option("checkpointLocation", state).trigger(availableNow=True).start(to).awaitTermination()
            return spark.read.parquet(to).count()

        counts = [read_on()]
        fenced(spark, at)
        counts.append(read_on())
        unfenced(spark, at)
        assert [message for _, message in by_spark(spark, at, STATEMENTS[:1])] == [None]
        counts.append(read_on())

        assert counts == [10, 10, 11]


class TestNamesAndOldLogs:
    """A table is fenced by path or by its name in the catalog, and needs only its newest version."""

    def test_a_table_of_the_catalog_is_fenced_by_its_name(self, spark, tmp_path):
        """The whole command, in a session of the caller; DROP TABLE is not a commit, and is not stopped."""
        spark.range(10).selectExpr("id").write.format("delta").saveAsTable("fenced_orders")
        spec = job("-", str(tmp_path / "copy"), source={"path": None, "table": "fenced_orders"}, jobId="shop/orders")
        settings = DriverSettings(state_dir=tmp_path / "state")

        done = fence_source(spec, settings=settings, reason="change 4711", spark=spark)

        with pytest.raises(Exception, match=FENCED):
            spark.sql("INSERT INTO fenced_orders VALUES (100)")
        assert (done.fence.job, done.fence.version) == ("shop/orders", 1)
        lifted = unfence_source(spec, settings=settings, spark=spark)
        assert (lifted.path, lifted.version, lifted.lifted) == (done.path, 2, done.fence)
        spark.sql("INSERT INTO fenced_orders VALUES (100)")
        fence_source(spec, settings=settings, reason="change 4711", spark=spark)
        spark.sql("DROP TABLE fenced_orders")

    def test_a_table_whose_old_log_is_deleted_is_fenced(self, spark, tmp_path):
        """Protocol and metadata come from a checkpoint."""
        at = str(tmp_path / "orders")
        make_changed_orders(spark, at, "UPDATE {t} SET amount = 7 WHERE id < 10")
        forget_before(spark, at, 1)

        done = fenced(spark, at)

        assert (done.fence.version, done.entries) == (2, 1)
        assert spark.read.format("delta").load(at).where("amount = 7").count() == 10
        unfenced(spark, at)
        assert [message for _, message in by_spark(spark, at, STATEMENTS[:1])] == [None]


LEGACY = [{"delta.minReaderVersion": "1", "delta.minWriterVersion": str(version)} for version in (2, 3, 6)]
MAPPED = {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5", "delta.columnMapping.mode": "name"}
NEW = {
    "vectors": {"delta.enableDeletionVectors": "true"},
    "times": {"delta.enableInCommitTimestamps": "true"},
    "row ids": {"delta.enableRowTracking": "true"},
    "append-only": {"delta.appendOnly": "true"},
    "checkpoints": {"delta.checkpointPolicy": "v2"},
    "widening": {"delta.enableTypeWidening": "true"},
    "mapped": {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"},
    "domains": {"delta.feature.domainMetadata": "supported"},
}
TABLES = {f"writer {kind['delta.minWriterVersion']}": kind for kind in LEGACY} | {"writer 5, mapped": MAPPED} | NEW


class TestKindsOfTables:
    """Each is fenced and opened again with all of its features; its rows are readable throughout."""

    @pytest.mark.parametrize("kind", TABLES)
    def test_a_table_keeps_its_features_through_a_fence(self, spark, tmp_path, kind):
        """The next writer continues as if there had been no fence."""
        at = str(tmp_path / "t")
        spark.range(20).selectExpr("id", "id % 3 AS part").write.format("delta").options(**TABLES[kind]).save(at)
        before = head_actions(spark, at)

        done = fenced(spark, at)

        during = head_actions(spark, at)
        forget_sums(at)
        assert spark.read.format("delta").load(at).where("part = 1").count() == 7
        assert during.timestamp_ms > before.timestamp_ms or kind != "times"
        ((_, message),) = by_spark(spark, at, ("INSERT INTO {t} VALUES (100, 1)",))
        assert FENCED in message
        unfenced(spark, at)
        after = head_actions(spark, at)
        assert as_sets(after.protocol) == as_sets(before.protocol)
        assert after.metadata == before.metadata
        assert [*by_spark(spark, at, ("INSERT INTO {t} VALUES (100, 1)",))] == [
            ("INSERT INTO {t} VALUES (100, 1)", None)
        ]
        assert newest(spark, at) == done.fence.version + 2
        history = (
            spark.sql(f"DESCRIBE HISTORY delta.`{at}`").select("version", "timestamp").orderBy("version").collect()
        )
        assert [row["timestamp"] for row in history] == sorted(row["timestamp"] for row in history)


def as_sets(protocol):
    return {name: set(value) if isinstance(value, list) else value for name, value in protocol.items()}


class TestJobsOfAFencedSource:
    """A job reads a fenced source, and one that follows reaches the version of the fence."""

    @pytest.mark.parametrize("strategy", ["Replica", "Snapshot"])
    def test_a_job_follows_its_source_up_to_the_fence(self, spark, tmp_path, strategy):
        """The fence is one version of the source; it changes no row, and the target gets neither feature nor property."""
        at, to = str(tmp_path / "source"), str(tmp_path / "target")
        make_changed_orders(spark, at, "UPDATE {t} SET amount = 7 WHERE id < 10")
        done = fenced(spark, at)
        spec = job(
            at, to, strategy={"type": strategy}, source={"version": 0, "key": [] if strategy == "Replica" else ["id"]}
        )

        outcome = run_driver(spec, settings=DriverSettings(state_dir=tmp_path / "state", cores=2), spark=spark)

        assert (outcome.message, outcome.outcome) == ("", "Complete")
        assert outcome.progress.consumed_version == done.fence.version
        assert spark.read.format("delta").load(to).where("amount = 7").count() == 10
        assert FENCED not in str(head_actions(spark, to))

    def test_a_replica_of_a_fenced_version_copies_files_and_not_the_fence(self, spark, tmp_path):
        """The pinned version itself is fenced: its files are copied whole, and the target accepts writes."""
        at, to = str(tmp_path / "source"), str(tmp_path / "target")
        make_orders(spark, at, 100, files=2)
        fenced(spark, at)
        spec = job(at, to, strategy={"type": "Replica"}, source={"key": []})

        outcome = run_driver(spec, settings=DriverSettings(state_dir=tmp_path / "state", cores=2), spark=spark)

        assert (outcome.message, outcome.outcome) == ("", "Complete")
        assert [Path(file).name[:2] for file in DeltaTable(to).file_uris()] == ["w-", "w-"]
        assert FENCED not in str(head_actions(spark, to))


class TestRefusals:
    """A refused fence leaves the log as it is."""

    def test_another_job_is_refused_and_the_table_stays_fenced(self, spark, tmp_path):
        """The message names the holder."""
        at = str(tmp_path / "orders")
        make_orders(spark, at, 10, files=1)
        fenced(spark, at)

        for call in (fenced, unfenced):
            with pytest.raises(SourceFencedError, match="fenced by job 'shop/orders' at version 1") as refused:
                call(spark, at, THEIRS)
            assert_ending(refused.value, "SourceFenced")
        assert newest(spark, at) == 1
        assert unfenced(spark, at, THEIRS, force=True).lifted.job == "shop/orders"

    @pytest.mark.parametrize("feature", ["catalogManaged", "ofTomorrow"])
    def test_a_table_with_other_rules_for_commits_is_refused_by_name(self, spark, tmp_path, feature):
        """A catalog decides on the commits of the one; the rules of the other are unknown."""
        at = str(tmp_path / "orders")
        make_orders(spark, at, 10, files=1)
        entry = tmp_path / "orders" / "_delta_log" / f"{1:020}.json"
        names = f'["inCommitTimestamp", "{feature}"]'
        entry.write_text(
            '{"commitInfo":{"inCommitTimestamp":1795000000000,"timestamp":1795000000000,"operation":"UPGRADE"}}\n'
            f'{{"protocol":{{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":{names}}}}}\n'
        )

        with pytest.raises(UnsupportedSourceFeatureError, match=feature) as refused:
            fenced(spark, at)

        assert_ending(refused.value, "UnsupportedSourceFeature")
        assert sorted(entry.parent.glob("*2.json")) == []

    def test_metadata_without_its_feature_would_hide_a_fenced_table_from_readers(self, spark, tmp_path):
        """The refusal is right: with a list of features, Spark itself rejects this table."""
        at = str(tmp_path / "orders")
        make_orders(spark, at, 10, files=1)
        log = tmp_path / "orders" / "_delta_log"
        (log / f"{1:020}.json").write_text('{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n')

        with pytest.raises(
            UnsupportedSourceFeatureError, match="enableChangeDataFeed needs the table feature changeDataFeed"
        ):
            fenced(spark, at)

        assert spark.read.format("delta").load(at).count() == 10
        listed = '{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly","invariants"]}'
        (log / f"{2:020}.json").write_text(f'{{"protocol":{listed}}}\n')
        with pytest.raises(Exception, match="DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH"):
            spark.read.format("delta").load(at).count()
