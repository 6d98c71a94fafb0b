"""Each strategy on a table with a mix of features: at each commit delta-rs finds the source's rows in its target."""

import pytest
from support.tables.jobs import job
from support.tables.oracle import rows_in, seals, violations

from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings

ROWS, FILES = 120, 6
COLUMNS = (
    "id",
    "concat(element_at(array('a', 'A', 'é', ''), cast(id % 4 + 1 AS int)), id) AS word",
    "cast(id % 7 - 3 AS decimal(20,2)) / 4 AS price",
    "date_add(date'1969-12-31', cast(id % 5 AS int)) AS day",
    "timestamp_micros(1772323200000000 + id % 3) AS at",
    "unhex(lpad(hex(id), 4, '0')) AS code",
    "id % 2 = 0 AS even",
    "cast(id % 11 AS int) AS small",
    "if(id % 6 = 0, null, element_at(array(0.5D, double('nan'), -1.0D), cast(id % 3 + 1 AS int))) AS ratio",
    "if(id % 5 = 0, null, named_struct('a', id, 'b', array(id))) AS nested",
    "if(id % 9 = 0, null, id % 3) AS part",
)
KEY = ("word", "price", "day", "at", "code", "even", "small", "id")
STRATEGIES = {
    "Arrangement": {"arrangement": {"chunkRows": 60, "maxReadAmplification": 1000}},
    "RearrangedChain": {},
    "Replica": {},
    "Snapshot": {},
}


@pytest.fixture(scope="module")
def original(spark, tmp_path_factory):
    """A table of many small files in partitions, NULL among them; some rows are only marked as deleted."""
    path = str(tmp_path_factory.mktemp("conformance") / "s")
    writer = spark.range(0, ROWS, 1, FILES).selectExpr(*COLUMNS).write.format("delta").partitionBy("part")
    writer.option("delta.enableDeletionVectors", "true").option("delta.enableChangeDataFeed", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 3")
    return path


class TestATableOfEverything:
    """Keys of every type, upper and lower case, decimals, timestamps, nulls, deletion vectors, partitions, many small files."""

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_table_of_everything_is_copied_with_its_changes(self, spark, tmp_path, original, strategy):
        """One version has an update, a delete and a changed key, while rows are read."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        spark.sql(f"CREATE TABLE delta.`{source}` SHALLOW CLONE delta.`{original}`")
        done = []

        def observe(progress):
            if not done and progress.rows_done:
                done.append(True)
                spark.sql(
                    f"""MERGE INTO delta.`{source}` AS t USING (SELECT explode(sequence(0, {ROWS + 20}, 4)) AS n) AS s
                        ON t.id = s.n
                        WHEN MATCHED AND n % 12 = 0 THEN DELETE
                        WHEN MATCHED THEN UPDATE SET ratio = -ratio, word = concat(word, 'Z'), part = 2
                        WHEN NOT MATCHED THEN INSERT (id, word, price, day, at, code, even, small)
                            VALUES (n, 'É', 0, date'2026-03-01', timestamp'2026-03-01', unhex('ff'), true, 0)"""
                )

        # A replica has the partitions of its source, and needs no key.
        key, laid_out = ([], {}) if strategy == "Replica" else (list(KEY), {"target": {"partitionBy": ["part"]}})
        backfill = job(
            source, target, strategy={"type": strategy, **STRATEGIES[strategy]}, verify="Final",
            throttle={"rowsPerSecond": 60}, source={"key": key, "allowFilesOutside": [original]}, **laid_out,
        )  # fmt: skip
        outcome = run_driver(
            backfill, settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark, observe=observe
        )

        assert (outcome.outcome, outcome.message, done) == ("Complete", "", [True])
        assert outcome.receipt.equal
        assert [violation for seal in seals(target) for violation in violations(source, target, seal)] == []
        assert rows_in(target) == rows_in(source)
