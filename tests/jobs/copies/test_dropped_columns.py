"""Files of a table that dropped columns: those that still have one are decoded; plain Parquet shows the columns of each target file."""

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.tables.jobs import job
from support.tables.oracle import adds_of, foreign_files, rows_in

from backfill_core.positions.source_names import RowOrder, source_of
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.settings import DriverSettings

MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'"
REPLICA = {"source": {"key": []}, "strategy": {"type": "Replica"}, "after": "Exit"}
COLUMNS = "id LONG, secret STRING, v STRING, st STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT, y: INT>>"
ROW = (
    "SELECT id, concat('s', id), concat('v', id), named_struct('a', CAST(id AS INT), 'b', concat('b', id)),"
    " array(named_struct('x', 1, 'y', CAST(id AS INT)))"
)
EACH = 30


def made(spark, path, *, rows=EACH):
    """Make two files with a column, drop it, and make one without it; each has a hidden row."""
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING delta TBLPROPERTIES ({MAPPED})")
    spark.sql(f"INSERT INTO {table} {ROW} FROM range(0, {2 * rows}, 1, 2)")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN secret")
    without = ROW.replace(" concat('s', id),", "")
    spark.sql(f"INSERT INTO {table} {without} FROM range({2 * rows}, {3 * rows}, 1, 1)")
    spark.sql(f"DELETE FROM {table} WHERE id % {rows} = 7")


@pytest.fixture(scope="module")
def dropped(spark, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("dropped") / "s")
    made(spark, path)
    return path


@pytest.fixture
def run(spark, tmp_path):
    """Runs a job from `s` to a folder."""

    def run(name="t", **spec):
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2, check_unique=False)
        backfill = job(
            str(tmp_path / "s"), str(tmp_path / name), **{"name": name, "verify": "Final", **REPLICA, **spec}
        )
        return run_driver(backfill, settings=settings, spark=spark)

    return run


def copies(table):
    """Return the files of a target that have the rows of a source's file in their places."""
    found = {path: source_of(path) for path in adds_of(table)}
    return [path for path, origin in found.items() if origin is not None and origin.order is RowOrder.KEPT]


def columns_in(spark, table):
    """Return the columns of each file of a table, by their names in files."""
    return [sorted(spark.read.parquet(str(Path(table, path))).columns) for path in adds_of(table)]


def physical(table):
    """Return the names in files of a table's columns."""
    fields = json.loads(DeltaTable(str(table)).schema().to_json())["fields"]
    return sorted(field["metadata"].get("delta.columnMapping.physicalName", field["name"]) for field in fields)


class TestADroppedColumn:
    """A dropped column is in no file of the target."""

    def test_files_that_have_it_are_decoded(self, spark, tmp_path, dropped, run):
        """Files written afterwards are copied byte by byte, and the receipt compares their bytes."""
        shutil.copytree(dropped, tmp_path / "s")

        outcome = run()

        assert (outcome.reason, outcome.message, outcome.receipt.equal) == ("Complete", "", True)
        assert (outcome.receipt.files_by_bytes, outcome.receipt.rows) == (1, 3 * EACH - 3)
        assert len(copies(tmp_path / "t")) == 1
        assert {*map(tuple, columns_in(spark, tmp_path / "t"))} == {tuple(physical(tmp_path / "t"))}
        assert all("s7" not in add["stats"] for add in adds_of(tmp_path / "t").values())
        there, here = str(tmp_path / "t"), str(tmp_path / "s")
        assert foreign_files(there, here) == foreign_files(here, there) == 0
        assert rows_in(there) == 3 * EACH - 3

    @pytest.mark.parametrize("goal", [REPLICA, {"strategy": {"type": "Snapshot"}, "target": {"writeMode": "Append"}}])
    def test_does_not_come_back_under_its_name(self, spark, tmp_path, run, goal):
        """Files have it under the name that another column has now, in the source and in a target with plain names."""
        table = f"delta.`{tmp_path / 's'}`"
        spark.sql(f"CREATE TABLE {table} (id LONG, secret STRING, v STRING) USING delta")
        spark.sql(f"INSERT INTO {table} SELECT id, concat('s', id), 'v' FROM range(0, {EACH}, 1, 2)")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({MAPPED})")
        spark.sql(f"ALTER TABLE {table} DROP COLUMN secret")
        spark.sql(f"ALTER TABLE {table} ADD COLUMN secret STRING AFTER id")
        spark.sql(f"INSERT INTO {table} VALUES ({EACH}, 'new', 'v')")

        outcome = run(**goal)

        assert (outcome.reason, outcome.receipt.equal) == ("Complete", True)
        found = QueryBuilder().register("t", DeltaTable(str(tmp_path / "t")))
        assert found.execute("SELECT id FROM t WHERE secret IS NOT NULL").read_all()["id"].to_pylist() == [EACH]
        assert len(copies(tmp_path / "t")) == 1
        there, here = str(tmp_path / "t"), str(tmp_path / "s")
        assert foreign_files(there, here) == foreign_files(here, there) == 0

    def test_is_left_out_of_a_job_with_computed_columns(self, spark, tmp_path, run):
        """The file without the dropped column keeps its chunks; the others are decoded."""
        made(spark, tmp_path / "s", rows=12_000)
        select = ["id", "st", "l", "coalesce(v, 'none') AS v"]

        outcome = run(transform={"select": select})

        assert (outcome.reason, outcome.message, outcome.receipt.equal) == ("Complete", "", True)
        assert len(copies(tmp_path / "t")) == 1
        assert {*map(tuple, columns_in(spark, tmp_path / "t"))} == {tuple(physical(tmp_path / "t"))}
        there = spark.read.format("delta").load(str(tmp_path / "t"))
        assert there.exceptAll(spark.read.format("delta").load(str(tmp_path / "s")).selectExpr(*select)).isEmpty()

    @pytest.mark.parametrize("field", ["st.b", "l.element.y"])
    def test_inside_another_is_decoded_file_by_file(self, spark, tmp_path, dropped, run, field):
        """What was written afterwards has it not."""
        shutil.copytree(dropped, tmp_path / "s")
        table = f"delta.`{tmp_path / 's'}`"
        spark.sql(f"ALTER TABLE {table} DROP COLUMN {field}")
        st = "named_struct('a', 1)" if field == "st.b" else "named_struct('a', 1, 'b', 'x')"
        element = "named_struct('x', 1, 'y', 2)" if field == "st.b" else "named_struct('x', 1)"
        spark.sql(f"INSERT INTO {table} VALUES (1000, 'v', {st}, array({element}))")

        outcome = run()

        assert (outcome.reason, outcome.receipt.equal) == ("Complete", True)
        assert (len(copies(tmp_path / "t")), outcome.receipt.files_by_bytes) == (1, 1)
        there, here = str(tmp_path / "t"), str(tmp_path / "s")
        assert foreign_files(there, here) == foreign_files(here, there) == 0

    def test_its_table_is_planned_as_decoded(self, spark, tmp_path, dropped):
        """A plan reads no footer: most files have it, and a file without it is copied whole all the same."""
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)

        plan = plan_job(job(dropped, str(tmp_path / "t"), **REPLICA), settings=settings, spark=spark)

        assert [(way.way, way.files, way.reason) for way in plan.ways] == [
            ("Decoded", 3, "a file has a column that its table does not have")
        ]
        assert plan.estimated_seconds > 0
