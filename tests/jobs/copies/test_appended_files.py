"""Files that an append-only source adds after the pinned version are copied if possible; delta-rs reads the target."""

import hashlib
import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from deltalake import QueryBuilder, write_deltalake
from support.tables.jobs import job
from support.tables.logs import actions_in, commit_of
from support.tables.oracle import adds_of, foreign_files

from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.gateway import java, java_session
from backfill_spark.settings import DriverSettings

APPENDED = 3
"""Versions after the pinned one."""


@pytest.fixture
def source(tmp_path):
    """A table without a change feed: twenty rows of two parts in version 0, and ten more in each version after."""
    path = str(tmp_path / "s")
    for start, stop in [(0, 20), *((20 + 10 * at, 30 + 10 * at) for at in range(APPENDED))]:
        rows = f"SELECT value AS id, value % 2 AS part, concat('n', value) AS name FROM range({start}, {stop})"
        write_deltalake(path, QueryBuilder().execute(rows).read_all(), mode="append", partition_by=["part"])
    return path


@pytest.fixture
def run(spark, tmp_path, source):
    """Runs an `Append` job that begins at version 0, and returns its outcome."""

    def run(**spec):
        defaults = {
            "name": "appended",
            "source": {"key": [], "version": 0, **spec.pop("source", {})},
            "target": {"writeMode": "Append", "partitionBy": ["part"], **spec.pop("target", {})},
            "verify": "Final",
        }
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
        return run_driver(job(source, str(tmp_path / "t"), **{**defaults, **spec}), settings=settings, spark=spark)

    return run


def copied(source, target):
    """Return the files of the source that the target has byte by byte."""
    there = {path.rsplit("/", 1)[-1]: path for path in adds_of(target)}
    names = {f"w-{hashlib.sha256(path.encode()).hexdigest()[:32]}-0.parquet": path for path in adds_of(source)}
    same = {name: path for name, path in names.items() if name in there}
    for name, path in same.items():
        assert Path(target, unquote(there[name])).read_bytes() == Path(source, unquote(path)).read_bytes()
    return set(same.values())


def changes_read(spark):
    """Return the number of Spark queries so far that read changes of a source."""
    executions = java_session(spark).sharedState().statusStore().executionsList()
    return sum(str(executions.apply(at).description()).startswith("ApplyChanges") for at in range(executions.size()))


def append_with_a_vector(spark, path):
    """Delete one row of the newest version, and merge both versions: the result adds a file with a deletion vector."""
    newest = APPENDED
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.range(100, 110, 1, 1).selectExpr("id", "0L AS part", "concat('n', id) AS name").write.format("delta").mode(
        "append"
    ).save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 105")
    log = Path(path, "_delta_log")
    (added,) = (action for action in actions_in(commit_of(path, newest + 3)) if "add" in action)
    assert "deletionVector" in added["add"]
    kept = [action for action in actions_in(commit_of(path, newest + 2)) if "add" not in action]
    Path(log, f"{newest + 2:020}.json").write_text("\n".join(map(json.dumps, [*kept, added])) + "\n")
    Path(log, f"{newest + 3:020}.json").unlink()
    for sums in log.glob("*.crc"):  # hidden files, too
        sums.unlink()
    java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()


class TestFilesThatALaterVersionAdds:
    """Before, each version was a Spark job: a source with three commits a second kept a core busy."""

    def test_added_files_are_copied_byte_by_byte_if_the_transform_changes_nothing(self, tmp_path, run, source):
        """They are copied like files of the pinned version."""
        outcome = run()

        assert (outcome.reason, outcome.receipt.equal, outcome.receipt.rows) == ("Complete", True, 50)
        assert copied(source, str(tmp_path / "t")) == set(adds_of(source))
        assert outcome.progress.changes_done == 10 * APPENDED
        assert foreign_files(str(tmp_path / "t"), source) == foreign_files(source, str(tmp_path / "t")) == 0

    def test_the_filter_decides_if_added_files_are_excluded_copied_or_decoded(self, spark, tmp_path, run, source):
        """The bounds in the source's log decide: no row of version 1 passes, some of version 2 do, all of version 3 do."""
        outcome = run(transform={"where": "id < 5 OR id >= 35"})

        target = str(tmp_path / "t")
        assert (outcome.reason, outcome.receipt.equal) == ("Complete", True)
        ids = sorted(row.id for row in spark.read.format("delta").load(target).select("id").collect())
        assert ids == [*range(5), *range(35, 50)]
        assert len(copied(source, target)) == 2

    def test_added_files_are_decoded_for_a_column_that_no_file_can_have(self, spark, tmp_path, run, source):
        """Rows of a computed partition column belong to several folders."""
        before = changes_read(spark)

        outcome = run(transform={"select": ["id", "name", "id % 3 AS third"]}, target={"partitionBy": ["third"]})

        assert (outcome.reason, outcome.receipt.equal, outcome.receipt.rows) == ("Complete", True, 50)
        assert copied(source, str(tmp_path / "t")) == set()
        assert changes_read(spark) > before

    def test_added_files_bring_no_column_that_came_after_the_pinned_version(self, spark, tmp_path, run, source):
        """With `schemaChange: Ignore` the job continues without the column. A file that has it is decoded."""
        frame = spark.range(50, 60, 1, 1).selectExpr("id", "id % 2 AS part", "'x' AS name", "id AS extra")
        frame.write.format("delta").mode("append").option("mergeSchema", "true").save(source)

        outcome = run(source={"schemaChange": "Ignore"})

        target = spark.read.format("delta").load(str(tmp_path / "t"))
        assert (outcome.reason, outcome.receipt.rows) == ("Complete", 60)
        assert "extra" not in target.columns
        assert not any("extra" in spark.read.parquet(file).columns for file in target.inputFiles())

    def test_a_version_that_deletes_rows_ends_the_job_by_name(self, spark, run, source):
        """The target would keep these rows."""
        spark.sql(f"DELETE FROM delta.`{source}` WHERE id = 45")

        assert run().reason in ("ChangeFeedMissing", "NotAppendOnly")

    @pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["decoded", "copied"])
    def test_added_files_come_without_the_rows_that_their_deletion_vectors_hide(
        self, spark, tmp_path, run, source, properties
    ):
        """A writer may add a file and its vector in one version, as a clone does. No version removes a file then."""
        append_with_a_vector(spark, source)

        outcome = run(target={"properties": properties})

        target = str(tmp_path / "t")
        assert (outcome.reason, outcome.receipt.equal, outcome.receipt.rows) == ("Complete", True, 59)
        assert outcome.progress.changes_done == 39
        assert foreign_files(target, source) == foreign_files(source, target) == 0

    def test_a_version_that_only_moves_rows_starts_no_spark_job(self, spark, run, source):
        """An OPTIMIZE started a Spark job that wrote nothing."""
        spark.sql(f"OPTIMIZE delta.`{source}`")
        before = changes_read(spark)

        outcome = run(source={"version": APPENDED})

        assert (outcome.reason, outcome.receipt.rows) == ("Complete", 50)
        assert changes_read(spark) == before

    @pytest.mark.parametrize(
        "select", [["*"], ["id", "part", "upper(name) AS name", "id + 1 AS next", "id + 2 AS more"]]
    )
    def test_added_files_are_not_read_if_the_filter_excludes_all_of_them(self, spark, run, source, select):
        """Their bounds in the log decide, for copied and for decoded files."""
        before = changes_read(spark)

        outcome = run(transform={"where": "id < 20", "select": select})

        assert (outcome.reason, outcome.receipt.rows) == ("Complete", 20)
        assert changes_read(spark) == before
