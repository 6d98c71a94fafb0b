"""Names of columns in a MERGE to a target."""

from support.tables.oracle import columns_of

from backfill_spark.rows.write_modes import UPSERT
from backfill_spark.sinks.delta.sink import DeltaSink


class TestAColumnWithTheNameOfSparksOwn:
    """Delta's MERGE reads `_metadata` only if deletion vectors hide rows (fault B10)."""

    def test_the_column_is_updated_in_a_target_without_deletion_vectors(self, spark, tmp_path):
        """The hint of the refusal must lead to a job that works."""
        path, rows = str(tmp_path / "t"), spark.range(3).selectExpr("id", "concat('m', id) AS _metadata")
        sink = DeltaSink(
            spark,
            path,
            write_mode=UPSERT,
            key=("id",),
            properties={"delta.enableDeletionVectors": "false"},
            job_id="j",
        )
        sink.check(rows.schema, source_path=None, has_state=False)
        sink.prepare(rows.schema)
        for version, text in enumerate(("old", "new"), start=1):
            changes = spark.range(version, 4).selectExpr("id", f"'{text}' AS _metadata", "false AS __backfill_delete")
            sink.merge(changes, app_id="app", txn_version=version)

        assert sorted(columns_of(path, "id", "_metadata")) == [(1, "old"), (2, "new"), (3, "new")]
