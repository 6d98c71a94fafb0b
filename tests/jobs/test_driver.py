"""Whole jobs in this process: every mode to its receipt, restarts, and bad input that writes nothing."""

import re
import threading
from pathlib import Path

import pytest
from support.endings import assert_ending
from support.tables.jobs import job, make_orders
from support.tables.oracle import ALL, rows_in, seals, violations
from support.tables.other_engine import delete, update

from backfill_core.errors import EXIT_COMPLETE
from backfill_spark.control.local_registry import control_file
from backfill_spark.delta.location import target_location
from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.rows.write_modes import UPSERT
from backfill_spark.settings import DriverSettings
from backfill_spark.sinks.delta.sink import DeltaSink

ROWS = 4000


@pytest.fixture
def world(spark, tmp_path):
    """A source of orders, a free place for a target, and a way to run jobs between them."""

    class World:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)

        def __init__(self):
            make_orders(spark, self.source, ROWS, files=4)

        def run(self, observe=lambda _: None, stop=None, **spec):
            return run_driver(
                job(self.source, self.target, **{"barrier": {"intervalMs": 200}, **spec}),
                settings=self.settings, observe=observe, spark=spark, stop=stop,
            )  # fmt: skip

        def change(self):
            update(self.source, "id % 10 = 3", amount="amount + 1")
            delete(self.source, "id % 10 = 4")
            update(self.source, "id % 100 = 5", id="id + 1000000")

        def read(self):
            return spark.read.format("delta").load(self.target)

        def wrong(self, view=ALL):
            return violations(self.source, self.target, seals(self.target)[-1], view)

        @property
        def untouched(self):
            return not Path(self.target).exists()

    return World()


class TestAWholeJob:
    """A job runs from an empty target to a finished state with a receipt."""

    def test_an_upsert_ends_equal_to_a_source_that_changes_meanwhile(self, spark, world):
        """This is the promise of the product."""
        changed = threading.Event()

        def once(progress):
            # The first progress after the fence: the version is pinned by then.
            if not changed.is_set():
                changed.set()
                world.change()

        outcome = world.run(once, verify="Final")

        assert (outcome.exit_code, outcome.reason) == (EXIT_COMPLETE, "Complete")
        assert outcome.receipt.equal
        assert outcome.receipt.rows == rows_in(world.source) == ROWS * 9 // 10
        assert seals(world.target)[-1].state["finished"]
        assert world.wrong() == []

    def test_an_append_copies_the_rows_that_pass_the_filter(self, world):
        """The target is the query of the spec, not the table."""
        spec = {"transform": {"select": ["id", "amount * 2 AS twice"], "where": "status = 'new'"}}
        outcome = world.run(target={"writeMode": "Append"}, verify="Final", **spec)

        assert outcome.outcome == "Complete"
        assert outcome.receipt.equal
        assert world.wrong("SELECT id, amount * 2 AS twice FROM source WHERE status = 'new'") == []

    def test_a_changelog_replays_to_the_source(self, world):
        """A reader of all changes must arrive at the source."""
        changed = threading.Event()

        def once(progress):
            if not changed.is_set():
                changed.set()
                world.change()

        outcome = world.run(once, target={"writeMode": "Changelog"}, verify="Final")

        assert outcome.outcome == "Complete"
        assert outcome.receipt.equal
        assert {row["_op"] for row in world.read().select("_op").distinct().collect()} >= {"insert", "delete"}

    def test_an_empty_source_is_complete_at_once(self, spark, world, tmp_path):
        """An empty table is a job like any other."""
        world.source = str(tmp_path / "empty")
        make_orders(spark, world.source, 0, files=1)

        assert world.run(verify="Final").receipt.rows == 0


class TestStartingAgain:
    """The target's own state decides."""

    def test_a_finished_job_completes_at_once_and_writes_nothing(self, world):
        """A scheduler may start it every night."""
        assert world.run().reason == "Complete"
        before = seals(world.target)[-1].version

        assert (world.run().exit_code, world.run().reason) == (EXIT_COMPLETE, "AlreadyComplete")
        assert seals(world.target)[-1].version == before

    def test_a_finished_job_refuses_a_receipt_that_it_can_no_longer_take(self, world):
        """Exit code 0 would mean that both sides were compared (fault U2)."""
        world.run()
        before = seals(world.target)[-1].version

        outcome = world.run(verify="Final")

        assert (outcome.exit_code, outcome.reason) == (20, "InvalidSpec")
        assert "spec.verify is Final" in outcome.message
        assert seals(world.target)[-1].version == before

    def test_another_spec_is_refused(self, world):
        """One target must not contain the rows of two queries."""
        world.run()
        before = seals(world.target)[-1].version
        outcome = world.run(transform={"where": "id > 5"})

        assert_ending(outcome, "StateMismatch")
        assert "spec.transform.where changed" in outcome.message
        # A mistake in the SQL is reported first, because such a spec can never run with any state.
        assert world.run(transform={"where": "idd > 5"}).reason == "InvalidTransform"
        assert seals(world.target)[-1].version == before

    @pytest.mark.always
    def test_a_planted_difference_fails_the_next_receipt_and_is_named(self, spark, world):
        """A stopped job whose target was damaged must not end successfully."""
        stop = StopSignal()

        def stop_once(progress):
            if progress.table_version is not None and progress.table_version >= 0:
                stop.ask(force=True)

        world.run(stop_once, stop, throttle={"rowsPerSecond": 0})
        spark.sql(f"INSERT INTO delta.`{world.target}` VALUES (77777777, 1, 2.0, 'x', 'new')")
        outcome = world.run(verify="Final")

        assert_ending(outcome, "VerificationFailed")
        assert len(outcome.receipt.mismatches) == 1
        assert f"vnode {outcome.receipt.mismatches[0].vnode} " in outcome.message


BAD_INPUT = {
    "a source that is not there": ({"source": {"path": "/nowhere/at/all"}}, "SourceNotFound", 22),
    "a key that is not there": ({"source": {"key": ["nope"]}}, "KeyInvalid", 23),
    "a key that is doubled": ({"source": {"key": ["customer"]}}, "KeyNotUnique", 23),
    "a key that the transform drops": ({"transform": {"select": ["customer"]}}, "KeyInvalid", 23),
    "an unknown column": ({"transform": {"select": ["id", "nope"]}}, "InvalidTransform", 21),
    "an aggregate": ({"transform": {"select": ["id", "sum(amount) AS s"]}}, "InvalidTransform", 21),
    "a function of chance": ({"transform": {"select": ["id", "rand() AS r"]}}, "InvalidTransform", 21),
    "a version that is not there": ({"source": {"version": 99}}, "SnapshotExpired", 41),
    "a partition column that is not there": ({"target": {"partitionBy": ["nope"]}}, "TargetSchemaMismatch", 28),
}


class TestBadInput:
    """Each mistake has a separate reason and exit code, and nothing is written."""

    @pytest.mark.parametrize("name", BAD_INPUT)
    def test_bad_input_is_refused_by_name(self, world, name):
        """A user corrects a spec by the reason and the hint."""
        spec, reason, code = BAD_INPUT[name]
        outcome = world.run(**spec)

        assert (outcome.reason, outcome.exit_code) == (reason, code)
        assert outcome.hint
        assert world.untouched

    def test_null_keys_are_refused(self, spark, world):
        """An Upsert cannot match them later."""
        update(world.source, "id = 7", id="null")

        assert_ending(world.run(), "KeyInvalid")
        assert world.untouched

    def test_a_state_folder_that_takes_no_address_is_refused(self, world):
        """Commands would not find the driver. Its control server must end, too."""
        blocked = control_file(world.settings.state_dir, "default/job").with_suffix(".new")
        blocked.mkdir(parents=True)
        before = {thread.ident for thread in threading.enumerate()}

        outcome = world.run()
        servers = [
            thread for thread in threading.enumerate() if thread.name == "control" and thread.ident not in before
        ]
        for leftover in servers:
            leftover.join(10)

        assert_ending(outcome, "InvalidSetting")
        assert "BACKFILL_STATE_DIR" in outcome.message
        assert not any(server.is_alive() for server in servers)
        blocked.rmdir()
        assert world.run().reason == "Complete"

    def test_a_source_that_is_its_own_target_is_refused(self, spark, world):
        """The job would read the rows that it writes."""
        world.target = world.source

        assert_ending(world.run(), "TargetIsSource")
        assert rows_in(world.source) == ROWS

    def test_a_target_with_foreign_rows_is_refused(self, spark, world):
        """Foreign rows would be mixed with the copy."""
        spark.range(3).write.format("delta").save(world.target)
        outcome = world.run(transform={"select": ["id"]})

        assert (outcome.reason, outcome.exit_code) == ("TargetNotEmpty", 24)
        assert world.read().count() == 3

    def test_a_target_whose_commits_are_gone_is_refused(self, world):
        """Another attempt would fail the same way, because its files cannot be interpreted."""
        log = Path(world.target, "_delta_log")
        log.mkdir(parents=True)
        (log / f"{7:020}.crc").write_text("{}")

        assert world.run().reason == "TargetNotEmpty"


class TestATargetInTheCatalog:
    """The target is given by name and created by name."""

    @pytest.fixture
    def name(self, spark, tmp_path):
        """A separate name for each test: a table with a path outlives its name."""
        name = re.sub(r"\W", "_", tmp_path.name)
        yield name
        spark.sql(f"DROP TABLE IF EXISTS {name}")

    def run(self, world, name):
        return world.run(target={"path": None, "table": name}, verify="Final")

    def test_a_missing_table_is_made(self, spark, world, name):
        """A name works like a path."""
        assert self.run(world, name).reason == "Complete"
        assert spark.table(name).count() == ROWS
        assert self.run(world, name).reason == "AlreadyComplete"

    def test_a_table_without_its_name_gets_it(self, spark, world, name):
        """A driver that is killed between the table's first commit and the catalog leaves such a table."""
        folder = target_location(spark, None, name)
        schema = spark.read.format("delta").load(world.source).schema
        DeltaSink(spark, folder, write_mode=UPSERT, key=("id",), job_id="default/job").prepare(schema)
        assert not spark.catalog.tableExists(name)

        assert self.run(world, name).reason == "Complete"
        assert spark.table(name).count() == ROWS

    @pytest.mark.parametrize(
        ("name", "missing"),
        [
            ("nowhere.orders", "schema nowhere does not exist"),
            ("lake.shop.orders", "catalog lake does not exist"),
            ("`or ders`", "'`or ders`': the catalog creates no table with the name 'or ders'"),
        ],
    )
    def test_without_a_place_is_refused(self, world, name, missing):
        """A table at a guessed place would not be found again; the part of the name that does not exist is named (fault K9)."""
        outcome = self.run(world, name)

        assert_ending(outcome, "InvalidSpec")
        assert f"spec.target.delta.table: {missing}" in outcome.message

    def test_with_the_catalog_in_its_name_is_made(self, spark, world, name):
        """It is the same table as without."""
        outcome = self.run(world, f"spark_catalog.default.{name}")

        assert (outcome.reason, outcome.message) == ("Complete", "")
        assert spark.table(name).count() == ROWS
