"""Seals on real tables: each measured fact of Delta Kernel that the product relies on."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from support.tables.jobs import forget_before

from backfill_core.errors import (
    FencedError,
    StateMovedError,
    TransientError,
    UnsupportedTargetFeatureError,
)
from backfill_spark.delta.log import newest_version
from backfill_spark.jvm.gateway import java
from backfill_spark.ports.committer import StoredState
from backfill_spark.rows.write_modes import UPSERT
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.sink import DeltaSink

NOTHING = StoredState(None, -1, None)


class TestOneCommit:
    """Data, progress and transaction id are committed together or not at all."""

    def test_files_state_and_transaction_land_in_one_version(self, spark, table):
        """Progress without its rows loses work, and rows without progress double it."""
        rows = spark.range(10)
        target = table(rows)
        commit = target.committer.seal(7, target.stage(rows), '{"epoch":7}')

        kinds = {next(iter(action)) for action in target.actions(commit.version)}
        assert {"add", "txn", "domainMetadata"} <= kinds
        assert target.ids() == list(range(10))
        stored = target.committer.read_state()
        assert (stored.text, stored.table_version, stored.txn_version) == ('{"epoch":7}', commit.version, 7)

    def test_staged_files_are_invisible_until_the_seal(self, spark, table):
        """A reader must never see half of an epoch."""
        target = table(spark.range(1))
        target.stage(spark.range(10))

        assert target.ids() == []

    def test_an_empty_epoch_can_be_sealed(self, spark, table):
        """The fence is a commit without files."""
        target = table(spark.range(1))
        target.committer.seal(1, (), "fence")

        assert target.committer.read_state().text == "fence"

    def test_a_state_of_64_kib_comes_back(self, spark, table):
        """A job with many gaps has a large state."""
        target = table(spark.range(1))
        text = json.dumps({"x": 'ü"\\' * 13_000})[: 64 * 1024]
        target.committer.seal(1, (), text)

        assert target.committer.read_state().text == text

    def test_without_a_table_there_is_no_state(self, spark, tmp_path):
        """A first start is not an error."""
        committer = DeltaCommitter(spark, str(tmp_path / "none"), app_id="a", domain="backfill.x")

        assert committer.read_state().table_version == -1


class CommitterThatBeganBefore(DeltaCommitter):
    """Commits with a transaction that began earlier, when the test chose."""

    def begin_now(self, txn_version):
        self._kept = super()._begin(txn_version)

    def _begin(self, txn_version, retries=None):
        return self._kept


class CommitterWithAHook(DeltaCommitter):
    """A committer that runs a hook of the test before those of Kernel."""

    def put_before(self, hook):
        self.hooks.waiting = [(0, hook), *self.hooks.waiting]

    @property
    def waiting(self):
        return self.hooks.waiting


@pytest.mark.always
class TestTheFence:
    """Delta itself refuses a driver that lost its job."""

    def test_an_older_and_an_equal_transaction_are_refused_at_begin(self, spark, table):
        """A driver that was replaced must not write again."""
        target = table(spark.range(1))
        target.committer.seal(5, (), "new")
        zombie = target.open()

        for version in (4, 5):
            with pytest.raises(FencedError):
                zombie.seal(version, (), "old")
        assert target.committer.read_state().text == "new"

    def test_a_seal_that_lands_between_begin_and_commit_makes_the_commit_fail(self, spark, table):
        """A check before the commit is not enough."""
        target = table(spark.range(1))
        zombie = target.open(kind=CommitterThatBeganBefore)
        zombie.begin_now(3)
        target.committer.seal(9, (), "new")

        with pytest.raises(FencedError):
            zombie.seal(3, (), "old")
        assert target.committer.read_state().text == "new"

    def test_a_predecessors_commit_after_its_state_was_read_is_not_sealed_over(self, spark, table):
        """The new attempt's state would not include those rows, so they would be copied again."""
        target = table(spark.range(1))
        target.committer.seal(1 << 32 | 1, (), "read")
        successor = target.open()
        opened = successor.read_state()
        target.committer.seal(1 << 32 | 2, target.stage(spark.range(5)), "landed late")

        with pytest.raises(StateMovedError, match="landed after its state was read"):
            successor.fence(2 << 32 | 2, "fence", opened=opened)
        assert target.committer.read_state().text == "landed late"

    def test_a_commit_that_lands_while_the_fence_commits_is_not_sealed_over(self, spark, table):
        """The fence must continue the state that it read."""
        target = table(spark.range(1))
        target.committer.seal(1 << 32 | 1, (), "read")
        successor = target.open()
        opened = successor.read_state()

        class Slow(type(successor)):
            """Checks the table; then a predecessor commits first."""

            def _commit(self, txn, files, state, **claims):
                target.committer.seal(1 << 32 | 2, target.stage(spark.range(5)), "landed late")
                self.__class__ = DeltaCommitter
                return self._commit(txn, files, state, **claims)

        successor.__class__ = Slow
        with pytest.raises(StateMovedError):
            successor.fence(2 << 32 | 2, "fence", opened=opened)
        assert target.committer.read_state().text == "landed late"

    def test_two_processes_with_one_attempt_number_cannot_both_fence(self, spark, table):
        """Two terminals may start the same job."""
        target = table(spark.range(1))
        first, second = target.open(), target.open()
        first.fence(1 << 32 | 1, '{"driver":"a"}', opened=NOTHING)

        with pytest.raises(StateMovedError):
            second.fence(1 << 32 | 1, '{"driver":"b"}', opened=NOTHING)

    def test_the_fence_of_a_newer_attempt_stays_fenced(self, spark, table):
        """An old driver that starts late must not win."""
        target = table(spark.range(1))
        target.committer.fence(5 << 32 | 1, "new", opened=NOTHING)

        with pytest.raises(FencedError):
            target.open().fence(2 << 32 | 1, "old", opened=NOTHING)

    def test_a_merge_of_a_fenced_attempt_changes_nothing(self, spark, table):
        """MERGEs share the sequence of the seals."""
        target = table(spark.range(3))
        target.committer.seal(1, target.stage(spark.range(3)), "a")
        target.committer.seal(2 << 32, (), "fence of attempt 2")
        late = DeltaSink(spark, target.path, write_mode=UPSERT, key=("id",), job_id="ns/job")
        late.prepare(spark.range(1).schema)
        late.merge(
            spark.range(5, 9).selectExpr("id", "false AS __backfill_delete"), app_id="app", txn_version=(1 << 32) + 7
        )

        assert target.ids() == [0, 1, 2]


class TestOtherWriters:
    """A seal is rebased over foreign commits, and they keep the stored state."""

    @pytest.mark.parametrize("foreign", ["append", "merge"])
    def test_foreign_commits_between_begin_and_commit_are_kept(self, spark, table, foreign):
        """Other writers must not end the job, and its state must survive."""
        target = table(spark.range(1))
        target.committer.seal(1, target.stage(spark.range(5)), "one")
        files, committer = target.stage(spark.range(10, 15)), target.open(kind=CommitterThatBeganBefore)
        committer.begin_now(2)
        if foreign == "append":
            spark.range(100, 103).write.format("delta").mode("append").save(target.path)
        else:
            spark.sql(
                f"MERGE INTO delta.`{target.path}` t USING (SELECT 100L + id AS id FROM range(3)) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
            )
        committer.seal(2, files, "two")

        assert target.ids() == [*range(5), *range(10, 15), 100, 101, 102]
        assert target.open().read_state().text == "two"

    def test_the_state_survives_commands_that_rewrite_the_rows(self, spark, table):
        """OPTIMIZE, UPDATE and MERGE write their own metadata, and must not drop the state."""
        target = table(spark.range(1))
        for version in (1, 2, 3):
            target.committer.seal(version, target.stage(spark.range(version * 10, version * 10 + 5)), f"s{version}")
        spark.sql(f"OPTIMIZE delta.`{target.path}`")
        spark.sql(f"UPDATE delta.`{target.path}` SET id = id + 1 WHERE id > 20")
        spark.sql(
            f"MERGE INTO delta.`{target.path}` t USING (SELECT 10L AS id UNION ALL SELECT 99L) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET id = 98 WHEN NOT MATCHED THEN INSERT *"
        )

        assert target.open().read_state().text == "s3"
        assert target.ids() == [
            11, 12, 13, 14, 20, 22, 23, 24, 25, 31, 32, 33, 34, 35, 98, 99,
        ]  # fmt: skip


class TestPartitions:
    """Each combination of partition values has one write context."""

    def test_odd_values_and_nulls_are_kept(self, spark, table):
        """Names of folders are encoded, and null has a reserved name."""
        rows = spark.createDataFrame(
            [(1, "a b/c=d%e", "2024-02-29"), (2, None, None), (3, "ü", "1999-12-31")],
            "id long, text string, day string",
        ).selectExpr("id", "text", "cast(day AS date) AS day")
        target = table(rows, partition_by=("text", "day"))
        target.committer.seal(1, target.stage(rows), "s")

        assert sorted(map(tuple, target.read().collect()), key=str) == sorted(map(tuple, rows.collect()), key=str)
        selected = target.read().where("text = 'a b/c=d%e' AND day = '2024-02-29'")
        assert sorted(row["id"] for row in selected.unionAll(target.read().where("text IS NULL")).collect()) == [1, 2]


class TestTableFeatures:
    """Kernel can write these tables, except one that it must not write."""

    @pytest.mark.parametrize(
        "properties",
        [
            {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
            {"delta.columnMapping.mode": "name"},
            {"delta.checkpointPolicy": "v2"},
            {"delta.enableInCommitTimestamps": "true"},
            {"delta.appendOnly": "true"},
            {"delta.enableRowTracking": "true"},
        ],
        ids=lambda properties: "+".join(properties),
    )
    def test_rows_are_read_back_with_each_feature(self, spark, table, properties):
        """Column mapping and deletion vectors change how files are read."""
        rows = spark.range(20).selectExpr("id", "named_struct('in', id) AS st", "concat('n', id) AS name")
        target = table(rows, properties=properties)
        target.committer.seal(1, target.stage(rows), "s")

        stored = target.read()
        assert sorted(map(tuple, stored.collect())) == sorted(map(tuple, rows.collect()))
        assert stored.where("name = 'n7'").count() == 1

    def test_clustered_tables_are_optimized(self, spark, table):
        """OPTIMIZE must understand the product's files."""
        target = table(spark.range(1), cluster_by=("id",))
        target.committer.seal(1, target.stage(spark.range(9)), "s")
        spark.sql(f"OPTIMIZE delta.`{target.path}`")

        assert target.ids() == list(range(9))

    def test_the_change_feed_of_the_target_is_right(self, spark, table):
        """Other jobs may read the target's changes."""
        target = table(spark.range(1), properties={"delta.enableChangeDataFeed": "true"})
        version = target.committer.seal(1, target.stage(spark.range(9)), "s").version
        feed = (
            spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", version)
            .load(target.path)
        )

        assert [row["_change_type"] for row in feed.collect()] == ["insert"] * 9

    def test_a_check_constraint_is_refused_by_name(self, spark, table):
        """Kernel does not check it, so wrong rows would land."""
        target = table(spark.range(1))
        spark.sql(f"ALTER TABLE delta.`{target.path}` ADD CONSTRAINT positive CHECK (id >= 0)")

        with pytest.raises(UnsupportedTargetFeatureError, match="positive"):
            target.sink.check(spark.range(1).schema, source_path="/elsewhere", has_state=True)


class TestCheckpoints:
    """Hooks write checkpoints outside the barrier's path."""

    def test_a_checkpoint_exists_after_ten_seals_and_the_table_is_readable(self, spark, table):
        """Without checkpoints each reader replays thousands of commits."""
        target = table(spark.range(1))
        for version in range(1, 13):
            files = target.stage(spark.range(version, version + 1)) if version % 5 == 0 else ()
            target.committer.seal(version, files, f"s{version}")
            target.committer.run_hooks()

        assert list(Path(target.path, "_delta_log").glob("*.checkpoint*.parquet"))
        assert sorted(row["id"] for row in target.read().collect()) == [5, 10]
        assert newest_version(spark, target.path).position == 12

    def test_a_checkpoint_loses_no_restored_file(self, spark, tmp_path):
        """delta-rs restores a file without a checkpoint.

        Kernel's checkpoint has such a file and its removal, and Spark then reads none of its rows.
        """
        path = str(tmp_path / "t")
        spark.range(100).coalesce(1).write.format("delta").save(path)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id < 50")
        DeltaTable(path).restore(0)
        committer = DeltaCommitter(spark, path, app_id="a", domain="backfill.x")
        for version in range(1, 13):
            committer.seal(version, (), f"s{version}")
            committer.run_hooks()
        java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()

        newest = max(Path(path, "_delta_log").glob("*.checkpoint*.parquet"))
        at = int(newest.name.partition(".")[0])
        assert spark.read.format("delta").option("versionAsOf", at).load(path).count() == 100

    def test_a_checkpoint_is_made_where_the_log_does_not_name_the_last_one(self, spark, table):
        """The hint file is lost, and earlier commits were cleaned up, so their actions are unknown."""
        target = table(spark.range(1))
        target.committer.seal(1, target.stage(spark.range(5)), "s1")
        newest = target.committer.seal(2, (), "s2").version
        forget_before(spark, target.path, newest)
        Path(target.path, "_delta_log", "_last_checkpoint").unlink()
        committer = target.open()
        for version in range(3, 13):
            committer.seal(version, (), f"s{version}")
            committer.run_hooks()

        made = {int(file.name[:20]) for file in Path(target.path, "_delta_log").glob("*.checkpoint*.parquet")}
        assert max(made) > newest
        assert sorted(row["id"] for row in target.read().collect()) == [0, 1, 2, 3, 4]

    def test_a_failed_checkpoint_stops_no_other_and_is_tried_again(self, spark, table):
        """The tenth version's checkpoint is written when the storage answers again."""
        target = table(spark.range(1))
        committer = target.open(kind=CommitterWithAHook)
        for version in range(1, 13):
            committer.seal(version, (), f"s{version}")
        committer.put_before(HookThatFailsOnce(java(spark).java.net.SocketTimeoutException("away")))

        with pytest.raises(TransientError):
            committer.run_hooks()
        assert list(Path(target.path, "_delta_log").glob("*.checkpoint*.parquet"))
        committer.run_hooks()
        assert committer.waiting == []


class HookThatFailsOnce:
    """Fails the first time with an exception of the JVM."""

    def __init__(self, exception):
        self.exception = exception

    def getType(self):  # noqa: N802 - the JVM names it
        return "CHECKSUM_SIMPLE"

    def threadSafeInvoke(self, engine):  # noqa: N802 - the JVM names it
        exception, self.exception = self.exception, None
        if exception is not None:
            raise Py4JJavaError("An error occurred", exception)
