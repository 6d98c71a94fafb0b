"""State-only commits while a MERGE of the job runs (ADR 0004), on real tables."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import functions as F

from backfill_core.errors import FencedError, StateMovedError, TargetChangedError, TransientError
from backfill_core.protocol.actions import Durable
from backfill_spark.rows.changes import DELETE
from backfill_spark.rows.write_modes import UPSERT
from backfill_spark.sinks.delta.sink import DeltaSink


class TestAStateBesideAMerge:
    """Such a commit acknowledges a command, so it must survive and the next attempt must see it.

    It never describes rows that a MERGE changed.
    """

    def test_a_state_only_commit_replaces_the_state_and_takes_no_transaction(self, spark, table):
        """The number of the MERGE is announced. With a higher one, Delta would skip the MERGE."""
        target = table(spark.range(1))
        target.committer.seal(1 << 32 | 1, target.stage(spark.range(3)), "announced")

        sealed = target.committer.replace_state(Durable("announced", 1 << 32 | 1), "paused")

        stored = target.committer.read_state()
        assert (stored.text, stored.txn_version, stored.table_version) == ("paused", 1 << 32 | 1, sealed.version)
        again = target.committer.replace_state(Durable("paused", 1 << 32 | 1), "resumed")
        assert again.version == sealed.version + 1
        assert target.ids() == [0, 1, 2]

    def test_a_concurrent_merge_lands_after_the_state(self, spark, table, tmp_path):
        """Delta rebases the MERGE, because the rows that it read are unchanged."""
        # Keys of this type are not read before the MERGE begins.
        kind = "decimal(10,0)"
        rows = spark.range(3).selectExpr(f"CAST(id AS {kind}) AS id")
        target = table(rows)
        target.committer.seal(1, target.stage(rows), "announced")
        sink = DeltaSink(spark, target.path, write_mode=UPSERT, key=("id",), job_id="ns/job")
        sink.prepare(rows.schema)
        begun, resumes = tmp_path / "begun", tmp_path / "resumes"
        for pipe in (begun, resumes):
            os.mkfifo(pipe)

        def once(number, begun=str(begun), resumed=str(resumes)):
            if os.path.exists(resumed):
                with open(begun, "w"), open(resumed):
                    pass
            return number

        number = F.udf(once, kind)(F.col("id").cast(kind))
        changes = spark.range(2, 5).select(number.alias("id"), F.lit(False).alias(DELETE))
        with ThreadPoolExecutor(1) as threads:
            merge = threads.submit(sink.merge, changes, app_id="app", txn_version=2)
            with open(begun):
                sealed = target.committer.replace_state(Durable("announced", 1), "paused")
                resumes.rename(tmp_path / "gone")
                with open(tmp_path / "gone", "w"):
                    pass
            merge.result()

        stored = target.committer.read_state()
        assert (stored.text, stored.txn_version, stored.table_version) == ("paused", 2, sealed.version + 1)
        (info,) = (action["commitInfo"] for action in target.actions(stored.table_version) if "commitInfo" in action)
        assert info["readVersion"] == sealed.version - 1
        assert target.ids() == [0, 1, 2, 3, 4]

    def test_a_state_only_commit_is_refused_once_the_merge_has_landed(self, spark, table):
        """It would describe the target before the MERGE."""
        target = table(spark.range(1))
        target.committer.seal(1, (), "announced")
        target.committer.seal(2, (), "announced")

        with pytest.raises(TargetChangedError):
            target.committer.replace_state(Durable("announced", 1), "paused")
        assert target.committer.read_state().text == "announced"

    def test_a_state_only_commit_is_refused_when_a_commit_lands_after_its_check(self, spark, table):
        """That commit may be the MERGE."""
        target = table(spark.range(1))
        target.committer.seal(1, (), "announced")
        late = target.open()

        class Slow(type(late)):
            """Checks the table; then another writer commits first."""

            def _commit(self, txn, files, state, **claims):
                target.committer.seal(2, (), "announced")
                return super()._commit(txn, files, state, **claims)

        late.__class__ = Slow
        with pytest.raises((TransientError, FencedError)):
            late.replace_state(Durable("announced", 1), "paused")
        assert target.committer.read_state().text == "announced"

    def test_a_state_only_commit_of_a_fenced_attempt_is_refused(self, spark, table):
        """The state reveals it, because the older attempt has no transaction number for this commit."""
        target = table(spark.range(1))
        target.committer.seal(1, (), "old")
        target.open().fence(1 << 32, "new", opened=target.committer.read_state())

        with pytest.raises(FencedError):
            target.committer.replace_state(Durable("old", 1), "paused")
        assert target.committer.read_state().text == "new"

    def test_a_state_only_commit_after_the_next_attempt_read_is_not_sealed_over(self, spark, table):
        """An acknowledged command would be lost."""
        target = table(spark.range(1))
        target.committer.seal(1, (), "read")
        successor = target.open()
        opened = successor.read_state()
        target.committer.replace_state(Durable("read", 1), "paused")

        with pytest.raises(StateMovedError):
            successor.fence(1 << 32, "read", opened=opened)
        assert target.committer.read_state().text == "paused"
