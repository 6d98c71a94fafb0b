"""Files in which computed columns are joined to copied ones, in whole jobs; delta-rs reads the target."""

import json
import shutil
from functools import cache

import pytest
from support.tables.jobs import job
from support.tables.oracle import adds_of, foreign_files, rows_in, seals

from backfill_core.positions.source_names import RowOrder, source_of
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.settings import DriverSettings

ROWS, FILES = 60_000, 4
EACH = ROWS // FILES
MOST = ["id", "part", "at", "money", "upper(name) AS name", "nested"]
REPLICA = {"source": {"key": []}, "strategy": {"type": "Replica"}}


@pytest.fixture(scope="module")
def source(spark, tmp_path_factory):
    """Return a table in the order of the id, by its kind: with partitions, without, or with a hidden last row in each file.

    A table is made on its first use.
    """

    @cache
    def make(kind):
        path = str(tmp_path_factory.mktemp("sources") / "s")
        if kind == "hidden":
            shutil.copytree(make("plain"), path)
            spark.sql(f"DELETE FROM delta.`{path}` WHERE left = 0")
            return path
        columns = [
            "id", f"concat('p', id DIV {EACH}) AS part", "IF(id % 7 = 3, NULL, concat('n', id % 50)) AS name",
            "timestamp_seconds(1704067200 + id) AS at", "CAST(id AS DECIMAL(20, 2)) / 4 AS money",
            "named_struct('x', id, 'list', array(id, NULL)) AS nested", f"id % {EACH} - {EACH - 1} AS left",
        ]  # fmt: skip
        rows = spark.range(0, ROWS, 1, FILES).selectExpr(*columns).write.format("delta")
        rows = rows.partitionBy("part") if kind == "partitioned" else rows
        rows.option("delta.enableDeletionVectors", "true").save(path)
        return path

    return make


@pytest.fixture
def run(spark, tmp_path, source):
    """Runs a job from a copy of a source to a folder."""

    def run(kind, observe=lambda progress: None, name="t", **spec):
        if not (tmp_path / "s").exists():
            shutil.copytree(source(kind), tmp_path / "s")
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2, check_unique=False)
        backfill = job(str(tmp_path / "s"), str(tmp_path / name), **{"name": name, "verify": "Final", **spec})
        return run_driver(backfill, settings=settings, spark=spark, observe=observe)

    return run


def kept(table):
    """Return the number of files of a target that have the rows of a source's file in their order."""
    tags = [source_of(path) for path in adds_of(table)]
    return sum(tag is not None and tag.order is RowOrder.KEPT for tag in tags)


class TestComputedColumns:
    """Computed columns are joined to the copied ones, file by file."""

    @pytest.mark.rest
    @pytest.mark.parametrize(
        ("kind", "select", "grafted"),
        [
            ("plain", MOST, FILES),
            ("plain", ["*", "id + 1 AS next", "part || name AS both"], FILES),
            ("partitioned", ["id", "part", "at", "concat(part, '-', id) AS words"], FILES),
            ("hidden", MOST, FILES),
            ("hidden", ["id", "name", "1 / left AS share"], 0),
        ],
        ids=["one", "more and all", "from a partition", "beside hidden rows", "that fail at hidden rows"],
    )
    def test_computed_columns_are_those_of_decoding(self, tmp_path, run, kind, select, grafted):
        """A receipt of all rows and another engine agree. An expression that fails at a hidden row is decoded."""
        target = {"partitionBy": ["part"]} if kind == "partitioned" else {}

        outcome = run(kind, transform={"select": select}, target=target)
        other = run(kind, name="u", transform={"select": select, "where": "true"}, target=target)

        assert (outcome.reason, outcome.message, outcome.receipt.equal) == ("Complete", "", True)
        assert other.reason == "Complete"
        there = str(tmp_path / "t"), str(tmp_path / "u")
        assert (kept(there[0]), kept(there[1])) == (grafted, 0)
        assert foreign_files(*there) == 0 == foreign_files(*reversed(there))
        assert rows_in(there[0]) == outcome.progress.rows_done == ROWS - (FILES if kind == "hidden" else 0)

    def test_a_row_that_cannot_be_computed_ends_the_job(self, tmp_path, run):
        """No row of it is visible, as with decoding."""
        outcome = run("plain", transform={"select": ["id", "name", "1 / left AS share"]})

        assert (outcome.reason, "DIVIDE_BY_ZERO" in outcome.message) == ("InvalidTransform", True)
        assert rows_in(str(tmp_path / "t")) == 0

    def test_a_computed_null_for_a_not_null_column_ends_the_job(self, spark, tmp_path, run):
        """No file of the target has such a row."""
        spark.sql(f"CREATE TABLE delta.`{tmp_path / 't'}` (id BIGINT, at TIMESTAMP, name STRING NOT NULL) USING delta")

        outcome = run("plain", transform={"select": ["id", "at", "upper(name) AS name"]})

        assert (outcome.reason, "'name'" in outcome.message) == ("TargetSchemaMismatch", True)
        assert rows_in(str(tmp_path / "t")) == 0

    def test_files_that_pass_a_filter_get_computed_columns(self, tmp_path, run):
        """The log decides the filter for three of them: one is excluded, and one is decoded."""
        outcome = run("plain", transform={"select": MOST, "where": f"id >= {EACH + 100}"})

        assert (outcome.reason, outcome.receipt.equal) == ("Complete", True)
        assert kept(str(tmp_path / "t")) == FILES - 2
        assert rows_in(str(tmp_path / "t")) == ROWS - EACH - 100

    def test_files_ahead_of_a_limit_get_computed_columns(self, tmp_path, run):
        """Files within one segment get their columns in the folder of the segment."""
        outcome = run("plain", transform={"select": MOST}, throttle={"rowsPerSecond": 60_000})

        assert (outcome.reason, outcome.message, outcome.receipt.equal) == ("Complete", "", True)
        assert rows_in(str(tmp_path / "t")) == ROWS
        assert not list((tmp_path / "t").rglob("computed"))

    def test_computed_parts_are_removed(self, tmp_path, run):
        """Parts are removed once they are joined."""
        run("plain", transform={"select": MOST})

        assert len(list((tmp_path / "t").rglob("*.parquet"))) == FILES

    def test_computed_columns_have_statistics(self, tmp_path, run):
        """A reader skips files by the bounds of computed columns."""
        run("plain", transform={"select": ["id", "name", "id * 2 AS twice"]})

        minima = [json.loads(add["stats"])["minValues"]["twice"] for add in adds_of(tmp_path / "t").values()]
        assert sorted(minima) == [2 * EACH * number for number in range(FILES)]


class TestTheFirstSplits:
    """A Java that has just started needs seconds to compute a column of a large file."""

    def test_the_first_commit_does_not_wait_for_a_whole_file(self, spark, tmp_path):
        """The first splits are parts of the file, and are decoded."""
        source, target, rows = str(tmp_path / "s"), str(tmp_path / "t"), 400_000
        spark.range(0, rows, 1, 1).selectExpr("id", "id % 7 AS day").write.format("delta").save(source)
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2, check_unique=False)
        backfill = job(source, target, transform={"select": ["id", "day + 1 AS day"]}, verify="Final")

        outcome = run_driver(backfill, settings=settings, spark=spark)

        first = next(seal.state["rowsDone"] for seal in seals(target) if seal.state["rowsDone"])
        assert (outcome.reason, outcome.receipt.equal, outcome.progress.rows_done) == ("Complete", True, rows)
        assert first < rows / 2


class TestAPlan:
    """A plan counts files by their copy mode."""

    def test_a_plan_counts_files_with_computed_columns(self, spark, tmp_path, source):
        """All files of this table have this copy mode."""
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)

        plan = plan_job(
            job(source("plain"), str(tmp_path / "t"), transform={"select": MOST}), settings=settings, spark=spark
        )

        assert [(way.way, way.files, way.reason) for way in plan.ways] == [("Grafted", FILES, "")]
        assert plan.estimated_seconds > 0


class TestAReplica:
    """A replica ships new files with their computed columns, and hides rows in existing ones."""

    def test_a_replica_of_a_changing_source_has_computed_columns(self, spark, tmp_path, run, source):
        """Rows keep their order, so the source's deletion vectors fit."""
        changing = str(tmp_path / "s")
        shutil.copytree(source("plain"), changing)
        new = [f"id + {ROWS} AS id", "part", "name", "at", "money", "nested", "left"]
        statements = [
            f"DELETE FROM delta.`{changing}` WHERE id % 100 = 7",
            f"INSERT INTO delta.`{changing}` BY NAME SELECT {', '.join(new)} FROM delta.`{changing}`",
        ]

        def observe(progress):
            while progress.rows_done and statements:
                spark.sql(statements.pop(0))

        outcome = run("plain", observe, **REPLICA, transform={"select": MOST}, throttle={"rowsPerSecond": 20_000})

        assert (outcome.reason, outcome.message, outcome.receipt.equal) == ("Complete", "", True)
        assert rows_in(str(tmp_path / "t")) == 2 * (ROWS - ROWS // 100)
        assert kept(str(tmp_path / "t")) == len(adds_of(tmp_path / "t")) > FILES
