"""Whole jobs between names of a real metastore: planned, resumed, and refused if a name or the metastore fails."""

import shutil

import pytest
from support.endings import assert_ending
from support.tables.jobs import document, make_orders
from support.tables.other_engine import update

from backfill import Backfill, Settings
from backfill_api.load import load_backfill
from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.stop_signal import StopSignal

ROWS = 400
STRATEGIES = {
    "Replica": {"source": {"key": []}, "strategy": {"type": "Replica"}},
    "Snapshot": {"strategy": {"type": "Snapshot"}},
    "Arrangement": {"strategy": {"type": "Arrangement", "arrangement": {"orderBy": [{"column": "id"}]}}},
}


@pytest.fixture
def shop(spark, database, tmp_path):
    """A source of orders with a name and a folder of its own, and a free name for a target."""

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

    def test_a_source_name_without_a_table_is_refused_with_its_location(self, spark, shop):
        """The name exists, so `no such table` would send the user to the wrong place."""
        shutil.rmtree(shop.folder)
        java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()

        outcome = shop.run()

        assert_ending(outcome, "SourceNotFound")
        assert f"spec.source.delta.table: '{shop.source}' has the location {shop.folder}" in outcome.message


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
