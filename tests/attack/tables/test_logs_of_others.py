"""Each strategy copies the rows that plain Spark reads from a table, in any form of its log."""

from collections import Counter
from contextlib import contextmanager
from random import Random

import pytest
from support.attack import seeds
from support.logs_of_others.generated import LITERALS, ForeignTable
from support.tables.jobs import job

from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.gateway import java
from backfill_spark.settings import DriverSettings

pytestmark = pytest.mark.rest

ORDER = {
    "orderBy": [{"column": "p"}, {"column": "v", "direction": "Descending"}],
    "chunkRows": 5,
    "maxReadAmplification": 1000,
}
STRATEGIES = {
    "Replica": {"source": {"key": []}, "strategy": {"type": "Replica"}},
    "Snapshot": {"source": {"key": []}, "target": {"writeMode": "Append"}},
    "Upsert": {"source": {"key": ["id"]}},
    "RearrangedChain": {"source": {"key": ["id"]}, "strategy": {"type": "RearrangedChain"}},
    "Arrangement": {"source": {"key": ["id"]}, "strategy": {"type": "Arrangement", "arrangement": ORDER}},
}


@contextmanager
def reading_all(spark):
    """Make plain Spark evaluate each filter on the rows, and skip no file by its statistics."""
    spark.conf.set("spark.databricks.delta.stats.skipping", "false")
    try:
        yield
    finally:
        spark.conf.unset("spark.databricks.delta.stats.skipping")


@contextmanager
def comparing_zeros(spark, where):
    """Let Spark compare each row with a zero of a floating type: Parquet's filters do not find -0.0 for it, in any table."""
    before = spark.conf.get("spark.sql.parquet.filterPushdown")
    spark.conf.set("spark.sql.parquet.filterPushdown", "false" if where.endswith(" 0D") else before)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.parquet.filterPushdown", before)


def rows_of(spark, path, where):
    """Return the rows that plain Spark reads."""
    java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    rows = spark.read.format("delta").load(str(path)).where(where)
    return Counter(map(tuple, rows.selectExpr("id", "cast(p AS string)", "cast(v AS string)").collect()))


def draw_filter(rng, table):
    """Return a filter of the partition column or the other column, or `true`."""
    name, kind = rng.choice([("p", table.partition), ("v", table.values.type)])
    literal = rng.choice(LITERALS[kind])
    return rng.choice(
        ["true", f"{name} IS NULL", f"{name} IS NOT NULL", f"{name} = {literal}", f"{name} >= {literal}", f"NOT {name} < {literal}",
         f"{name} <=> {literal}", f"{name} <> {literal}"]
    )  # fmt: skip


class TestEachStrategy:
    """Each strategy copies the pinned version, and the version after it."""

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_the_copy_has_the_rows_that_plain_spark_reads(self, spark, tmp_path, strategy):
        """The seed determines the table, its versions and the filter."""
        for number, seed in enumerate(seeds(3, share=1 / len(STRATEGIES))):
            self.check_seed(spark, tmp_path / str(number), strategy, Random(seed), seed)

    def check_seed(self, spark, folder, strategy, rng, seed):
        table = ForeignTable(spark, folder / "s", rng)
        where = draw_filter(rng, table)
        changes = [table.append, *([table.remove] if strategy == "Replica" else [])]

        def observe(progress):
            while changes:
                changes.pop(0)()

        spec = {
            "verify": "Final", "barrier": {"intervalMs": 200}, "throttle": {"rowsPerSecond": 20}, "transform": {"where": where},
            **STRATEGIES[strategy],
        }  # fmt: skip
        example = (seed, strategy, table.partition, table.values.type, where)
        outcome = run_driver(
            job(str(table.path), str(folder / "t"), **spec),
            settings=DriverSettings(cores=2, state_dir=folder / "state"), spark=spark, observe=observe,
        )  # fmt: skip

        assert (outcome.outcome, outcome.message) == ("Complete", ""), example
        assert outcome.receipt.equal, example
        with reading_all(spark):
            expected = rows_of(spark, table.path, where)
        assert rows_of(spark, folder / "t", "true") == expected, example
        with comparing_zeros(spark, where):
            assert rows_of(spark, folder / "t", where) == expected, example
