"""Rows of files that fail a filter, counted by Spark."""

import pytest

from backfill_spark.file_copies import hidden_rows
from backfill_spark.jvm.gateway import java_context
from backfill_spark.sources.delta.source import DeltaTableSource

FILES, ROWS = 8, 1 << 16
FAILS = "pmod(hash(id), 10) = 0"
LIMIT = "spark.driver.maxResultSize"


@pytest.fixture
def narrow(spark):
    """Let Spark end a job whose result has more than 50 KiB."""
    conf = java_context(spark).sc().conf()
    conf.set(LIMIT, "50k")
    yield
    conf.remove(LIMIT)


class TestManyFiles:
    """A receipt counts the failing rows of all files of a table, however many there are."""

    def test_each_file_gets_its_rows_from_several_spark_jobs(self, spark, tmp_path, monkeypatch, narrow):
        """Before, one job had the bitmaps of all files as its result, and Spark ends a job whose result exceeds 1 GiB."""
        path = str(tmp_path)
        spark.range(0, FILES * ROWS, 1, FILES).write.format("delta").save(path)
        source = DeltaTableSource(spark, path, key=())
        pinned = source.pin(None)
        files = source.source_files(range(len(pinned.rows)))
        monkeypatch.setattr(hidden_rows, "ROWS_MAX", 2 * ROWS, raising=False)

        # The bitmap of a file has 8 KiB.
        failing = list(hidden_rows.failing_rows(spark, source, f"NOT {FAILS}", files))

        counted = spark.read.format("delta").load(path).where(FAILS).groupBy("_metadata.file_name").count().collect()
        expected = {row["file_name"]: row["count"] for row in counted}
        assert {file.path: rows.rows for file, rows in zip(files, failing, strict=True)} == expected
        assert len(expected) == FILES
