"""A predicate finds its matching rows in a copy, for every copy mode, type and value."""

from random import Random

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from support.attack import SECONDS
from support.tables.jobs import job
from support.tables.oracle import adds_of
from support.tables.predicates import lost, lost_by_another_engine

from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings

EACH, FILES = 10_000, 2
"""Rows of a file, and number of files; smaller files get no computed columns next to copied ones."""

pytestmark = pytest.mark.rest

FLOATS = (
    "CASE WHEN id % 5000 = 7 THEN 'NaN' WHEN id % 5000 = 8 THEN '-0.0' WHEN id % 5000 = 9 AND {late} THEN 'Infinity' ELSE "
    "CAST(id / 7 + 1 AS STRING) END"
)
DAYS = (
    "CASE WHEN id = 7 THEN {kind} '0001-01-02' WHEN id = {last} AND {far} THEN {kind} '+10000-01-01' ELSE {other} END"
)
MOMENT = "timestamp_micros(id * 1000003 + 1700000000123456)"
MODES = {
    "whole": {},
    "projected": {"select": ["* EXCEPT (more, e)", "e AS f"]},
    "grafted": {"select": ["* EXCEPT (more, db)", "coalesce(db, 1.5D) AS db", "upper(e) AS loud"]},
    "decoded": {"where": "id * 2 >= 0"},
}

FEW = (("spark", "grafted"), ("delta-rs", "whole"))
"""Each takes a minute: `make test-all` runs two, and `make attack` runs all."""

ALL = (*(("spark", mode) for mode in MODES), ("delta-rs", "whole"), ("delta-rs", "grafted"))


def columns(*, far):
    """Return columns of each type, with values that statistics represent badly. With `far`, some are after the year 9999."""
    late = f"id >= {EACH}"
    fields = {"late": late, "far": str(far).lower(), "last": EACH * FILES - 1}
    values = {
        "l": "id * 1000003 - 90000000", "i": "CAST(id * 200000 - 2147483648 AS INT)", "sh": "CAST(id - 15000 AS SMALLINT)",
        "by": "CAST(id DIV 160 AS TINYINT)", "fl": f"CAST({FLOATS.format(**fields)} AS FLOAT)",
        "db": f"CAST({FLOATS.format(**fields)} AS DOUBLE)", "d5": "CAST(id / 100 AS DECIMAL(5, 2))",
        "d20": "CAST(id * 12345678901 / 3 AS DECIMAL(20, 4))",
        "d38": "CAST(concat(id, '9999999999999999999999.0123456789') AS DECIMAL(38, 10))",
        "s": f"concat(repeat(IF({late}, 'b', 'a'), 31), IF(id % 2 = 0, '\U0001f600', '\uffff'), id, repeat('z', 99))",
        "e": "CASE id % 5 WHEN 0 THEN '' WHEN 1 THEN 'a' WHEN 2 THEN '\U0010ffff' WHEN 3 THEN ' ' ELSE concat('q', id) END",
        "ends": "repeat('\U0010ffff', CAST(30 + id % 8 AS INT))", "bi": f"CAST(concat(IF({late}, 'b', 'a'), id) AS BINARY)",
        "bo": late, "d": DAYS.format(kind="DATE", other="date_add(DATE '1890-01-01', CAST(id AS INT))", **fields),
        "t": DAYS.format(kind="TIMESTAMP", other=MOMENT, **fields),
        "n": DAYS.format(kind="TIMESTAMP_NTZ", other=f"CAST({MOMENT} AS TIMESTAMP_NTZ)", **fields),
    }  # fmt: skip
    # In each row of the second file, some columns are null.
    nulls = {name: f"id % 11 = {at} OR ({late} AND {at % 4 == 3})" for at, name in enumerate(values)}
    inner = f"IF(id % 5 = 0, NULL, named_struct('z', concat('z', id), 'at', {MOMENT}))"
    return [
        "id",
        *(f"IF({nulls[name]}, NULL, {value}) AS {name}" for name, value in values.items()),
        f"IF(id % 6 = 0, NULL, named_struct('x', IF(id % 4 = 0, NULL, id - 5000), 'y', {inner})) AS st",
        "array(id, NULL) AS list", "id AS more",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def sources(spark, tmp_path_factory):
    """The same rows as Spark writes them, with some deleted by a vector, and as delta-rs writes them."""
    folder = tmp_path_factory.mktemp("sources")
    rows, own = spark.range(0, EACH * FILES, 1, FILES), folder / "spark"
    rows.selectExpr(*columns(far=True)).write.format("delta").option("delta.enableDeletionVectors", "true").save(
        str(own)
    )
    spark.sql(f"DELETE FROM delta.`{own}` WHERE id % {EACH} = {EACH - 3}")
    rows.selectExpr(*columns(far=False)).write.format("delta").save(f"{folder}/plain")
    for first in range(0, EACH * FILES, EACH):
        plain = QueryBuilder().register("t", DeltaTable(f"{folder}/plain"))
        part = plain.execute(f"SELECT * FROM t WHERE id >= {first} AND id < {first + EACH}").read_all()
        write_deltalake(f"{folder}/delta-rs", part, mode="append")
    return folder


@pytest.fixture(scope="module", params=ALL if SECONDS else FEW, ids="-".join)
def copied(request, spark, sources, tmp_path_factory):
    """The writer of a source, the copy mode of its files, and the target."""
    writer, mode = request.param
    folder = tmp_path_factory.mktemp("copied")
    delta = {"properties": {"delta.enableDeletionVectors": "true"}, "writeMode": "Append"}
    backfill = job(str(sources / writer), f"{folder}/t", verify="Final", transform=MODES[mode], target=delta)
    settings = DriverSettings(state_dir=folder / "state", cores=2, check_unique=False)
    outcome = run_driver(backfill, settings=settings, spark=spark)

    assert (outcome.reason, outcome.receipt.equal) == ("Complete", True), outcome.message
    assert sum("/w-" in path for path in adds_of(f"{folder}/t")) == (0 if mode == "decoded" else FILES)
    return writer, mode, f"{folder}/t"


class TestAPredicate:
    """Readers of the target skip files by the statistics in the log."""

    def test_another_engine_finds_each_row(self, copied):
        """delta-rs does not find a NaN in files that it wrote, not even in the source."""
        writer, mode, target = copied
        floats = ("fl", "db") if writer == "delta-rs" else ()

        assert lost_by_another_engine(target, Random(f"{writer} {mode}"), without=floats) == []

    def test_spark_finds_each_row(self, spark, copied):
        """Predicates compare each column, nested ones too, with values inside and outside all bounds."""
        writer, mode, target = copied
        like = f"id % 5000 IN (7, 8, 9, 10, 11) OR id = {EACH * FILES - 1}"

        assert lost(spark, target, Random(f"{writer} {mode}"), like=like) == []
