"""A replica on real tables: history and log, beside writers, through a death, and what its commits say."""

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
    """Run a job, and do something to the source once a version is pinned, or to the target once it has rows."""
    source, target = tables

    def go(*statements, **spec):
        left = [one.format(t=f"delta.`{source}`", copy=f"delta.`{target}`") for one in statements]
        needs_rows = any(target in one for one in left)

        def observe(progress):
            if progress.rows_done or not needs_rows:
                # A commit of the job may come between; then it is tried again at the next progress.
                with suppress(ConcurrentAppendException):
                    while left:
                        spark.sql(left[0])
                        left.pop(0)

        return run_driver(
            job(source, target, **{**REPLICA, "verify": "Final", **spec}),
            settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark, observe=observe,
        )  # fmt: skip

    return go


def wrong(source, target, view="SELECT * FROM source"):
    """Return what is wrong at any commit, by another engine; the state says of which version the rows are."""
    return [words for seal in seals(target) for words in violations(source, target, seal, view)]


class TestAReplica:
    """The target is the source at a version, whatever changed meanwhile."""

    def test_has_the_rows_of_the_source_at_every_commit(self, run, tables):
        """Hidden rows, new ones, files that were rewritten and compacted; no key, and no change feed."""
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

    def test_commits_what_goes_with_what_comes_and_its_version(self, run, tables):
        """A reader sees an update whole, and a restart knows what it has."""
        source, target = tables
        run("UPDATE {t} SET v = 'u' WHERE n % 10 = 2", throttle={"rowsPerSecond": 300})

        (version,) = {
            int(file.stem)
            for file in Path(target, "_delta_log").glob("*.json")
            if any("remove" in json.loads(line) for line in file.read_text().splitlines())
        }
        (seal,) = [one for one in seals(target) if one.version == version]
        assert seal.state["replica"]["shipped"] == DeltaTable(source).version()
        assert seal.state["changesDone"] == 2 * ROWS // 10

    @pytest.mark.parametrize(
        ("columns", "where"),
        [(("n", "a AS b"), None), (("n", "upper(v) AS v"), "n % 3 <> 0"), (("n", "v"), "n BETWEEN 100 AND 399")],
        ids=["projected", "decoded", "filtered"],
    )
    def test_of_other_columns_follows_as_well(self, run, tables, columns, where):
        """Columns that are left out or renamed; computed ones, and rows that are left out."""
        source, target = tables
        transform = {"select": list(columns)} | ({} if where is None else {"where": where})
        outcome = run(
            "DELETE FROM {t} WHERE n % 10 = 1", "INSERT INTO {t} VALUES (1, 'new', 10001)",
            transform=transform, throttle={"rowsPerSecond": 300},
        )  # fmt: skip

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert wrong(source, target, f"SELECT {', '.join(columns)} FROM source WHERE {where or 'true'}") == []

    def test_ends_by_name_when_others_touch_its_files(self, run):
        """What they removed would come back with the next vector, or go twice."""
        outcome = run("DELETE FROM {copy} WHERE n = 5", throttle={"rowsPerSecond": 100})

        assert_ending(outcome, "TargetChanged")
        assert "DELETE" in outcome.message


class TestBadInput:
    """Refused before anything is written."""

    def test_a_target_that_has_rows(self, spark, run, tables):
        """They are of no file of the source."""
        spark.range(3).selectExpr("id AS a", "'x' AS v", "id AS n").write.format("delta").save(tables[1])

        outcome = run()

        assert outcome.reason == "TargetNotEmpty"
        assert spark.read.format("delta").load(tables[1]).count() == 3

    def test_a_target_that_is_there_with_other_partitions(self, spark, run, tables):
        """Files of the source would lie in no partition of it."""
        _, target = tables
        empty = spark.range(0).selectExpr("id AS a", "'x' AS v", "id AS n")
        empty.write.format("delta").partitionBy("a").save(target)

        assert run().reason == "TargetSchemaMismatch"
