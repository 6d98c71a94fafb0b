"""An empty string in a partition column is an empty string, as for Spark.

delta-rs writes the sources, because it logs an empty string unchanged.
"""

from collections import Counter

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from support.logs_of_others.rewritten import rewrite_log
from support.tables.jobs import job
from support.tables.oracle import adds_of

from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.driver.plan import plan_job
from backfill_spark.jvm.gateway import java
from backfill_spark.settings import DriverSettings

TEXTS = ["", "a", None, "~", "~a", " "]
"""Values of the partition column; a tilde escapes the empty string in the folders of staged files."""

STRATEGIES = {
    "Replica": {"strategy": {"type": "Replica"}, "source": {"key": []}},
    "Snapshot": {"strategy": {"type": "Snapshot"}},
    "Arrangement": {"strategy": {"type": "Arrangement", "arrangement": {"orderBy": [{"column": "p"}], "chunkRows": 3}}},
}
CONDITIONS = ["p = ''", "p IS NOT NULL", "p < 'a'"]


def rows(first):
    """Return twelve rows: each string twice."""

    def text(at):
        value = TEXTS[at % len(TEXTS)]
        return "cast(null AS string)" if value is None else f"'{value}'"

    selects = [f"SELECT {first + at} AS id, {text(at)} AS p, {text(at + 1)} AS v" for at in range(12)]
    return QueryBuilder().execute(" UNION ALL ".join(selects)).read_all()


@pytest.fixture
def source(tmp_path):
    """A table of twelve rows, with a file for each string."""
    path = str(tmp_path / "s")
    write_deltalake(path, rows(0), partition_by=["p"], configuration={"delta.enableChangeDataFeed": "true"})
    return path


@pytest.fixture
def run(spark, tmp_path):
    """Run a job of the table `s` to its end, and return its outcome; the source changes once, as soon as a version is pinned."""

    def go(strategy, *changes, **spec):
        pending = list(changes)

        def observe(progress):
            while pending:
                pending.pop(0)()

        backfill = job(str(tmp_path / "s"), str(tmp_path / "t"), verify="Final", **STRATEGIES[strategy], **spec)
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        return run_driver(backfill, settings=settings, spark=spark, observe=observe)

    return go


def read(spark, path, where="true"):
    """Return the rows that plain Spark reads."""
    java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    return Counter(map(tuple, spark.read.format("delta").load(str(path)).where(where).select("id", "p", "v").collect()))


class TestEachStrategy:
    """Each strategy copies the rows that plain Spark reads, and its receipt is equal."""

    @pytest.mark.parametrize("where", CONDITIONS)
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_filter_keeps_the_rows_that_spark_keeps(self, spark, tmp_path, source, run, strategy, where):
        """Only the log decides if a file passes."""
        outcome = run(strategy, transform={"where": where})

        assert (outcome.outcome, outcome.message, outcome.receipt.equal) == ("Complete", "", True)
        assert read(spark, tmp_path / "t") == read(spark, source, where)

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_the_target_has_the_rows_that_spark_reads(self, spark, tmp_path, source, run, strategy):
        """The job has no filter. The target is partitioned as the source if the strategy requires it."""
        outcome = run(strategy)

        assert (outcome.outcome, outcome.message, outcome.receipt.equal) == ("Complete", "", True)
        assert read(spark, tmp_path / "t") == read(spark, source)


class TestAReplica:
    """A replica has the partition values of its source, in each copy mode of a file."""

    def test_a_replica_logs_the_values_of_its_source(self, tmp_path, source, run):
        """Any engine that reads both tables sees the same rows."""
        run("Replica")

        def values(path):
            return Counter(add["partitionValues"]["p"] for add in adds_of(path).values())

        assert values(tmp_path / "t") == values(source)

    def test_a_replica_keeps_empty_strings_in_decoded_files(self, spark, tmp_path, source, run):
        """Spark writes a file without row counts in the log. Its folders have no name for an empty string."""
        rewrite_log(spark, source, lambda add: add.pop("stats"))
        outcome = run("Replica")

        assert (outcome.outcome, outcome.message, outcome.receipt.equal) == ("Complete", "", True)
        assert read(spark, tmp_path / "t") == read(spark, source)

    def test_a_replica_keeps_empty_strings_in_shipped_versions(self, spark, tmp_path, source, run):
        """The source gets new files and a deletion."""
        outcome = run(
            "Replica",
            lambda: write_deltalake(source, rows(100), mode="append"),
            lambda: DeltaTable(source).delete("id = 0"),
            throttle={"rowsPerSecond": 6},
        )

        assert (outcome.outcome, outcome.message, outcome.receipt.equal) == ("Complete", "", True)
        assert sum(read(spark, tmp_path / "t").values()) == 23
        assert read(spark, tmp_path / "t") == read(spark, source)

    def test_the_receipt_finds_a_null_in_place_of_an_empty_string(self, spark, tmp_path, source, run):
        """An earlier release stored null. The receipt compares the values that readers see on both sides."""
        run("Replica")
        rewrite_log(
            spark, tmp_path / "t", lambda add: add["partitionValues"].update(p=add["partitionValues"]["p"] or None)
        )
        backfill = job(source, str(tmp_path / "t"), verify="Final", **STRATEGIES["Replica"])
        receipt, *_ = verify_offline(
            backfill, settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark
        )

        assert not receipt.equal
        assert any("partition value p is None, and that of the source ''" in file.what for file in receipt.files)


class TestAPartitionedTarget:
    """A strategy that writes rows stores null in a partitioned target, as Spark's own write does."""

    @pytest.mark.parametrize("stats", [True, False], ids=["copied", "decoded"])
    def test_a_partitioned_target_equals_a_write_of_plain_spark(self, spark, tmp_path, source, run, stats):
        """A row must not depend on the copy mode of its file."""
        if not stats:
            rewrite_log(spark, source, lambda add: add.pop("stats"))
        outcome = run("Snapshot", target={"partitionBy": ["p"]})
        plain = spark.read.format("delta").load(source).write.format("delta").partitionBy("p")
        plain.save(str(tmp_path / "plain"))

        assert (outcome.outcome, outcome.message, outcome.receipt.equal) == ("Complete", "", True)
        assert read(spark, tmp_path / "t") == read(spark, tmp_path / "plain")

    def test_a_plan_warns_that_the_target_stores_null(self, spark, tmp_path, source):
        """A filter `p = ''` finds no row of the target."""
        backfill = job(source, str(tmp_path / "t"), target={"partitionBy": ["p"]})
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        (warning,) = [
            entry
            for entry in plan_job(backfill, settings=settings, spark=spark).warnings
            if entry.reason == "EmptyTextIsNull"
        ]

        assert "column p has an empty string in 1 file of" in warning.message
        assert "other columns" in warning.hint


@pytest.fixture
def without_ansi(spark):
    """Plain Spark reads such a table only with ANSI mode off; in ANSI mode it refuses the cast."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield
    spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.usefixtures("without_ansi")
class TestOtherTypes:
    """Other types have no empty string: in a partition column of such a type it is null."""

    @pytest.mark.parametrize(
        "kind", ["INT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(10, 2)", "BOOLEAN"]
    )
    def test_a_replica_has_the_rows_that_spark_reads(self, spark, tmp_path, run, kind):
        """The reference is Spark's cast of an empty string."""
        path = str(tmp_path / "s")
        spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, p {kind}, v STRING) USING delta PARTITIONED BY (p)")
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, NULL, 'a')")
        rewrite_log(spark, path, lambda add: add["partitionValues"].update(p=""))
        outcome = run("Replica", transform={"where": "p IS NULL"})

        assert (outcome.outcome, outcome.message, outcome.receipt.equal) == ("Complete", "", True)
        assert sum(read(spark, tmp_path / "t").values()) == 1
        assert read(spark, tmp_path / "t") == read(spark, path)
