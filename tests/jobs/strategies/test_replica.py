"""A replica on real tables: history and log, with other writers, after a kill, and the contents of its commits."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from delta.exceptions import ConcurrentAppendException
from deltalake import DeltaTable
from support.endings import assert_ending
from support.tables.jobs import job
from support.tables.oracle import seals, violations

from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings

ROWS, FILES = 600, 6
REPLICA = {"source": {"key": []}, "strategy": {"type": "Replica"}}


@pytest.fixture
def tables(spark, tmp_path):
    """A source with deletion vectors, no change feed and no key."""
    source, target = str(tmp_path / "s"), str(tmp_path / "t")
    frame = spark.range(0, ROWS, 1, FILES).selectExpr("id % 200 AS a", "concat('v', id) AS v", "id AS n")
    frame.write.format("delta").option("delta.enableDeletionVectors", "true").save(source)
    spark.sql(f"DELETE FROM delta.`{source}` WHERE n % 50 = 7")
    return source, target


@pytest.fixture
def run(spark, tmp_path, tables):
    """Run a job, and change the source once a version is pinned, or the target once it has rows."""
    source, target = tables

    def go(*statements, **spec):
        pending = [statement.format(t=f"delta.`{source}`", copy=f"delta.`{target}`") for statement in statements]
        needs_rows = any(target in statement for statement in pending)

        def observe(progress):
            if progress.rows_done or not needs_rows:
                # A commit of the job may come between; then the statement is repeated at the next progress.
                with suppress(ConcurrentAppendException):
                    while pending:
                        spark.sql(pending[0])
                        pending.pop(0)

        return run_driver(
            job(source, target, **{**REPLICA, "verify": "Final", **spec}),
            settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark, observe=observe,
        )  # fmt: skip

    return go


def wrong(source, target, view="SELECT * FROM source"):
    """Return the violations at any commit, as another engine reads it. The state has the version of the rows."""
    return [violation for seal in seals(target) for violation in violations(source, target, seal, view)]


class TestAReplica:
    """The target is the source at a version, with any concurrent changes."""

    def test_a_replica_has_the_rows_of_the_source_at_every_commit(self, run, tables):
        """Hidden rows, new ones, rewritten and compacted files; no key, and no change feed."""
        source, target = tables
        outcome = run(
            "DELETE FROM {t} WHERE n % 10 = 1",
            "UPDATE {t} SET v = 'u' WHERE n % 10 = 2",
            "INSERT INTO {t} SELECT a, v, n FROM {t} WHERE n < 50",
            "OPTIMIZE {t}",
            throttle={"rowsPerSecond": 300},
        )

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal
        assert wrong(source, target) == []
        assert seals(target)[-1].state["replica"]["shipped"] == DeltaTable(source).version()

    def test_a_replica_commits_removed_and_new_files_together_with_the_version(self, run, tables):
        """A reader sees complete updates, and a restart knows the shipped version."""
        source, target = tables
        run("UPDATE {t} SET v = 'u' WHERE n % 10 = 2", throttle={"rowsPerSecond": 300})

        (version,) = {
            int(file.stem)
            for file in Path(target, "_delta_log").glob("*.json")
            if any("remove" in json.loads(line) for line in file.read_text().splitlines())
        }
        (seal,) = [commit for commit in seals(target) if commit.version == version]
        assert seal.state["replica"]["shipped"] == DeltaTable(source).version()
        assert seal.state["changesDone"] == 2 * ROWS // 10

    @pytest.mark.parametrize(
        ("columns", "where"),
        [(("n", "a AS b"), None), (("n", "upper(v) AS v"), "n % 3 <> 0"), (("n", "v"), "n BETWEEN 100 AND 399")],
        ids=["projected", "decoded", "filtered"],
    )
    def test_a_replica_of_other_columns_follows_as_well(self, run, tables, columns, where):
        """Columns are dropped, renamed or computed, and rows are filtered out."""
        source, target = tables
        transform = {"select": list(columns)} | ({} if where is None else {"where": where})
        outcome = run(
            "DELETE FROM {t} WHERE n % 10 = 1", "INSERT INTO {t} VALUES (1, 'new', 10001)",
            transform=transform, throttle={"rowsPerSecond": 300},
        )  # fmt: skip

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert wrong(source, target, f"SELECT {', '.join(columns)} FROM source WHERE {where or 'true'}") == []

    def test_a_replica_ends_by_name_when_other_writers_change_its_files(self, run):
        """Rows that they removed would come back with the next vector, or be removed twice."""
        outcome = run("DELETE FROM {copy} WHERE n = 5", throttle={"rowsPerSecond": 100})

        assert_ending(outcome, "TargetChanged")
        assert "DELETE" in outcome.message


class TestBadInput:
    """Bad input is refused before the first write."""

    def test_a_target_with_rows_is_refused(self, spark, run, tables):
        """They belong to no file of the source."""
        spark.range(3).selectExpr("id AS a", "'x' AS v", "id AS n").write.format("delta").save(tables[1])

        outcome = run()

        assert outcome.reason == "TargetNotEmpty"
        assert spark.read.format("delta").load(tables[1]).count() == 3

    def test_an_existing_target_with_other_partitions_is_refused(self, spark, run, tables):
        """Files of the source would be in none of its partitions."""
        _, target = tables
        empty = spark.range(0).selectExpr("id AS a", "'x' AS v", "id AS n")
        empty.write.format("delta").partitionBy("a").save(target)

        assert run().reason == "TargetSchemaMismatch"
