"""A release removes a job's state from its target: no run can resume it, and any writer may use the table."""

import re
from functools import partial

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.drivers.opened_job import looked_at
from support.endings import assert_ending
from support.repository import ROOT
from support.tables.jobs import job, make_orders
from support.tables.other_engine import update

from backfill_core.errors import BackfillError, FencedError, NotFinishedError, StateMismatchError
from backfill_core.job.owner import released
from backfill_core.protocol.epochs import txn_version
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.release import drop, release
from backfill_spark.jvm.gateway import hadoop_conf
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.procedures.perform import perform
from backfill_spark.settings import DriverSettings
from backfill_spark.sources.delta.absence import doubt_of_absence
from backfill_spark.sources.delta.failures import explain_look

ROWS = 500
PAGE = ROOT / "docs/after-the-backfill.md"


class TestARelease:
    def test_a_release_of_an_active_job_is_refused_and_of_a_finished_one_frees_the_table(self, spark, tmp_path):
        """R-PROG-5: one test uses one table for all steps, because a table takes Spark seconds."""
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        make_orders(spark, source, ROWS, files=2)
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
        held = job(source, target, barrier={"intervalMs": 200}, throttle={"rowsPerSecond": 0})
        backfill = job(source, target, barrier={"intervalMs": 200})

        stop = StopSignal()
        halted = run_driver(held, settings=settings, observe=lambda _: stop.ask(force=False), spark=spark, stop=stop)

        assert halted.exit_code == 10
        with pytest.raises(NotFinishedError, match="the target holds 0 rows, attempt 1") as refused:
            release(backfill, settings=settings, spark=spark)
        assert_ending(refused.value, "NotFinished")
        assert run_driver(backfill, settings=settings, spark=spark).outcome == "Complete"
        with pytest.raises(Exception, match="DomainMetadata"):
            update(target, "id = 1", amount="7.0")
        before = looked_at(spark, backfill)

        done = release(backfill, settings=settings, spark=spark)

        assert "domainMetadata" not in done.features
        update(target, "id = 1", amount="7.0")
        assert (looked_at(spark, backfill).state, looked_at(spark, backfill).committer.domains()) == (None, ())
        assert spark.read.format("delta").load(target).count() == ROWS
        with pytest.raises(StateMismatchError, match="no state of this job"):
            release(backfill, settings=settings, spark=spark)
        # Delta itself refuses a driver that froze before the release and wakes up now.
        with pytest.raises(FencedError):
            before.committer.seal(txn_version(before.state.attempt, before.state.epoch + 9), (), before.state.encode())
        assert run_driver(backfill, settings=settings, spark=spark).reason == "TargetNotEmpty"

    def test_a_release_leaves_the_other_jobs_of_a_table(self, spark, tmp_path):
        """Delta drops all domains with the feature, including another job's state."""
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        make_orders(spark, source, ROWS, files=1)
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
        shared = {"target": {"writeMode": "Append", "existingRows": "Keep"}, "barrier": {"intervalMs": 200}}
        first, other = (job(source, target, jobId=name, **shared) for name in ("one", "other"))
        for backfill in (first, other):
            assert run_driver(backfill, settings=settings, spark=spark).outcome == "Complete"

        done = release(first, settings=settings, spark=spark)

        assert "domainMetadata" in done.features
        assert looked_at(spark, first).state is None
        assert looked_at(spark, other).state.finished

    @pytest.mark.parametrize("by", ["the command", "the deletion of the job"])
    def test_a_release_that_was_killed_after_its_commit_is_finished_by_the_next_one(self, spark, tmp_path, by):
        """Until the feature leaves the table, writers that do not know it are refused."""
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        make_orders(spark, source, ROWS, files=1)
        settings, backfill = (
            DriverSettings(state_dir=tmp_path / "state", cores=2),
            job(source, target, deletionPolicy="Release"),
        )
        assert run_driver(backfill, settings=settings, spark=spark).outcome == "Complete"
        killed = looked_at(spark, backfill)
        killed.committer.release(txn_version(killed.state.attempt + 1, 0), killed.stored)

        if by == "the command":
            assert "domainMetadata" not in release(backfill, settings=settings, spark=spark).features
        else:
            done = perform(
                backfill, settings=settings.model_copy(update={"mode": "close"}), stop=StopSignal(), spark=spark
            )
            assert done.ending.procedure.end == "Released"

        update(target, "id = 1", amount="7.0")
        with pytest.raises(StateMismatchError, match="no state of this job"):
            release(backfill, settings=settings, spark=spark)


class TestASourceThatIsGone:
    """A source is dropped once its target replaces it, and the job ends afterwards."""

    @pytest.mark.parametrize("name", ["gone_source", "gone_schema.orders"])
    def test_a_name_that_a_catalog_in_memory_lacks_proves_nothing(self, spark, tmp_path, name):
        """The session may lack the settings of the catalog: the extended retention of the source would stay for ever."""
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        make_orders(spark, source, ROWS, files=1)
        spark.sql("CREATE SCHEMA IF NOT EXISTS gone_schema")
        spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{source}'")
        named = {"path": None, "table": name, "hold": "Extend"}
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
        backfill = job(source, target, source=named, after="Follow", deletionPolicy="Release")
        stop = StopSignal()
        run_driver(backfill, settings=settings, observe=lambda _: stop.ask(force=False), spark=spark, stop=stop)
        spark.sql("DROP TABLE gone_source" if name == "gone_source" else "DROP SCHEMA gone_schema CASCADE")
        closing = settings.model_copy(update={"mode": "close"})

        for end in (partial(release, force=True), partial(drop, force=True)):
            with pytest.raises(BackfillError, match="gone_s") as doubted:
                end(backfill, settings=settings, spark=spark)
            assert "Set spark.sql.catalogImplementation to hive" in doubted.value.hint
        failed = perform(backfill, settings=closing, stop=StopSignal(), spark=spark)
        assert "spark.sql.catalogImplementation" in failed.ending.hint
        assert "backfill.hold" in DeltaTable(source).metadata().configuration
        spark.sql("CREATE SCHEMA IF NOT EXISTS gone_schema")
        spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{source}'")
        assert perform(backfill, settings=closing, stop=StopSignal(), spark=spark).ending.procedure.end == "Released"

        assert "backfill.hold" not in DeltaTable(source).metadata().configuration
        spark.sql(f"DROP TABLE {name}")
        spark.sql("DROP SCHEMA IF EXISTS gone_schema")

    @pytest.mark.parametrize(
        ("path", "target", "proven"),
        [
            ("s3a://gone/orders", "s3a://lake/orders", True),
            ("s3a://gone/orders", "s3a://elsewhere/orders", False),
            ("s3a://gone/orders", "/lake/orders", False),
            ("s3a://gone/orders", None, False),
            ("gs://gone/orders", "gs://lake/orders", True),
            ("abfss://gone@shop.dfs.core.windows.net/t", "abfss://lake@shop.dfs.core.windows.net/t", True),
            ("abfss://gone@shop.dfs.core.windows.net/t", "abfss://lake@other.dfs.core.windows.net/t", False),
        ],
    )
    def test_a_missing_bucket_is_proven_by_a_target_in_the_same_store(self, spark, path, target, proven):
        """Another store than that of the job may answer: its address is a setting, too."""
        conf = hadoop_conf(spark)
        conf.set("fs.s3a.bucket.elsewhere.endpoint", "http://localhost:1")
        params = job("/a", "/b", source={"path": path}).spec.source.params
        missing = explain_look(OSError("NoSuchBucket"), path=path)
        try:
            assert bool(doubt_of_absence(spark, params, missing, target=target)) is not proven
        finally:
            conf.unset("fs.s3a.bucket.elsewhere.endpoint")


class TestDeletionVectors:
    """The target of an Upsert has them, and readers without the feature refuse the table (fault U16)."""

    def test_the_statements_of_the_page_drop_deletion_vectors(self, spark, tmp_path):
        """All rows stay, and deleted ones stay deleted."""
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        make_orders(spark, source, ROWS, files=2)
        settings, backfill = DriverSettings(state_dir=tmp_path / "state", cores=2), job(source, target)
        run_driver(backfill, settings=settings, spark=spark)
        release(backfill, settings=settings, spark=spark)
        spark.sql(f"DELETE FROM delta.`{target}` WHERE id = 7")
        before = {*spark.sql(f"DESCRIBE DETAIL delta.`{target}`").first()["tableFeatures"]}
        section = PAGE.read_text(encoding="utf-8").split("## 4. Drop the deletion vectors")[1]
        statements = re.sub("--.*", "", section.split("```sql")[1].split("```")[0]).split(";")[:-1]

        for statement in statements:
            spark.sql(statement.replace("/lake/orders_copy", target))

        after = {*spark.sql(f"DESCRIBE DETAIL delta.`{target}`").first()["tableFeatures"]}
        assert (len(statements), before - after, after - before) == (3, {"deletionVectors"}, {"checkpointProtection"})
        count = QueryBuilder().register("t", DeltaTable(target)).execute("SELECT count(*) AS n FROM t").read_all()
        assert count["n"][0].as_py() == ROWS - 1


class TestTheClaims:
    def test_the_claims_of_other_jobs_stay(self):
        """The release of one job must not open the target of another."""
        stored = (
            '{"format":1,"jobs":{"backfill.a":{"jobId":"a","shares":true},"backfill.b":{"jobId":"b","shares":true}}}'
        )

        assert released("backfill.a", stored) == '{"format":1,"jobs":{"backfill.b":{"jobId":"b","shares":true}}}'
        assert released("backfill.b", released("backfill.a", stored)) is None
        assert released("backfill.a", None) is None
