"""A whole switch-over of a name on a real metastore: the source of the job has the name that the flip changes."""

import pytest
from support.endings import assert_ending
from support.metastore.contents import by_name
from support.tables.jobs import document, make_orders

from backfill import Backfill, Settings
from backfill.errors import SwitchBlockedError
from backfill_api.load import load_backfill
from backfill_core.source_fence.table_protocol import FENCED, SWITCH, SWITCHED_FROM
from backfill_spark.delta.log import head_actions
from backfill_spark.driver.attempt import run_driver

ROWS = 100


@pytest.fixture
def shop(spark, database, tmp_path):
    """Orders with a name, and a job that moves them to another name."""

    class Shop:
        folder, name, copy = str(tmp_path / "orders"), f"{database}.orders", f"{database}.orders_v2"
        settings = Settings(state_dir=tmp_path / "state", cores=2)

        def __init__(self):
            make_orders(spark, self.folder, ROWS, files=2)
            spark.sql(f"CREATE TABLE {self.name} USING delta LOCATION '{self.folder}'")
            switch = {"flip": {"type": "HiveTable", "name": self.name}}
            tables = {"source": {"path": None, "table": self.name}, "target": {"path": None, "table": self.copy}}
            self.document = document("", "", after="Follow", switch=switch, barrier={"intervalMs": 200}, **tables)
            self.job = Backfill.of(self.document, settings=self.settings)

        @property
        def points_to(self):
            return spark.sql(f"DESCRIBE DETAIL {self.name}").first()["location"].removeprefix("file:")

        def properties(self, folder):
            return head_actions(spark, folder).metadata["configuration"].keys()

        def insert(self, order):
            """Write an order as users do: by the name, in a separate session."""
            session = spark.newSession()
            row = session.table(self.name).limit(1).selectExpr(f"{order}L AS id", "* EXCEPT (id)")
            row.write.format("delta").mode("append").saveAsTable(self.name)

        def run(self):
            return run_driver(load_backfill(self.document), settings=self.settings, spark=spark)

    return Shop()


class TestASourceByItsName:
    """After the flip the name is the target's, and the commands still find the source."""

    def test_is_switched_over_and_back_and_for_good(self, spark, shop):
        """Each command is a separate process that reads only the spec."""
        done = shop.job.switch(spark)
        target = shop.points_to
        assert (done.end, done.source, done.target) == ("Switched", shop.folder, target)
        assert target != shop.folder
        assert shop.job.switch(spark).end == "Switched"
        with pytest.raises(Exception, match=FENCED):
            spark.sql(f"DELETE FROM delta.`{shop.folder}` WHERE id = 1")
        assert_ending(shop.run(), "TargetIsSource")

        undone = shop.job.undo_switch(spark)
        assert (undone.end, undone.source, shop.points_to) == ("Undone", shop.folder, shop.folder)
        assert not {FENCED, SWITCH, SWITCHED_FROM} & (shop.properties(shop.folder) | shop.properties(target))
        with pytest.raises(SwitchBlockedError, match="there is no switch-over to complete"):
            shop.job.complete_switch(spark)
        shop.insert(1000)

        assert (shop.job.switch(spark).end, shop.points_to) == ("Switched", target)
        shop.insert(1001)
        assert by_name(spark, shop.name)[0] == by_name(spark, shop.copy)[0] == ROWS + 2
        with pytest.raises(SwitchBlockedError, match="other writers changed the target"):
            shop.job.undo_switch(spark)
        completed = shop.job.complete_switch(spark)

        assert (completed.end, completed.source, shop.points_to) == ("Completed", shop.folder, target)
        assert not {FENCED, SWITCH} & shop.properties(shop.folder)
        assert spark.read.format("delta").load(shop.folder).count() == ROWS + 1
        with pytest.raises(SwitchBlockedError, match="there is no switch-over to undo"):
            shop.job.undo_switch(spark)
