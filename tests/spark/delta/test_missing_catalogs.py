"""Names of tables whose catalog or schema does not exist are refused by the field, with the missing part (fault K9)."""

import pytest
from support.endings import assert_ending

from backfill_core.errors import InvalidSpecError, SourceNotFoundError, TargetNotFoundError
from backfill_spark.delta.location import location, target_location

JDBC = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
DERBY = {
    "spark.sql.catalog.lake": JDBC,
    "spark.sql.catalog.lake.url": "jdbc:derby:memory:lake;create=true",
    "spark.sql.catalog.lake.driver": "org.apache.derby.jdbc.EmbeddedDriver",
}
"""A catalog beside Spark's own: a database in memory, with the schema APP."""

BROKEN = {
    "spark.sql.catalog.typo": "no.such.Catalog",
    "spark.sql.catalog.text": "java.lang.String",
    "spark.sql.catalog.nodriver": JDBC,
    "spark.sql.catalog.nodriver.url": "jdbc:db2:x",
    "spark.sql.catalog.nodriver.driver": "no.such.Driver",
}
MISSING = {
    "nowhere.orders": (
        "schema nowhere does not exist in catalog spark_catalog",
        "CREATE SCHEMA spark_catalog.`nowhere`",
    ),
    "spark_catalog.nowhere.orders": ("schema nowhere does not exist in catalog spark_catalog", "CREATE SCHEMA"),
    "SPARK_CATALOG.nowhere.orders": ("schema nowhere does not exist in catalog SPARK_CATALOG", "CREATE SCHEMA"),
    "`od d`.orders": ("schema od d does not exist in catalog spark_catalog", "CREATE SCHEMA spark_catalog.`od d`"),
    "lake.nowhere.orders": ("schema nowhere does not exist in catalog lake", "CREATE SCHEMA lake.`nowhere`"),
    "sea.shop.orders": ("catalog sea does not exist", "spark.sql.catalog.sea"),
    "typo.shop.orders": (
        "catalog typo cannot be loaded: SparkException: Cannot find catalog plugin class",
        "spark.sql.catalog.typo",
    ),
    "text.shop.orders": (
        "catalog text cannot be loaded: SparkException: Plugin class for catalog",
        "spark.sql.catalog.text",
    ),
    "nodriver.shop.orders": (
        "catalog nodriver cannot be loaded: SparkException: Cannot find catalog plugin class",
        "add its jars",
    ),
    "a b": ("'a b' is not the name of a table", "backticks"),
    "a..b": ("'a..b' is not the name of a table", "backticks"),
    "seen": ("'seen' is a view", "Delta table"),
}
SIDES = {"source": location, "target": target_location}


@pytest.fixture(scope="module")
def session(spark):
    """A session with further catalogs, a view, and no more."""
    own = spark.newSession()
    for name, value in {**DERBY, **BROKEN}.items():
        own.conf.set(name, value)
    own.sql("CREATE OR REPLACE VIEW seen AS SELECT 1 AS id")
    yield own
    own.sql("DROP VIEW seen")


class TestANameWithoutAPlace:
    """Its first missing part is named; a table that is missing in a schema that exists is another matter."""

    @pytest.mark.parametrize("side", SIDES)
    @pytest.mark.parametrize(("name", "words", "hint"), [(name, *said) for name, said in MISSING.items()])
    def test_missing_part_is_named(self, session, side, name, words, hint):
        """The same for source and target; without the remedy a user would look for a table."""
        with pytest.raises(InvalidSpecError) as refused:
            SIDES[side](session, None, name)

        assert refused.value.message.startswith(f"spec.{side}.delta.table: {words}")
        assert hint in refused.value.hint

    @pytest.mark.parametrize(
        "name", ["missing", "default.missing", "spark_catalog.default.missing", "lake.APP.missing"]
    )
    def test_missing_source_in_a_schema_that_exists_is_not_found(self, session, name):
        """Catalog and schema are right."""
        with pytest.raises(SourceNotFoundError, match=name):
            location(session, None, name)

    def test_missing_target_in_another_catalog_has_no_place(self, session):
        """Only Spark's own catalog says where it would make a table."""
        with pytest.raises(TargetNotFoundError, match=r"lake\.APP\.missing") as refused:
            target_location(session, None, "lake.APP.missing")
        assert_ending(refused.value, "TargetNotFound")

    def test_missing_target_has_one_place_however_it_is_named(self, session):
        """A name with the catalog was refused as one without a place."""
        names = ("missing", "default.missing", "spark_catalog.default.missing", "`spark_catalog`.`default`.`missing`")

        assert len({target_location(session, None, name) for name in names}) == 1
