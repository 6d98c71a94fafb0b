"""The state alone, committed while a MERGE of the job runs (ADR 0004), on real tables."""

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
    """A command is acknowledged by it: it must survive, be seen by who comes next, and never speak of rows that a MERGE changed."""

    def test_replaces_the_state_and_takes_no_transaction(self, spark, table):
        """The number of the MERGE is announced; a higher one would have Delta pass the MERGE over."""
        target = table(spark.range(1))
        target.committer.seal(1 << 32 | 1, target.stage(spark.range(3)), "announced")

        sealed = target.committer.replace_state(Durable("announced", 1 << 32 | 1), "paused")

        found = target.committer.read_state()
        assert (found.text, found.txn_version, found.table_version) == ("paused", 1 << 32 | 1, sealed.version)
        again = target.committer.replace_state(Durable("paused", 1 << 32 | 1), "resumed")
        assert again.version == sealed.version + 1
        assert target.ids() == [0, 1, 2]

    def test_a_merge_that_runs_meanwhile_lands_behind_it(self, spark, table, tmp_path):
        """Delta rebases it: nothing that it read has changed."""
        # Keys of this type are not looked at before the MERGE begins.
        kind = "decimal(10,0)"
        rows = spark.range(3).selectExpr(f"CAST(id AS {kind}) AS id")
        target = table(rows)
        target.committer.seal(1, target.stage(rows), "announced")
        sink = DeltaSink(spark, target.path, write_mode=UPSERT, key=("id",), job_id="ns/job")
        sink.prepare(rows.schema)
        begun, goes_on = tmp_path / "begun", tmp_path / "goes on"
        for pipe in (begun, goes_on):
            os.mkfifo(pipe)

        def once(number, begun=str(begun), goes_on=str(goes_on)):
            if os.path.exists(goes_on):
                with open(begun, "w"), open(goes_on):
                    pass
            return number

        number = F.udf(once, kind)(F.col("id").cast(kind))
        changes = spark.range(2, 5).select(number.alias("id"), F.lit(False).alias(DELETE))
        with ThreadPoolExecutor(1) as threads:
            merge = threads.submit(sink.merge, changes, app_id="app", txn_version=2)
            with open(begun):
                beside = target.committer.replace_state(Durable("announced", 1), "paused")
                goes_on.rename(tmp_path / "gone")
                with open(tmp_path / "gone", "w"):
                    pass
            merge.result()

        found = target.committer.read_state()
        assert (found.text, found.txn_version, found.table_version) == ("paused", 2, beside.version + 1)
        (info,) = (one["commitInfo"] for one in target.actions(found.table_version) if "commitInfo" in one)
        assert info["readVersion"] == beside.version - 1
        assert target.ids() == [0, 1, 2, 3, 4]

    def test_is_refused_once_the_merge_has_landed(self, spark, table):
        """It would say of the target what it was before."""
        target = table(spark.range(1))
        target.committer.seal(1, (), "announced")
        target.committer.seal(2, (), "announced")

        with pytest.raises(TargetChangedError):
            target.committer.replace_state(Durable("announced", 1), "paused")
        assert target.committer.read_state().text == "announced"

    def test_and_when_anything_lands_between_its_look_and_its_commit(self, spark, table):
        """That may be the MERGE."""
        target = table(spark.range(1))
        target.committer.seal(1, (), "announced")
        late = target.open()

        class Slow(type(late)):
            """Looks at the table, and then another is quicker."""

            def _commit(self, txn, files, state, **claims):
                target.committer.seal(2, (), "announced")
                return super()._commit(txn, files, state, **claims)

        late.__class__ = Slow
        with pytest.raises((TransientError, FencedError)):
            late.replace_state(Durable("announced", 1), "paused")
        assert target.committer.read_state().text == "announced"

    def test_of_a_fenced_attempt_is_refused(self, spark, table):
        """By the state: the older attempt has no number for it."""
        target = table(spark.range(1))
        target.committer.seal(1, (), "old")
        target.open().fence(1 << 32, "new", opened=target.committer.read_state())

        with pytest.raises(FencedError):
            target.committer.replace_state(Durable("old", 1), "paused")
        assert target.committer.read_state().text == "new"

    def test_that_lands_after_the_next_attempt_looked_is_not_sealed_over(self, spark, table):
        """A command that was acknowledged would be forgotten."""
        target = table(spark.range(1))
        target.committer.seal(1, (), "read")
        successor = target.open()
        opened = successor.read_state()
        target.committer.replace_state(Durable("read", 1), "paused")

        with pytest.raises(StateMovedError):
            successor.fence(1 << 32, "read", opened=opened)
        assert target.committer.read_state().text == "paused"
