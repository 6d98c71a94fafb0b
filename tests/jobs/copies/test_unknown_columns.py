"""Promises of files with columns that their table does not know, or knows in other letters; plain Parquet says what is in a copy."""

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.tables.jobs import job
from support.tables.oracle import adds_of

from backfill_core.positions.source_names import RowOrder, source_of
from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

ROWS = 12_000
"""So many that computed columns are joined to a file."""

DOMAINS = "'delta.feature.domainMetadata' = 'supported'"
FOREIGN = "SELECT id - 2 AS id, concat('f', id) AS {name} FROM range(0, 2, 1, 1)"


@pytest.fixture
def source(spark, tmp_path):
    """A table of two columns in one file."""
    path = str(tmp_path / "s")
    spark.sql(f"CREATE TABLE delta.`{path}` (id LONG, note STRING) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, concat('n', id) FROM range(0, {ROWS}, 1, 1)")
    return path


@pytest.fixture
def run(spark, tmp_path, source):
    """Runs a replica of `source` that follows it through `changes`, each once all before it has arrived."""

    def run(select=None, *changes, **spec):
        left, stop = list(changes), StopSignal()

        def observe(progress):
            if progress.caught_up and progress.consumed_version == DeltaTable(source).version():
                if left:
                    left.pop(0)()
                else:
                    stop.ask(force=False)

        transform = {} if select is None else {"transform": {"select": select}}
        wanted = {"name": "unknown", "source": {"key": []}, "strategy": {"type": "Replica"}, "after": "Follow"}
        backfill = job(source, str(tmp_path / "t"), **{**wanted, **transform, **spec})
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2, check_unique=False)
        return run_driver(backfill, settings=settings, spark=spark, observe=observe, stop=stop)

    return run


def add_file(spark, table, query, **partition):
    """Append a file as it is, as a writer does that asks no catalog."""
    folder = Path(f"{table}-foreign")
    spark.sql(query).write.parquet(str(folder))
    (written,) = folder.glob("*.parquet")
    name = "foreign.parquet"
    shutil.copy(written, Path(table, name))
    stats = json.dumps({"numRecords": 2, "nullCount": {"id": 0, "note": 0}})
    add = {
        "path": name, "partitionValues": partition, "size": Path(table, name).stat().st_size, "modificationTime": 1,
        "dataChange": True, "stats": stats,
    }  # fmt: skip
    version = DeltaTable(table).version() + 1
    Path(table, "_delta_log", f"{version:020}.json").write_text(json.dumps({"add": add}) + "\n")


def values(table, column):
    """Return a column of the rows that a foreign file brought, as another engine reads it."""
    found = QueryBuilder().register("t", DeltaTable(str(table)))
    return sorted(found.execute(f"SELECT {column} FROM t WHERE {column} LIKE 'f%'").read_all()[column].to_pylist())


def columns_in(spark, table):
    """Return the columns of each file of a table, by their names in files."""
    return [sorted(spark.read.parquet(str(Path(table, path))).columns) for path in adds_of(table)]


def copies(table):
    """Return how many files of a target have the rows of a source's file in their places."""
    return sum(origin is not None and origin.order is RowOrder.KEPT for origin in map(source_of, adds_of(table)))


class TestAColumnOfALaterVersion:
    """`schemaChange: Ignore`: the job goes on with the columns that it began with."""

    @pytest.mark.parametrize(
        ("select", "shown"),
        [
            (None, ["id", "note"]),
            (["id", "note AS title"], ["id", "title"]),
            (["id", "note", "upper(note) AS extra"], ["extra", "id", "note"]),
        ],
        ids=["whole", "projected", "grafted"],
    )
    def test_is_in_no_file_of_the_target(self, spark, tmp_path, source, run, select, shown):
        """Nor is it taken for the column of its name that the job computes."""
        more = f"SELECT id, concat('n', id), 'theirs' FROM range({ROWS}, {2 * ROWS}, 1, 1)"

        def change():
            spark.sql(f"ALTER TABLE delta.`{source}` ADD COLUMN extra STRING")
            spark.sql(f"INSERT INTO delta.`{source}` {more}")

        outcome = run(select, change, source={"key": [], "schemaChange": "Ignore"})

        assert (outcome.reason, outcome.progress.lag_versions) == ("Stopped", 0)
        target = tmp_path / "t"
        assert {*map(tuple, columns_in(spark, target))} == {tuple(shown)}
        assert copies(target) == 1
        wanted = spark.read.format("delta").load(source).selectExpr(*(select or ["id", "note"]))
        found = spark.read.format("delta").load(str(target))
        assert wanted.exceptAll(found).isEmpty()
        assert found.exceptAll(wanted).isEmpty()

    def test_is_decoded_where_another_column_gets_its_name(self, spark, tmp_path, source, run):
        """A footer cannot have two of one name."""
        add_file(spark, source, FOREIGN.format(name="note, 'theirs' AS extra"))

        assert run(["id", "note AS extra"]).reason == "Stopped"
        assert values(tmp_path / "t", "extra") == ["f0", "f1"]
        assert copies(tmp_path / "t") == 1


class TestAPartitionColumn:
    """Readers take it from the log, and some writers put it into files, too."""

    def test_one_that_is_not_taken_stays_null_in_the_target(self, spark, tmp_path):
        """The target has another column of its name, which the job leaves null."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        spark.sql(f"CREATE TABLE delta.`{source}` (id LONG, note STRING, p STRING) USING delta PARTITIONED BY (p)")
        add_file(spark, source, FOREIGN.format(name="note, 'theirs' AS p"), p="1")
        spark.sql(
            f"CREATE TABLE delta.`{target}` (id LONG, note STRING, p STRING) USING delta TBLPROPERTIES ({DOMAINS})"
        )
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2, check_unique=False)
        goal = {"target": {"writeMode": "Append"}, "transform": {"select": ["id", "note"]}}
        outcome = run_driver(job(source, target, **goal), settings=settings, spark=spark)

        assert outcome.reason == "Complete", outcome.message
        rows = QueryBuilder().register("t", DeltaTable(target)).execute("SELECT id, p FROM t").read_all()
        assert (len(rows["id"].to_pylist()), set(rows["p"].to_pylist())) == (2, {None})
        assert copies(target) == 1  # of the other column chunks


class TestAColumnInOtherLetters:
    """A table that was Hive's may have files that write NOTE where it says note."""

    @pytest.mark.parametrize(("select", "name"), [(None, "note"), (["id", "note AS title"], "title")])
    def test_is_decoded(self, spark, tmp_path, source, run, select, name):
        """Spark finds it by either name; in a copy under another name it would be lost."""
        add_file(spark, source, FOREIGN.format(name="NOTE"))

        assert run(select).reason == "Stopped"
        assert values(tmp_path / "t", name) == ["f0", "f1"]
        assert copies(tmp_path / "t") == 1
