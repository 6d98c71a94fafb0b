"""Statistics of copied files: Spark and another engine find each value with a predicate."""

import json
from contextlib import contextmanager

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from support.tables.foreign_files import write_file
from support.tables.jobs import job
from support.tables.oracle import adds_of

from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings

SCHEMA = """message m {
  optional int64 id; optional int32 u8 (INTEGER(8,false)); optional int32 u16 (INTEGER(16,false));
  optional int32 u32 (INTEGER(32,false)); optional int64 u64 (INTEGER(64,false));
  optional int64 ms (TIMESTAMP(MILLIS,true)); optional int64 wall (TIMESTAMP(MILLIS,false)); optional int32 day (DATE);
  optional int32 d32 (DECIMAL(5,2)); optional int64 d64 (DECIMAL(12,2)); optional binary kind (ENUM);
  optional binary doc (JSON); optional binary name (STRING); optional double ratio;
  optional group st { optional int64 ms (TIMESTAMP(MILLIS,true)); optional int32 u32 (INTEGER(32,false)); }
}"""
AT = 1_704_067_200_000
VALUES = [
    {
        "id": 1, "u8": 5, "u16": 6, "u32": 5, "u64": 7, "ms": AT, "wall": 1, "day": -719_164, "d32": 123, "d64": 5,
        "kind": "a", "doc": "{}", "name": "a\U0001f600", "ratio": 1.5, "st": {"ms": AT, "u32": 5},
    },
    {
        "id": 2, "u8": 200, "u16": 60_000, "u32": -294_967_296, "u64": -7, "ms": AT + 1, "wall": 2_001, "day": 3,
        "d32": 12_300, "d64": 7, "kind": "b", "doc": '{"a":1}', "name": "a\uffff", "ratio": 2.5,
        "st": {"ms": AT + 1, "u32": -294_967_296},
    },
]  # fmt: skip
LEGACY = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}
"""Metadata of a footer whose days follow the calendar before Spark 3."""

PLAIN = ("id", "u32", "ms", "d32", "name", "ratio")
"""Columns that another engine reads; its own literals of the others differ from Spark's."""


@pytest.fixture
def run(spark, tmp_path):
    """Runs a job from `s` to a folder."""

    def run(name="t", **spec):
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2, check_unique=False)
        spec = {"name": name, "verify": "Final", "target": {"writeMode": "Append"}, **spec}
        outcome = run_driver(job(str(tmp_path / "s"), str(tmp_path / name), **spec), settings=settings, spark=spark)
        assert outcome.reason == "Complete", outcome.message
        assert outcome.receipt.equal
        return outcome

    return run


@contextmanager
def session_with(spark, conf):
    """Use other settings of a session for a while."""
    before = {name: spark.conf.get(name, None) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def leaves(schema, inside=""):
    """Yield each column of a schema that is in no list, with its type."""
    for field in schema:
        if field.dataType.typeName() == "struct":
            yield from leaves(field.dataType, f"{inside}{field.name}.")
        elif field.dataType.typeName() not in ("array", "map"):
            yield f"{inside}{field.name}", field.dataType.simpleString()


def not_found(spark, path):
    """Return the values of a table that a predicate of Spark does not find: (column, value)."""
    table = spark.read.format("delta").load(str(path))
    missed = []
    for name, kind in leaves(table.schema):
        values = {row[0] for row in table.selectExpr(f"CAST({name} AS STRING)").distinct().collect()} - {None}
        assert values, name
        for value in values:
            quoted = value.replace("\\", "\\\\").replace("'", "\\'")
            if table.where(f"{name} = CAST('{quoted}' AS {kind})").isEmpty():
                missed.append((name, value))
    return missed


def not_found_by_another_engine(path, *names):
    """Return the same for some columns, as delta-rs reads them."""
    missed = []
    for name in names:
        held = QueryBuilder().register("t", DeltaTable(str(path)))
        kind = held.execute(f"SELECT arrow_typeof({name}) AS k FROM t LIMIT 1").read_all()["k"].to_pylist()[0]
        values = held.execute(f"SELECT DISTINCT CAST({name} AS STRING) AS v FROM t WHERE {name} IS NOT NULL").read_all()
        for value in values["v"].to_pylist():
            typed = f"arrow_cast('{value}', '{kind}')"
            (count,) = held.execute(f"SELECT count(*) AS n FROM t WHERE {name} = {typed}").read_all()["n"].to_pylist()
            if not count:
                missed.append((name, value))
    return missed


def statistics(path):
    """Return the statistics of the only file of a table."""
    (add,) = adds_of(path).values()
    return json.loads(add["stats"])


class TestAFileThatDeltaRsWrote:
    """Its bounds of floats exclude NaN, which Spark orders after all other values."""

    def test_each_value_that_delta_rs_wrote_is_found(self, spark, tmp_path, run):
        """The smallest value is used."""
        rows = "SELECT 1 AS id, 1.5 AS ratio UNION ALL SELECT 2, CAST('NaN' AS DOUBLE) UNION ALL SELECT 3, 2.5"
        write_deltalake(str(tmp_path / "s"), QueryBuilder().execute(rows).read_all())

        run()

        table = spark.read.format("delta").load(str(tmp_path / "t"))
        assert table.where("ratio > 2").count() == 2
        assert statistics(tmp_path / "t")["minValues"]["ratio"] == 1.5


class TestAFileOfAnotherWriter:
    """Such a file has values in other units, of other ranges and in other calendars than its table's types."""

    @pytest.mark.rest
    @pytest.mark.parametrize("metadata", [{}, LEGACY], ids=["unsaid", "legacy"])
    @pytest.mark.parametrize(
        "select", [{}, {"select": ["id AS key", "* EXCEPT (id, d64)"]}], ids=["whole", "projected"]
    )
    def test_each_value_of_another_writer_is_found(self, spark, tmp_path, run, select, metadata):
        """The file is copied whole, or without a column and with a renamed one."""
        write_file(spark, f"{tmp_path}/s/a.parquet", SCHEMA, VALUES, metadata)
        spark.sql(f"CONVERT TO DELTA parquet.`{tmp_path}/s`")

        run(transform=select)

        assert all("/w-" in path for path in adds_of(tmp_path / "t"))
        assert not_found(spark, tmp_path / "t") == []
        names = [name for name in PLAIN if name != "id" or "AS key" not in str(select)]
        assert not_found_by_another_engine(tmp_path / "t", *names) == []

    def test_counts_of_nulls_are_kept(self, spark, tmp_path, run):
        """They do not depend on the meaning of a value. Exact bounds stay, too."""
        write_file(spark, f"{tmp_path}/s/a.parquet", SCHEMA, [*VALUES, {"id": 3}])
        spark.sql(f"CONVERT TO DELTA parquet.`{tmp_path}/s`")

        run()
        run("u", transform={"select": ["* EXCEPT (d64)"]})

        whole, projected = statistics(tmp_path / "t"), statistics(tmp_path / "u")
        exact = {"id": 1, "d32": 1.23, "d64": 0.05, "name": "a\uffff"}
        log = {
            "ms": "2024-01-01T00:00:00.000Z",
            "wall": "1970-01-01T00:00:00.001",
            "st": {"ms": "2024-01-01T00:00:00.000Z"},
        }
        assert {name: value for name, value in whole["minValues"].items() if value != {}} == {
            **exact,
            "ratio": 1.5,
            **log,
        }
        assert "ratio" not in whole["maxValues"]
        exact.pop("d64")
        assert projected["minValues"] == {**exact, "ratio": 1.5, "st": {}}
        for copied in (whole, projected):
            assert copied["numRecords"] == 3
            assert (copied["nullCount"]["u32"], copied["nullCount"]["st"], copied["nullCount"]["id"]) == (
                1, {"ms": 1, "u32": 1}, 0,
            )  # fmt: skip


GRAFTED = {"select": ["* EXCEPT (name)", "upper(name) AS name"]}
SESSIONS = {
    "milliseconds": {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"},
    "int96": {"spark.sql.parquet.outputTimestampType": "INT96"},
    "legacy": {
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY", "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    },
}  # fmt: skip
DAYS = {
    "milliseconds": ("DATE '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00.001'"),
    "int96": ("DATE '0001-01-01'", "TIMESTAMP '0001-01-02 03:04:05.678901'"),
    "legacy": ("DATE '0001-01-01'", "TIMESTAMP '0001-01-02 03:04:05.678901'"),
}


class TestAFileThatSparkWrote:
    """Spark wrote the file with other settings than a job's own."""

    @pytest.mark.parametrize("session", SESSIONS)
    def test_each_value_that_spark_wrote_is_found(self, spark, tmp_path, run, session):
        """The file is copied whole, without a column, and with computed columns."""
        day, at = DAYS[session]
        rows = spark.range(0, 10_000, 1, 1).selectExpr(
            "id", "concat('v', id % 3) AS name", "id AS more", f"date_add({day}, CAST(id % 3 AS INT)) AS day",
            f"{at} + make_dt_interval(0, 0, 0, id % 3) AS at",
            "IF(id % 2 = 0, CAST('NaN' AS DOUBLE), 1D) AS ratio",
        )  # fmt: skip
        with session_with(spark, SESSIONS[session]):
            rows.write.format("delta").save(f"{tmp_path}/s")
        # In the old form, timestamps before 1754 are others for this engine, also in the source.
        names = ("day",) if session == "int96" else ("day", "at")

        for name, select in {"t": {}, "u": {"select": ["* EXCEPT (more)"]}, "v": GRAFTED}.items():
            run(name, transform=select)
            table = spark.read.format("delta").load(str(tmp_path / name))
            for column in ("day", "at", "ratio"):
                for (value,) in table.selectExpr(f"CAST({column} AS STRING)").distinct().collect():
                    kind = table.schema[column].dataType.simpleString()
                    rows = table.where(f"{column} = CAST('{value}' AS {kind})")
                    assert not rows.isEmpty(), (name, column, value)
            assert not_found_by_another_engine(tmp_path / name, *names) == []

    def test_timestamps_in_the_old_form_keep_the_bounds_of_the_log(self, spark, tmp_path, run):
        """Spark writes them by default, and their footers have no bounds. Other columns have those of the footer."""
        rows = spark.range(9).selectExpr("id", "TIMESTAMP '2024-01-01 00:00:00.123' AS at").coalesce(1)
        with session_with(spark, SESSIONS["int96"]):
            rows.write.format("delta").save(f"{tmp_path}/s")

        run()

        assert statistics(tmp_path / "t") == statistics(tmp_path / "s")


class TestRowsThatSparkStages:
    """Their bounds are values of their columns, too."""

    def test_each_value_that_spark_stages_is_found(self, spark, tmp_path, run):
        """A timestamp before the year 1, and bytes that are no valid string, are decoded here."""
        spark.sql(
            "SELECT id, timestamp_micros(-62200000000000000 + id) AS at, CAST(unhex(concat('61', IF(id = 1, '80', 'C3A9'))) "
            "AS STRING) AS name FROM range(0, 3, 1, 1)"
        ).write.format("delta").save(f"{tmp_path}/s")

        run(transform={"where": "id * 2 >= 0"})

        assert not any("/w-" in path for path in adds_of(tmp_path / "t"))
        table = spark.read.format("delta").load(str(tmp_path / "t"))
        assert table.where("name = 'aé'").count() == 2
        assert table.where("at = timestamp_micros(-62200000000000000)").count() == 1
