"""The flip of a view on a real metastore: the view selects from the other folder, and undo restores its definition."""

import pytest
from support.metastore.contents import by_name, stored

from backfill_api.spec.switch import FlipSpec
from backfill_core.errors import InvalidSpecError
from backfill_spark.flips import discover


@pytest.fixture
def shop(spark, database, tmp_path):
    """A view with a comment and a property, the table of 10 rows that it selects, and a target of 11 rows."""

    class Shop:
        name = f"{database}.seen"
        source, target = str(tmp_path / "old"), str(tmp_path / "new `x`")

        def __init__(self):
            spark.sql(f"CREATE TABLE {database}.orders (id BIGINT) USING delta LOCATION '{self.source}'")
            spark.sql(f"INSERT INTO {database}.orders SELECT id FROM range(10)")
            spark.range(11).selectExpr("id", "'x' AS note").write.format("delta").save(self.target)
            self.define(f"SELECT * FROM delta.`{self.source}`")

        def define(self, text, columns="(id COMMENT 'the key')"):
            spark.sql(f"DROP VIEW IF EXISTS {self.name}")
            spark.sql(f"CREATE VIEW {self.name} {columns} COMMENT 'all' TBLPROPERTIES ('team' = 'sales') AS {text}")

        def flip(self, name=None):
            return discover()["View"].open(spark, FlipSpec(type="View", name=name or self.name))

        @property
        def facts(self):
            return stored(spark, database, "seen")

    return Shop()


class TestAFlip:
    """One statement changes from which folder a view selects."""

    def test_new_queries_see_the_target_and_undo_restores_all_that_was_stored(self, spark, database, shop):
        """By folder and by a table's name, also relative to the database that was current: undo restores the user's text."""
        spark.sql(f"USE {database}")
        try:
            for text in (
                f"SELECT * FROM delta.`{shop.source}`",
                f"select * from {database}.orders",
                "SELECT * FROM orders",
            ):
                shop.define(text)
                spark.sql("USE default")
                flip, before = shop.flip(), shop.facts
                assert flip.points_to() == shop.source

                previous = flip.flip(shop.target)
                flip.flip(shop.target)

                assert by_name(spark, shop.name) == (11, ["id", "note"])
                assert flip.points_to() == shop.target
                after = shop.facts
                assert (after["Comment"], after["Owner"]) == (before["Comment"], before["Owner"])
                assert "team=sales" in after["Table Properties"]

                flip.undo(previous)
                flip.undo(previous)

                assert shop.facts == before
                assert by_name(spark, shop.name) == (10, ["id"])
                spark.sql(f"USE {database}")
        finally:
            spark.sql("USE default")

    def test_a_dry_run_shows_the_statement_and_the_text_that_undo_restores(self, shop):
        """A user decides by these lines whether to switch; they change nothing."""
        before = shop.facts

        lines = shop.flip().describe(shop.source, shop.target)

        assert lines[0].endswith("AS SELECT * FROM `delta`.`" + shop.target.replace("`", "``") + "`")
        assert lines[1].endswith(f"AS SELECT * FROM delta.`{shop.source}`")
        assert lines[2:] == ["new columns: note string"]
        assert shop.facts == before


class TestBadInput:
    """A view that selects anything else is refused, and nothing changes."""

    def test_more_than_a_plain_select_is_refused(self, spark, database, shop):
        """The flip would drop the filter, the columns or the version that the view's author chose."""
        table = f"{database}.orders"
        spark.sql(f"CREATE VIEW {database}.below AS SELECT * FROM {table}")
        texts = (
            *(f"SELECT * FROM {table} WHERE id > 3", f"SELECT id FROM {table}", f"SELECT *, 1 AS one FROM {table}"),
            *(
                f"SELECT DISTINCT * FROM {table}",
                f"SELECT * FROM {table} LIMIT 3",
                f"SELECT * FROM {table} VERSION AS OF 1",
            ),
            *(f"SELECT a.* FROM {table} a", f"SELECT * FROM {table} UNION ALL SELECT * FROM {table}", "VALUES (1)"),
            f"SELECT * FROM {database}.below",
        )
        for text in texts:
            shop.define(text, columns="")
            before = shop.facts
            with pytest.raises(InvalidSpecError, match=r"spec\.switch\.flip\.name: the view") as refused:
                shop.flip().flip(shop.target)
            assert "SELECT * FROM" in refused.value.hint
            assert shop.facts == before
        shop.define(f"SELECT * FROM {table}", columns="(number)")
        with pytest.raises(InvalidSpecError, match="more than"):
            shop.flip().points_to()

    def test_a_table_is_refused(self, database, shop):
        """The other flip changes it."""
        with pytest.raises(InvalidSpecError, match="is a table") as refused:
            shop.flip(f"{database}.orders").points_to()

        assert "HiveTable" in refused.value.hint
