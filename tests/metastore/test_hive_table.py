"""The flip of a table's name on a real metastore: readers find the other folder, and undo restores all that was stored."""

import pytest
from support.metastore.contents import by_name, stored

from backfill_api.spec.switch import FlipSpec
from backfill_core.errors import FlipFailedError, InvalidSpecError
from backfill_spark.flips import discover
from backfill_spark.ports.flip import Previous

BYPASS = "spark.databricks.delta.alterLocation.bypassSchemaCheck"
RE_READ = "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"


@pytest.fixture
def shop(spark, database, tmp_path):
    """A table of 10 rows with a name, and one of 11 rows and a further column at a path."""

    class Shop:
        name = f"{database}.orders"
        # A comma, a quote, a blank and a letter beyond ASCII: a location is any folder.
        source, target = str(tmp_path / "old"), str(tmp_path / "neu, 'à' 100%")

        def __init__(self):
            spark.sql(
                f"CREATE TABLE {self.name} (id BIGINT, amount BIGINT COMMENT 'in cents') USING delta COMMENT 'all orders' "
                f"TBLPROPERTIES ('team.name' = 'sales') LOCATION '{self.source}'"
            )
            spark.sql(f"INSERT INTO {self.name} SELECT id, id FROM range(10)")
            spark.range(11).selectExpr("id", "id AS amount", "'x' AS note").write.format("delta").save(self.target)

        def flip(self, name=None):
            return discover()["HiveTable"].open(spark, FlipSpec(type="HiveTable", name=name or self.name))

        @property
        def facts(self):
            return stored(spark, database, "orders")

    return Shop()


class TestAFlip:
    """One statement changes where a name points."""

    def test_new_queries_see_the_target_and_undo_restores_all_that_was_stored(self, spark, shop):
        """Comment, owner and properties of the name belong to users; a kill between two calls makes each of them run twice."""
        other = spark.newSession()
        opened, cached = other.table(shop.name), other.table(shop.name).cache()
        assert (opened.count(), cached.count()) == (10, 10)
        flip, before = shop.flip(), shop.facts
        assert flip.points_to() == shop.source

        previous = flip.flip(shop.target)
        again = flip.flip(shop.target)

        assert by_name(spark, shop.name) == (11, ["id", "amount", "note"])
        assert other.table(shop.name).count() == 11  # the cache holds a folder's rows, not a name's
        assert (opened.count(), cached.count()) == (10, 10)
        assert flip.points_to() == shop.target
        assert again.definition["location"].endswith(shop.target)
        assert spark.conf.get(BYPASS) == "false"
        changed = {fact for fact, value in shop.facts.items() if before[fact] != value}
        assert changed <= {"Location", "Storage Properties"}

        flip.undo(previous)
        flip.undo(previous)

        assert by_name(spark, shop.name) == (10, ["id", "amount"])
        after = shop.facts
        assert {fact for fact in before if after[fact] != before[fact]} <= {"Location"}
        assert after["Storage Properties"] == before["Storage Properties"]

    def test_a_dry_run_shows_both_statements_and_the_columns(self, spark, shop):
        """Delta refuses another schema by default, so the flip's allowance must not hide it."""
        spark.sql(f"ALTER TABLE delta.`{shop.source}` ADD COLUMN old_note STRING")

        lines = shop.flip().describe(shop.source, shop.target)

        assert lines[0].startswith("ALTER TABLE `spark_catalog`.")
        assert lines[0].endswith("100%'")
        assert lines[1].startswith("undo: ALTER TABLE")
        assert lines[2:] == ["new columns: note string", "columns that disappear: old_note string"]
        assert shop.flip().describe(shop.source, f"{shop.target}-none")[2:] == [
            "columns: unknown until both tables exist"
        ]
        assert by_name(spark, shop.name)[0] == 10

    def test_a_stream_that_reads_the_old_table_stays_there_and_does_not_start_again(self, spark, shop, tmp_path):
        """Its checkpoint names the table by its id: the page of catalogs says so."""

        def stream(checkpoint):
            writer = spark.readStream.table(shop.name).select("id").writeStream.format("delta")
            return writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(processingTime="0 seconds")

        running = stream("running").start(str(tmp_path / "copy"))
        try:
            running.processAllAvailable()
            shop.flip().flip(shop.target)
            spark.sql(f"INSERT INTO delta.`{shop.source}` VALUES (10, 10)")
            spark.sql(f"INSERT INTO delta.`{shop.target}` VALUES (99, 99, 'y')")
            running.processAllAvailable()
        finally:
            running.stop()
        ids = {row.id for row in spark.read.format("delta").load(str(tmp_path / "copy")).collect()}

        assert ids == set(range(11))
        with pytest.raises(Exception, match=RE_READ):
            stream("running").trigger(availableNow=True).start(str(tmp_path / "copy")).awaitTermination()


class TestBadInput:
    """A name that no flip can change is refused by its field, and nothing changes."""

    def test_refused_names(self, spark, database, shop, tmp_path):
        """Each message names the field and what to do."""
        spark.sql(f"CREATE VIEW {database}.seen AS SELECT 1 AS id")
        spark.sql(f"CREATE TABLE {database}.files (id INT) USING parquet LOCATION '{tmp_path / 'files'}'")
        refused = {
            f"{database}.seen": ("is a view", "View"),
            f"{database}.files": ("is a table of format parquet", "Delta"),
            f"{database}.missing": ("there is no table or view", "Correct"),
            "nowhere.orders": ("schema nowhere does not exist", "Make it"),
            "lake.shop.orders": ("is in catalog lake", "Command"),
            "a..b": ("is not the name of a table", "backticks"),
        }
        for name, (message, hint) in refused.items():
            with pytest.raises(InvalidSpecError) as error:
                shop.flip(name).points_to()
            assert error.value.message.startswith("spec.switch.flip.name: ")
            assert message in error.value.message
            assert hint in error.value.hint

    def test_a_folder_without_a_table_is_refused_and_the_name_stays(self, spark, shop, tmp_path):
        """A name that points nowhere would stop all readers."""
        before = shop.facts

        with pytest.raises(FlipFailedError, match="not a Delta table"):
            shop.flip().flip(str(tmp_path / "empty"))
        with pytest.raises(FlipFailedError):
            shop.flip().undo(Previous("HiveTable", {"location": str(tmp_path / "empty")}))

        assert shop.facts == before
        assert by_name(spark, shop.name)[0] == 10

    def test_a_name_of_upper_case_and_a_current_database_are_the_same_table(self, spark, database, shop):
        """Hive stores names in lower case."""
        spark.sql(f"USE {database}")
        try:
            for name in ("ORDERS", "`Orders`", f"spark_catalog.{database}.orders"):
                assert shop.flip(name).points_to() == shop.source
        finally:
            spark.sql("USE default")
