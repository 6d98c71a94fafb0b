"""Mistakes of a user, and changes of the source: refused with the field and a hint, and not retried forever."""

import pytest
from support.endings import assert_ending
from support.tables.jobs import job, make_kind
from support.tables.oracle import seals, violations

from backfill_core.errors import InvalidSpecError
from backfill_spark.driver import attempt as driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.settings import DriverSettings
from backfill_spark.sources.delta import key_scan as key_line

ARRANGEMENT = {"type": "Arrangement", "arrangement": {"chunkRows": 300, "maxReadAmplification": 100}}
CHAIN = {"type": "RearrangedChain"}


class Place:
    """A source of 900 rows in five files, and jobs from it."""

    def __init__(self, spark, folder):
        self.spark, self.source, self.target = spark, str(folder / "s"), str(folder / "t")
        self.settings = DriverSettings(cores=2, state_dir=folder / "state")

    def plan(self, **arrangement):
        spec = job(self.source, self.target, strategy={"type": "Arrangement", "arrangement": arrangement})
        return plan_job(spec, settings=self.settings, spark=self.spark)

    def run(self, observe=lambda _: None, **spec):
        return driver.run_driver(
            job(self.source, self.target, **spec), settings=self.settings, spark=self.spark, observe=observe
        )


@pytest.fixture
def place(spark, tmp_path):
    return Place(spark, tmp_path)


class TestAnOrder:
    """Positions in an order of `Arrangement` must differ, and a read in this order must not take forever."""

    @pytest.mark.parametrize("rows_max", [10, 10_000], ids=["large", "small"])
    def test_an_order_that_is_not_unique_with_the_key_is_refused(self, place, monkeypatch, rows_max):
        """A large source is checked chunk by chunk: two rows with one key would be one in the target."""
        monkeypatch.setattr(driver, "CHECK_UNIQUE_ROWS_MAX", rows_max)
        make_kind(place.spark, place.source, "plain")
        outcome = place.run(
            source={"key": ["name"]},
            strategy={"type": "Arrangement", "arrangement": {"orderBy": [{"column": "part"}]}},
        )

        assert_ending(outcome, "KeyNotUnique")
        assert "(name) is not unique" in outcome.message
        assert "choose another key" in outcome.hint
        assert not any(seal.state["finished"] for seal in seals(place.target))

    def test_an_order_that_reads_files_too_often_is_refused_with_the_number(self, place, monkeypatch):
        """Each file has rows of each part. A table of millions of rows would be read once for each chunk."""
        monkeypatch.setattr(key_line, "CHUNK_ROWS", 100)
        make_kind(place.spark, place.source, "plain")
        by_part = {"orderBy": [{"column": "part"}], "chunkRows": 100}

        with pytest.raises(InvalidSpecError, match=r"spec\.strategy\.arrangement\.maxReadAmplification is 1,") as no:
            place.plan(**by_part, maxReadAmplification=1)

        assert "Cluster the source by part" in no.value.hint
        assert place.plan(**by_part, maxReadAmplification=100).read_amplification_percent > 100

    @pytest.mark.parametrize(
        ("expression", "name"),
        [("array(id)", "array<bigint>"), ("named_struct('a', id)", "struct<a:bigint>")],
    )
    def test_an_order_by_a_type_without_order_is_refused(self, place, expression, name):
        """Two engines would place a row on two sides of a position."""
        make_kind(place.spark, place.source, "plain", odd=expression)

        with pytest.raises(InvalidSpecError, match=r"spec\.strategy\.arrangement\.orderBy names 'odd'") as refused:
            place.plan(orderBy=[{"column": "odd"}])

        assert f"type {name} has no order" in refused.value.message
        assert "Order by numbers" in refused.value.hint


class TestAColumnThatGoes:
    """The column is dropped or renamed while the job runs, and the order of reading or the target needs it."""

    @pytest.mark.parametrize(
        ("strategy", "statement", "message"),
        [
            (ARRANGEMENT | {"arrangement": ARRANGEMENT["arrangement"] | {"orderBy": [{"column": "part"}]}},
             "RENAME COLUMN part TO region", "'part'"),
            (ARRANGEMENT, "DROP COLUMN part", "'part'"),
            (CHAIN, "RENAME COLUMN part TO region", "'part'"),
            (CHAIN, "DROP COLUMN part", "'part'"),
        ],
    )  # fmt: skip
    def test_a_dropped_or_renamed_column_ends_the_job_by_name(self, place, strategy, statement, message):
        """A guess would fill the column with wrong values. Existing rows stay right."""
        make_kind(place.spark, place.source, "renamed")
        done = []

        def observe(progress):
            if not done and progress.rows_done:
                done.append(place.spark.sql(f"ALTER TABLE delta.`{place.source}` {statement}"))

        outcome = place.run(observe, strategy=strategy, throttle={"rowsPerSecond": 300})

        assert_ending(outcome, "SchemaChanged")
        assert message in outcome.message
        last = seals(place.target)[-1]
        assert not last.state["finished"]
        assert violations(place.source, place.target, last) == []
