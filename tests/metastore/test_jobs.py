"""Whole jobs between names of a real metastore: planned, resumed, and refused if a name or the metastore fails."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StructType
from support.endings import assert_ending
from support.metastore.contents import by_name
from support.tables.jobs import document, make_orders
from support.tables.other_engine import update

from backfill import Backfill, Settings
from backfill_api.load import load_backfill
from backfill_core.command_errors import NotDroppableError
from backfill_core.errors import AwayError, InvalidSpecError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.release import plan_drop, release
from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.procedures.perform import perform
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta.sink import DeltaSink

ROWS = 400
STRATEGIES = {
    "Replica": {"source": {"key": []}, "strategy": {"type": "Replica"}},
    "Snapshot": {"strategy": {"type": "Snapshot"}},
    "Arrangement": {"strategy": {"type": "Arrangement", "arrangement": {"orderBy": [{"column": "id"}]}}},
}


@pytest.fixture
def shop(spark, database, tmp_path):
    """A source of orders with a name and a folder, and a free name for a target."""

    class Shop:
        folder, source, target = str(tmp_path / "source"), f"{database}.Orders", f"{database}.`orders_2`"
        settings = Settings(state_dir=tmp_path / "state", cores=2)

        def __init__(self):
            make_orders(spark, self.folder, ROWS, files=4)
            spark.sql(f"CREATE TABLE {self.source} USING delta LOCATION '{self.folder}'")

        def document(self, **spec):
            source, target = ({"path": None, "table": name} for name in (self.source, self.target))
            spec["source"], spec["target"] = source | spec.pop("source", {}), target | spec.pop("target", {})
            return document("", "", **{"barrier": {"intervalMs": 200}, **spec})

        def run(self, observe=lambda _: None, stop=None, **spec):
            backfill = load_backfill(self.document(**spec))
            return run_driver(backfill, settings=self.settings, observe=observe, stop=stop, spark=spark)

        def job(self, **spec):
            return Backfill.of(self.document(**spec), settings=self.settings)

    return Shop()


class TestAJob:
    """Names work as folders do."""

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_job_by_names_is_planned_and_resumed_to_an_equal_receipt(self, spark, shop, strategy):
        """The promise of the product; the second attempt finds the state by the target's name."""
        spec = {**STRATEGIES[strategy], "verify": "Final"}
        planned = shop.job(**spec).plan(spark)
        assert (planned.rows, planned.target_exists) == (ROWS, False)
        stop = StopSignal()

        stopped = shop.run(lambda _: stop.ask(force=False), stop, **spec)
        update(shop.folder, "id % 10 = 3", amount="amount + 1")
        outcome = shop.run(**spec)

        assert stopped.outcome == "Stopped", stopped.message
        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal


class TestAChangedName:
    """The metastore is the users': a name may be renamed, moved or taken between two attempts."""

    def test_a_renamed_target_is_another_spec(self, spark, database, shop):
        """The new name in the spec finds the table and the state of the job in it, which has the old name."""
        spec = {"target": {"table": f"{database}.renamed"}}
        shop.run()
        spark.sql(f"ALTER TABLE {shop.target} RENAME TO {database}.renamed")

        assert_ending(shop.run(**spec), "StateMismatch")

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_source_name_that_points_to_another_table_is_refused(self, spark, tmp_path, shop, strategy):
        """The other table even has the same files: only its id tells that its changes belong to other rows."""
        spec = {**STRATEGIES[strategy], "throttle": {"rowsPerSecond": 50}}
        stop, other = StopSignal(), str(tmp_path / "other")

        def after_rows(progress):
            if progress.rows_done:
                stop.ask(force=False)

        stopped = shop.run(after_rows, stop, **spec)
        rows = by_name(spark, shop.target)[0]
        make_orders(spark, other, ROWS, files=4)
        spark.sql(f"ALTER TABLE {shop.source} SET LOCATION '{other}'")
        outcome = shop.run(**STRATEGIES[strategy])

        assert stopped.outcome == "Stopped", stopped.message
        assert 0 < rows < ROWS
        assert_ending(outcome, "SourceReplaced")
        assert "its name points to another table" in outcome.hint
        assert by_name(spark, shop.target)[0] == rows

    def test_a_target_name_whose_folder_was_removed_is_refused_with_the_remedy(self, spark, database, shop):
        """A new table there would have no rows of the old one, and readers of the name would not notice."""
        shop.run()
        folder = spark.sql(f"DESCRIBE DETAIL {shop.target}").first()["location"].removeprefix("file:")
        shutil.rmtree(folder)
        java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()

        outcome = shop.run()

        assert_ending(outcome, "TargetNotFound")
        assert f"spec.target.delta.table: '{shop.target}' has the location {folder}" in outcome.message
        remedy = f"DROP TABLE `spark_catalog`.`{database}`.`orders_2`"
        assert remedy in outcome.hint
        spark.sql(remedy)
        assert shop.run(verify="Final").receipt.equal

    def test_a_source_name_without_a_table_is_refused_with_its_location(self, spark, shop):
        """The name exists, so `no such table` would send the user to the wrong place."""
        shutil.rmtree(shop.folder)
        java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()

        outcome = shop.run()

        assert_ending(outcome, "SourceNotFound")
        assert f"spec.source.delta.table: '{shop.source}' has the location {shop.folder}" in outcome.message


class TestTheEndOfAJob:
    """A source is dropped once its target replaces it, and the job ends afterwards."""

    def test_a_job_is_closed_and_released_after_its_source_and_its_schema_left_the_metastore(
        self, spark, shop, tmp_path
    ):
        """A metastore that answers proves that the table is gone, and `drop` names the reason for which the target stays."""
        spark.sql("CREATE DATABASE leaving")
        spark.sql(f"CREATE TABLE leaving.orders USING delta LOCATION '{shop.folder}'")
        target = {"table": None, "path": str(tmp_path / "copy")}
        spec = {"source": {"table": "leaving.orders"}, "target": target, "deletionPolicy": "Drop"}
        shop.run(**spec)
        backfill, closing = load_backfill(shop.document(**spec)), shop.settings.model_copy(update={"mode": "close"})

        for statement in ("DROP TABLE leaving.orders", "DROP DATABASE leaving CASCADE"):
            spark.sql(statement)
            with pytest.raises(NotDroppableError, match="the source does not exist"):
                plan_drop(backfill, settings=shop.settings, spark=spark)
            kept = perform(backfill, settings=closing, stop=StopSignal(), spark=spark).ending
            assert (kept.procedure.end, "the source does not exist" in kept.message) == ("Refused", True)
        assert "domainMetadata" not in release(backfill, settings=shop.settings, spark=spark).features


class TestANewName:
    """The table is created before its name, so a name that the catalog refuses must be found first."""

    def test_a_name_that_the_catalog_does_not_allow_is_refused_and_writes_nothing(self, metastore, database, shop):
        """The job was complete without the name."""
        for name in ("`od d`", "größe", "`a-b`", "`a.b`"):
            outcome = shop.run(target={"table": f"{database}.{name}"})

            assert_ending(outcome, "InvalidSpec")
            assert f"spec.target.delta.table: '{database}.{name}'" in outcome.message
        assert not Path(metastore.warehouse, f"{database}.db").exists() or not list(
            Path(metastore.warehouse, f"{database}.db").iterdir()
        )

    def test_a_name_that_the_metastore_refuses_is_reported(self, spark, metastore, database, tmp_path):
        """A new table without its name would look complete; a later attempt adds the name."""
        schema = StructType().add("id", LongType())

        def sink(name):
            place = str(tmp_path / "new")
            return DeltaSink(spark, place, table=f"{database}.{name}", write_mode=APPEND, key=(), job_id="default/job")

        with pytest.raises(InvalidSpecError, match=r"spec\.target\.delta\.table: the catalog cannot name") as refused:
            sink("`od d`").prepare(schema)
        assert "Correct the name" in refused.value.hint
        metastore.stop()
        try:
            with pytest.raises(AwayError, match=r"spec\.target\.delta\.table"):
                sink("later").prepare(schema)
        finally:
            metastore.start()
        sink("later").prepare(schema)
        assert by_name(spark, f"{database}.later") == (0, ["id"])


class TestAnOutage:
    """The metastore is a service like any other."""

    def test_a_metastore_that_does_not_answer_may_answer_later(self, metastore, shop):
        """A restart of the metastore must not end a job for good."""
        metastore.stop()
        try:
            outcome = shop.run()
        finally:
            metastore.start()

        assert_ending(outcome, "Transient")
        assert shop.run(verify="Final").receipt.equal
