"""Tables with features of Delta, as Spark writes them: shipped correctly, or refused by name."""

import pytest

from backfill_core.errors import SchemaChangedError, UnsupportedSourceFeatureError, UnsupportedTargetFeatureError
from backfill_spark.delta.log import table_at


class TestAreShipped:
    """Readers see equal rows, also if the log records more than files."""

    @pytest.mark.rest
    def test_mapped_generated_constrained_clustered_tables_and_odd_times_are_shipped(self, spark, replica, request):
        """Names in files are kept, so a renamed column needs no new file. Other features stay in the source."""
        before = spark.conf.get("spark.sql.parquet.outputTimestampType")
        spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
        request.addfinalizer(lambda: spark.conf.set("spark.sql.parquet.outputTimestampType", before))
        replica.sql(
            "CREATE TABLE {t} (id LONG, `od d` STRING, st STRUCT<a: INT, b: ARRAY<STRUCT<c: INT>>>, at TIMESTAMP, "
            "g LONG GENERATED ALWAYS AS (id * 2), d INT DEFAULT 7) USING delta CLUSTER BY (id) TBLPROPERTIES ("
            "'delta.columnMapping.mode' = 'name', 'delta.feature.allowColumnDefaults' = 'supported', "
            "'delta.enableDeletionVectors' = 'true', 'delta.enableInCommitTimestamps' = 'true', "
            "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2', 'delta.constraints.small' = 'id < 9000')"
        )
        row = "SELECT id, 'x', named_struct('a', 1, 'b', array(named_struct('c', 2))), timestamp'1899-12-31 23:59:59.123456'"
        replica.sql(f"INSERT INTO {{t}} (id, `od d`, st, at) {row} FROM range(20)")
        replica.sql("ALTER TABLE {t} RENAME COLUMN `od d` TO `renamed`")
        replica.sql("ALTER TABLE {t} RENAME COLUMN st.a TO z")
        replica.begin()
        assert replica.equal()
        renamed = row.replace("'a'", "'z'")
        for change in (
            f"INSERT INTO {{t}} (id, renamed, st, at) {renamed} FROM range(100, 120)",
            "DELETE FROM {t} WHERE id % 3 = 0",
            "OPTIMIZE {t}",
        ):
            replica.sql(change)
            replica.ship()
            assert replica.equal(), change
        made, source = (table_at(spark, path, 1) for path in (replica.target, replica.source))
        assert "deletionVectors" in made.features
        assert made.features & {"checkConstraints", "generatedColumns", "v2Checkpoint"} == set()
        assert made.schema.count("physicalName") == source.schema.count("physicalName") > 6

    @pytest.mark.rest
    def test_files_elsewhere_without_counts_and_of_variants_are_shipped(self, spark, replica, tmp_path):
        """A shallow clone names files of another table; statistics may be off; a VARIANT is decoded."""
        origin = str(tmp_path / "origin")
        spark.conf.set("spark.databricks.delta.stats.collect", "false")
        try:
            spark.range(20).selectExpr("id", "parse_json(concat('{\"a\":', id, '}')) AS v").write.format(
                "delta"
            ).option("delta.enableDeletionVectors", "true").save(origin)
            spark.sql(f"DELETE FROM delta.`{origin}` WHERE id = 4")
            spark.sql(f"CREATE TABLE delta.`{replica.source}` SHALLOW CLONE delta.`{origin}`")
            replica.begin(source={"allowFilesOutside": [origin]})
            replica.sql("INSERT INTO {t} VALUES (100, parse_json('1'))")
            replica.sql("DELETE FROM {t} WHERE id = 7")
            replica.ship()
        finally:
            spark.conf.unset("spark.databricks.delta.stats.collect")
        rows = [
            sorted(map(str, spark.read.format("delta").load(path).selectExpr("id", "to_json(v)").collect()))
            for path in (replica.source, replica.target)
        ]
        assert rows[0] == rows[1]
        assert len(rows[0]) == 19


class TestAreRefused:
    """An unsupported source is refused by name, before the first write or before the version that introduces the feature."""

    @pytest.mark.parametrize(
        ("properties", "message"),
        [
            ("'delta.enableRowTracking' = 'true'", "row tracking"),
            ("'delta.columnMapping.mode' = 'id'", "mapping by id"),
        ],
    )
    def test_features_that_a_copy_would_lack_are_refused(self, replica, properties, message):
        """Row ids are not in the files' own columns, and files mapped by id may have any names."""
        replica.sql(f"CREATE TABLE {{t}} (id LONG) USING delta TBLPROPERTIES ({properties})")
        with pytest.raises(UnsupportedSourceFeatureError, match=message):
            replica.begin()

    def test_features_that_come_while_the_job_runs_are_refused(self, spark, replica):
        """A widened type is refused, and a vector if the target supports none. Each message has the next step."""
        spark.range(10).selectExpr("id", "CAST(id AS INT) AS v").write.format("delta").save(replica.source)
        replica.begin()
        replica.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        replica.sql("DELETE FROM {t} WHERE id = 1")
        with pytest.raises(UnsupportedTargetFeatureError, match="does not support") as refused:
            replica.ship()
        assert "ALTER TABLE" in refused.value.hint
        replica.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        replica.sql("ALTER TABLE {t} ALTER COLUMN v TYPE LONG")
        with pytest.raises(SchemaChangedError, match="'v' changed its type"):
            replica.ship()
