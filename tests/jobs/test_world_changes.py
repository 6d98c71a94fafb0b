"""Reasons that only outside changes cause: the job ends with the right one, and its target still equals its state."""

import shutil
from pathlib import Path

import pytest
from support.endings import assert_ending
from support.tables.jobs import job, make_orders, vacuum
from support.tables.oracle import foreign_files, rows_in, seals, violations
from support.tables.other_engine import delete, update

from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

ROWS = 200


class World:
    """A source that another writer changes, and successive jobs from it to one target."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.source, self.target = str(folder / "source"), str(folder / "target")

    def sql(self, *statements):
        """Run statements in which `{t}` is the source."""
        for statement in statements:
            self.spark.sql(statement.format(t=f"delta.`{self.source}`"))

    def run(self, when=lambda _: False, meanwhile=lambda: None, **spec):
        """Run a job; `meanwhile` runs once, when `when` accepts an observed progress, before the job continues."""
        done = []

        def observe(progress):
            if not done and when(progress):
                done.append(meanwhile())

        self.stop = StopSignal()
        settings = DriverSettings(state_dir=self.folder / "state", cores=2)
        backfill = job(self.source, self.target, barrier={"intervalMs": 200}, **spec)
        self.ended = run_driver(backfill, settings=settings, observe=observe, spark=self.spark, stop=self.stop)
        return self.ended.reason, self.ended.exit_code, self.ended.message

    def clean_log(self):
        """Remove the commits before the newest, as Delta does after a month where there is a checkpoint."""
        log = Path(self.source, "_delta_log")
        assert list(log.glob("*.checkpoint*.parquet")), "there is none: no reader could read the table"
        for commit in sorted(log.glob("0*.json"))[:-1]:
            commit.unlink()

    def harm(self, consumed=0):
        """Count rows of the target that the source lacks, and rows that only its state counts.

        The job has consumed `consumed`.
        """
        last = seals(self.target)[-1]
        assert (last.state["finished"], last.state["snapshot"]["consumed"]) == (False, consumed)
        return foreign_files(self.target, str(self.folder / "kept")), last.state["rowsDone"] - rows_in(self.target)

    def keep(self):
        """Copy the source: its rows may be gone later."""
        shutil.copytree(self.source, self.folder / "kept")


def at_once(progress):
    """The version is pinned by now. The job cannot be complete, because it polls the source again for that."""
    return True


def caught_up(progress):
    return progress.caught_up


@pytest.fixture
def world(spark, tmp_path):
    made = World(spark, tmp_path)
    make_orders(spark, made.source, ROWS, files=2, **{"delta.checkpointInterval": "2"})
    made.keep()
    return made


@pytest.fixture
def plain(spark, tmp_path):
    """The same without a change feed."""
    made = World(spark, tmp_path)
    spark.range(0, ROWS, 1, 2).selectExpr("id", "id * 2 AS twice").write.format("delta").save(made.source)
    made.keep()
    return made


class TestTheLayout:
    """The layout of a source may change while its rows are copied."""

    def test_other_partition_columns_end_the_job(self, spark, tmp_path):
        """Rows that the overwrite deleted would stay in the target: the filter's column is null in the change feed (fault B3)."""
        world = World(spark, tmp_path)
        rows = spark.range(40).selectExpr("id", "concat('a', id % 2) AS a", "concat('b', id % 4) AS b")
        writer = rows.write.format("delta").option("delta.enableChangeDataFeed", "true")
        writer.partitionBy("b").save(world.source)
        world.keep()

        def meanwhile():
            half = rows.where("id < 20").write.format("delta").mode("overwrite").option("overwriteSchema", "true")
            half.partitionBy("a").save(world.source)

        reason, code, message = world.run(at_once, meanwhile, transform={"where": "a = 'a1'"})

        assert (reason, code) == ("SchemaChanged", 45)
        assert "the partition columns became ['a'] in version 1 of" in message


class TestTheChangeFeed:
    """Missing changes cannot be guessed (R-SNAP-47)."""

    def test_a_source_without_a_change_feed_ends_the_job_at_an_update(self, plain):
        """Appends can be read without a change feed, updates cannot."""
        reason, code, message = plain.run(at_once, lambda: update(plain.source, "id < 9", twice="0"))

        assert (reason, code, plain.harm()) == ("ChangeFeedMissing", 43, (0, 0))
        assert_ending(plain.ended, "ChangeFeedMissing")
        assert "version 1 " in message

    def test_a_vacuumed_change_feed_ends_the_job(self, spark, world):
        """The commit still exists, but its rows do not."""

        def meanwhile():
            update(world.source, "id < 9", amount="amount + 1")
            vacuum(spark, world.source)

        reason, code, _ = world.run(caught_up, meanwhile, after="Follow")

        assert (reason, code, world.harm()) == ("ChangeFeedExpired", 42, (0, 0))

    def test_a_change_feed_without_its_commits_ends_the_job(self, world):
        """The message names the first missing version."""

        def meanwhile():
            world.sql("UPDATE {t} SET amount = amount + 1 WHERE id < 9", "DELETE FROM {t} WHERE id = 100")
            world.clean_log()

        reason, code, message = world.run(at_once, meanwhile)

        assert (reason, code, world.harm()) == ("ChangeFeedExpired", 42, (0, 0))
        assert "version 1 " in message


class TestAnotherTable:
    """A job belongs to the table that it pinned, not to its path."""

    def test_a_restored_table_is_another_one(self, world):
        """Its change feed does not contain the changes that the restore undid."""

        def meanwhile():
            delete(world.source, "id < 9")
            world.sql("RESTORE TABLE {t} TO VERSION AS OF 0")

        assert world.run(at_once, meanwhile)[:2] == ("SourceReplaced", 44)
        assert_ending(world.ended, "SourceReplaced")
        assert world.harm() == (0, 0)


class TestTheSchema:
    """The target has the columns of the pinned version. Only an addition leaves these unchanged."""

    @pytest.mark.parametrize("policy", ["Fail", "Ignore"])
    def test_a_column_that_became_another_one_is_refused(self, spark, world, policy):
        """A guess at the new meaning would fill the column with wrong values."""

        def meanwhile():
            rows = spark.read.format("delta").load(world.source).selectExpr("* EXCEPT (amount)", "note AS amount")
            rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(world.source)

        reason, code, message = world.run(at_once, meanwhile, source={"schemaChange": policy})

        assert (reason, code, world.harm()) == ("SchemaChanged", 45, (0, 0))
        assert "'amount' changed its type: double became string" in message

    def test_a_new_column_is_refused_unless_the_spec_ignores_it(self, world):
        """The hint names the setting with which a job continues.

        The target then has every row without the new column.
        """

        def meanwhile():
            world.sql("ALTER TABLE {t} ADD COLUMN extra INT", "UPDATE {t} SET extra = 1, amount = 5 WHERE id < 9")

        reason, code, message = world.run(at_once, meanwhile)
        assert (reason, code, world.harm()) == ("SchemaChanged", 45, (0, 0))
        assert "'extra' was added" in message

        assert world.run(source={"schemaChange": "Ignore"})[:2] == ("Complete", 0)
        last = seals(world.target)[-1]
        assert violations(world.source, world.target, last, "SELECT * EXCEPT (extra) FROM source") == []


class TestAnAppendTarget:
    """It cannot remove a row."""

    def test_an_append_target_refuses_an_update_of_the_source(self, world):
        """An update that is appended would leave both rows."""

        def meanwhile():
            update(world.source, "id = 3", amount="amount + 1")

        reason, code, message = world.run(at_once, meanwhile, target={"writeMode": "Append"})

        assert (reason, code, world.harm()) == ("SourceNotAppendOnly", 46, (0, 0))
        assert_ending(world.ended, "SourceNotAppendOnly")
        assert "version 1 " in message


class TestThePinnedVersion:
    """The job reads all its rows, or ends with the reason (R-SNAP-47)."""

    def test_a_pinned_version_without_its_log_is_refused_before_the_first_write(self, world):
        """The user should lose no time on a copy that cannot end."""
        world.sql("DELETE FROM {t} WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
        world.clean_log()

        reason, code, message = world.run(source={"version": 0})

        assert (reason, code, Path(world.target).exists()) == ("SnapshotExpired", 41, False)
        assert "version 0 " in message

    def test_a_pinned_version_that_was_vacuumed_meanwhile_ends_the_job(self, spark, world):
        """It was complete when the job began."""
        stopped = world.run(at_once, lambda: world.stop.ask(force=True), throttle={"rowsPerSecond": 0})
        update(world.source, "id < 150", amount="amount + 1")
        vacuum(spark, world.source)

        assert stopped[0] == "Stopped"
        assert world.run()[:2] == ("SnapshotExpired", 41)
        assert world.harm() == (0, 0)


class TestASourceThatCannotBeRead:
    """The error names the source, and nothing is written."""

    def test_a_source_that_is_no_delta_table_any_more_is_named(self, world):
        """A missing source must not leave an empty target."""
        shutil.rmtree(Path(world.source, "_delta_log"))

        assert world.run()[:2] == ("SourceNotFound", 22)
        assert not Path(world.target).exists()

    def test_a_source_that_vanishes_while_it_is_followed_is_named(self, world):
        """The copy stays unchanged after the last commit."""
        assert world.run(caught_up, lambda: shutil.rmtree(world.source), after="Follow")[:2] == ("SourceNotFound", 22)
        assert world.harm() == (0, 0)
