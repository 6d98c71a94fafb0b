"""Reads of a pinned version by exact files, of the versions after it, and of the transform."""

import itertools
import random
import shutil
from collections import Counter
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support.tables import other_engine
from support.tables.jobs import forget_before, make_kind, make_orders, vacuum

from backfill_core.errors import (
    ChangeFeedExpiredError,
    ChangeFeedMissingError,
    KeyInvalidError,
    SchemaChangedError,
    SnapshotExpiredError,
    SourceNotFoundError,
    SourceReplacedError,
)
from backfill_core.positions.file_ranges import file_ranges
from backfill_spark.sources.delta.source import DeltaTableSource


def rows_of(frame):
    return Counter(map(str, frame.collect()))


def opened(spark, path, **options):
    source = DeltaTableSource(spark, path, key=("id",), **options)
    source.pin(None)
    return source


def prefix_of(source):
    prefix = [0]
    for rows in source.pinned.rows:
        prefix.append(prefix[-1] + rows)
    return prefix


def jobs_of(spark):
    """Return the number of Spark jobs in this thread's group."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


class TestASplitIsExactlyItsPartOfTheLine:
    """Ranges cut anywhere cover the pinned version once, also if the table changes."""

    @pytest.mark.parametrize("kind", ["plain", "deleted", "partitioned", "renamed", "with a map"])
    def test_random_cuts_cover_the_version_once(self, spark, tmp_path, kind):
        """R-SNAP-8, R-SNAP-16: a row outside of all splits is lost, and one in two splits is doubled."""
        path = str(tmp_path / "odd path=%20")
        make_kind(spark, path, kind, **({"m": "map('k', id % 3)"} if kind == "with a map" else {}))
        expected = rows_of(spark.read.format("delta").load(path))
        source = opened(spark, path)
        prefix, chance = prefix_of(source), random.Random(5)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id < 300")
        cuts = sorted({0, prefix[-1], *(chance.randrange(prefix[-1]) for _ in range(4))})

        # Each part has a separate plan; one query runs all of them.
        parts = [source.read(file_ranges(prefix, start, stop)) for start, stop in itertools.pairwise(cuts)]
        assert rows_of(reduce(DataFrame.unionAll, parts)) == expected
        assert source.pinned.live_rows == sum(expected.values())

    def test_files_without_statistics_are_counted(self, spark, tmp_path):
        """Rows are addressed by number, so each file's count must be known."""
        path = str(tmp_path / "s")
        spark.range(70).write.format("delta").option("delta.dataSkippingNumIndexedCols", "0").save(path)
        spark.conf.set("spark.databricks.delta.stats.collect", "false")
        try:
            spark.range(30).write.format("delta").mode("append").save(path)
        finally:
            spark.conf.unset("spark.databricks.delta.stats.collect")

        assert sum(opened(spark, path).pinned.rows) == 100

    def test_files_without_statistics_are_counted_in_a_table_with_a_column_metadata(self, spark, tmp_path):
        """Spark's column of the file has the same name (fault B10)."""
        path = str(tmp_path / "s")
        spark.conf.set("spark.databricks.delta.stats.collect", "false")
        try:
            spark.range(30).selectExpr("id", "concat('m', id) AS _metadata").write.format("delta").save(path)
        finally:
            spark.conf.unset("spark.databricks.delta.stats.collect")

        assert sum(opened(spark, path).pinned.rows) == 30

    def test_files_without_statistics_are_counted_at_once(self, spark, tmp_path):
        """One job counts all of them, so tables of thousands of such files start, too."""
        path = str(tmp_path / "odd path=%20")
        spark.conf.set("spark.databricks.delta.stats.collect", "false")
        try:
            rows = spark.range(0, 90, 1, 6).selectExpr(
                "id", "element_at(array('a b', 'c%d'), cast(id % 2 + 1 AS int)) AS p"
            )
            rows.write.format("delta").option("delta.enableDeletionVectors", "true").partitionBy("p").save(path)
            spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 7 = 3")
        finally:
            spark.conf.unset("spark.databricks.delta.stats.collect")
        source, live = opened(spark, path), spark.read.format("delta").load(path)
        prefix = prefix_of(source)

        assert sum(source.pinned.rows) == 90
        assert source.pinned.live_rows == live.count()
        files = [file_ranges(prefix, start, stop) for start, stop in itertools.pairwise(prefix)]
        each = [source.read(file).select(F.lit(index).alias("file")) for index, file in enumerate(files)]
        counts = {
            row["file"]: row["count"] for row in reduce(DataFrame.unionAll, each).groupBy("file").count().collect()
        }
        assert [counts.get(index, 0) for index in range(len(files))] == [source.live_rows(file) for file in files]
        counting = DeltaTableSource(spark, path, key=())
        before = jobs_of(spark)
        counting.pin(None)
        assert jobs_of(spark) - before < len(source.pinned.rows)

    def test_a_vacuumed_version_is_reported_as_expired(self, spark, tmp_path):
        """R-SNAP-47: no missing file is skipped."""
        path = str(tmp_path / "s")
        make_orders(spark, path, 100, files=2)
        source = opened(spark, path)
        other_engine.update(path, "true", amount="1.0")
        vacuum(spark, path)

        with pytest.raises(Exception) as failure:
            source.read(file_ranges(prefix_of(source), 0, 100)).collect()
        assert isinstance(source.explain_failure(failure.value), SnapshotExpiredError)

    def test_a_version_that_never_existed_is_refused(self, spark, tmp_path):
        """A typing error in the spec must not read another version."""
        path = str(tmp_path / "s")
        make_orders(spark, path, 10, files=1)

        with pytest.raises(SnapshotExpiredError, match="version 9"):
            DeltaTableSource(spark, path, key=()).pin(9)


class TestKeys:
    """A missing or null key is refused before the first write."""

    def test_a_missing_key_is_refused(self, spark, tmp_path):
        """The suggestion corrects a typing error."""
        make_orders(spark, str(tmp_path / "s"), 10, files=1)

        with pytest.raises(KeyInvalidError, match="Did you mean 'customer'"):
            DeltaTableSource(spark, str(tmp_path / "s"), key=("custmer",)).pin(None)

    def test_a_null_key_is_refused(self, spark, tmp_path):
        """A filter may remove such rows, and then the key is good."""
        spark.sql("SELECT if(id = 3, null, id) AS id FROM range(9)").write.format("delta").save(str(tmp_path / "s"))

        with pytest.raises(KeyInvalidError, match="null in 1 row of"):
            opened(spark, str(tmp_path / "s")).check_no_null_key()
        opened(spark, str(tmp_path / "s")).check_no_null_key("id IS NOT NULL")

    def test_a_null_that_a_deletion_vector_hides_does_not_matter(self, spark, tmp_path):
        """The statistics still count deleted rows."""
        path = str(tmp_path / "s")
        writer = spark.sql("SELECT if(id = 3, null, id) AS id FROM range(0, 9, 1, 1)").write.format("delta")
        writer.option("delta.enableDeletionVectors", "true").save(path)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id IS NULL")
        source = opened(spark, path)

        assert sum(source.pinned.deleted) == 1
        source.check_no_null_key()


class TestTheVersionsAfter:
    """R-SNAP-9, R-SNAP-19: exactly the changes of each version, or a reason."""

    @pytest.fixture
    def path(self, spark, tmp_path):
        make_orders(spark, str(tmp_path / "s"), 40, files=2)
        return str(tmp_path / "s")

    def test_an_optimize_is_no_change(self, spark, path):
        """A rewritten file would double its rows."""
        source = opened(spark, path)
        spark.sql(f"OPTIMIZE delta.`{path}`")
        source.check_versions(0, source.head().position)

        assert source.changes(0, source.head().position).count() == 0

    def test_a_table_without_change_feed_may_append(self, spark, tmp_path):
        """Most tables only grow and need no feed."""
        path = str(tmp_path / "plain")
        spark.range(5).write.format("delta").save(path)
        source = opened(spark, path)
        for start in (10, 20):
            spark.range(start, start + 3).write.format("delta").mode("append").save(path)
        spark.sql(f"OPTIMIZE delta.`{path}`")

        assert sorted(row["id"] for row in source.changes(0, 3).collect()) == [10, 11, 12, 20, 21, 22]
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 11")
        with pytest.raises(ChangeFeedMissingError, match="version 4"):
            source.changes(3, 4)

    def test_appended_files_in_odd_folders_are_all_read(self, spark, tmp_path):
        """The log encodes a path as a URI: a folder `p=a b` is `p=a%20b` in it."""
        path = str(tmp_path / "odd path=%20")
        rows = (
            "SELECT id, element_at(array('a b', 'c%d', 'e/f=g', 'ü', ''), cast(id % 5 + 1 AS int)) AS p FROM range(10)"
        )
        for mode in ("error", "append"):
            spark.sql(rows).write.format("delta").partitionBy("p").mode(mode).save(path)
        source = DeltaTableSource(spark, path, key=())
        source.pin(0)

        assert rows_of(source.changes(0, 1).select("id", "p")) == rows_of(
            source.read(file_ranges(prefix_of(source), 0, 10))
        )

    def test_days_that_an_older_calendar_lacks_are_kept(self, spark, tmp_path):
        """Delta passes a change feed as Java's own values. Only the newer ones support 1582-10-05."""
        path, day = str(tmp_path / "days"), "date_from_unix_date(cast(id AS int) - 141450)"
        at = f"cast({day} AS timestamp)"
        rows = spark.range(40).selectExpr(
            "id", f"{day} AS d", f"{at} AS t", f"array({day}) AS a", f"struct({at} AS x) AS s"
        )
        for _ in range(2):
            rows.write.format("delta").option("delta.enableChangeDataFeed", "true").mode("append").save(path)
        source = DeltaTableSource(spark, path, key=())
        source.pin(0)

        assert rows_of(source.changes(0, 1).select(*rows.columns)) == rows_of(rows)

    @pytest.mark.parametrize(
        ("change", "column"),
        [("DROP COLUMN note", "note"), ("RENAME COLUMN note TO remark", "note"), ("ADD COLUMN extra INT", "extra")],
    )
    def test_a_schema_change_names_the_column(self, spark, path, change, column):
        """The user decides about a column, so it is named."""
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        source = opened(spark, path)
        spark.sql(f"ALTER TABLE delta.`{path}` {change}")

        with pytest.raises(SchemaChangedError, match=column):
            source.check_versions(source.version, source.head().position)

    def test_an_added_column_can_be_ignored(self, spark, path):
        """The policy of the spec must hold for the feed, too."""
        source = opened(spark, path, schema_change="Ignore")
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN extra INT")
        spark.sql(f"UPDATE delta.`{path}` SET extra = 1, amount = 5 WHERE id = 1")
        source.check_versions(0, 2)

        assert "extra" not in source.changes(0, 2).columns
        assert source.changes(0, 2).count() == 2

    def test_a_version_that_was_cleaned_away_is_named(self, spark, path):
        """A skipped version would silently lose its changes."""
        source = opened(spark, path)
        other_engine.update(path, "true", amount="5.0")
        Path(path, "_delta_log", f"{1:020d}.json").unlink()

        with pytest.raises(ChangeFeedExpiredError, match="version 1 "):
            source.check_versions(0, 1)

    def test_a_version_that_is_cleaned_away_later_is_noticed(self, spark, path):
        """The check finds it before the version is needed."""
        source = opened(spark, path)
        other_engine.update(path, "true", amount="5.0")
        head = source.head()
        source.check_kept(0, head)
        Path(path, "_delta_log", f"{1:020d}.json").unlink()

        with pytest.raises(ChangeFeedExpiredError, match="version 1 "):
            source.check_kept(0, head)

    def test_versions_consumed_long_ago_may_be_gone(self, spark, path):
        """A job that resumes after a month needs the log since then, not since its beginning."""
        source = opened(spark, path)
        for amount in range(6):
            other_engine.update(path, "id < 10", amount=f"{amount}.0")
        forget_before(spark, path, 4)

        assert source.changes(4, 6).where("_change_type = 'update_postimage'").count() == 20
        assert source.changes(6, 6).count() == 0

    def test_another_table_at_the_path_is_noticed(self, spark, path):
        """Versions of the new table have another meaning."""
        source = opened(spark, path)
        shutil.rmtree(path)
        make_orders(spark, path, 5, files=1)

        with pytest.raises(SourceReplacedError):
            source.head()

    def test_a_table_whose_commits_are_gone_is_not_found(self, spark, tmp_path):
        """Another attempt would find the same."""
        log = tmp_path / "gone" / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{7:020}.crc").write_text("{}")

        with pytest.raises(SourceNotFoundError):
            DeltaTableSource(spark, str(log.parent), key=("id",)).head()

    def test_another_table_at_the_path_is_pinned_at_its_newest_version(self, spark, path):
        """The session caches the log of the old table, whose version was higher."""
        other_engine.update(path, "id = 1", amount="5.0")
        assert opened(spark, path).version == 1
        shutil.rmtree(path)
        make_orders(spark, path, 5, files=1)

        source = opened(spark, path)
        assert (source.version, source.pinned.live_rows) == (0, 5)

    def test_a_version_that_another_engine_added_is_pinned(self, spark, path):
        """The session's cached log does not include it."""
        assert opened(spark, path).version == 0
        other_engine.delete(path, "id = 1")

        source = opened(spark, path)
        assert (
            source.version,
            source.read(file_ranges(prefix_of(source), 0, prefix_of(source)[-1])).where("id = 1").count(),
        ) == (1, 0)
