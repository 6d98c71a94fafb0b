"""Whole jobs on real tables, from the spec to the receipt: the cases in which source, changes and target must agree."""

from collections import Counter

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.tables.jobs import job, make_changed_orders
from support.tables.other_engine import delete, insert

from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings


@pytest.fixture
def run(spark, tmp_path):
    """Run a job from version 0 of the source, with a receipt at the end."""

    def go(**spec):
        source = {"version": 0, **spec.pop("source", {})}
        barrier = {"intervalMs": 200}
        backfill = job(
            str(tmp_path / "s"), str(tmp_path / "t"), source=source, barrier=barrier, verify="Final", **spec
        )  # fmt: skip
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        return run_driver(backfill, settings=settings, spark=spark)

    return go


@pytest.fixture
def orders(spark, tmp_path):
    """A source of 100 rows with changes after version 0: updates, deletes and an insert."""
    path = str(tmp_path / "s")
    make_changed_orders(
        spark, path,
        "UPDATE {t} SET amount = amount + 50 WHERE id % 10 = 3",
        "DELETE FROM {t} WHERE id % 10 = 4",
        "UPDATE {t} SET amount = amount - 50 WHERE id % 10 = 7",
        "INSERT INTO {t} VALUES (1000, 1, 99, '', 'new')",
    )  # fmt: skip
    return path


def read(spark, folder):
    return spark.read.format("delta").load(str(folder))


class TestAChangelogUnderAFilter:
    """If only one half of an update passes the filter, it is logged as a delete or an insert, and the receipt agrees."""

    @pytest.mark.parametrize("key", [["id"], []])
    def test_the_receipt_of_a_filtered_changelog_is_equal(self, spark, tmp_path, orders, run, key):
        """A reader who replays the changelog must arrive at the filtered table."""
        outcome = run(
            source={"key": key}, target={"writeMode": "Changelog"}, transform={"where": "amount >= 50", "select": ["*"]}
        )

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal
        query = QueryBuilder().register("s", DeltaTable(orders)).execute("SELECT id FROM s WHERE amount >= 50")
        assert outcome.receipt.rows == len(query.read_all())
        operations = Counter(row["_op"] for row in read(spark, tmp_path / "t").select("_op").collect())
        assert {"insert", "delete"} <= operations.keys()
        assert ("update_preimage" in operations) == bool(key)
        assert operations.get("update_preimage") == operations.get("update_postimage")

    def test_the_key_may_be_left_out(self, orders, run):
        """A changelog needs no key, so its columns need none either."""
        outcome = run(target={"writeMode": "Changelog"}, transform={"select": ["amount", "status"]})

        assert (outcome.outcome, outcome.receipt.equal) == ("Complete", True)


class TestAnUpsertIntoPartitions:
    """An empty string becomes null in files and in a MERGE, and the receipt accepts it."""

    def test_the_receipt_of_a_partitioned_upsert_is_equal(self, spark, tmp_path, orders, run):
        """Delta turns an empty string into null, and that is no difference."""
        select = ["id", "amount", "if(id % 10 IN (3, 5), '', status) AS p"]
        outcome = run(target={"partitionBy": ["p"]}, transform={"select": select})

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal
        assert read(spark, tmp_path / "t").where("p IS NULL").count() == 20


class TestWhatEndsAJob:
    """The error has the column, the hint, and an exit code that forbids another attempt."""

    def test_a_null_for_a_not_null_column_ends_the_job(self, spark, tmp_path, orders, run):
        """A commit by Kernel would not check it."""
        spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` (id BIGINT, amount DOUBLE NOT NULL) USING delta")
        outcome = run(transform={"select": ["id", "nullif(amount, 42) AS amount"]})

        assert (outcome.reason, outcome.exit_code) == ("TargetSchemaMismatch", 28)
        assert "'amount' of the target must not be null" in outcome.message
        assert read(spark, tmp_path / "t").where("amount IS NULL").count() == 0

    def test_a_null_key_of_a_later_version_ends_the_job(self, spark, tmp_path, orders, run):
        """A MERGE never matches a null key and would add its row each time."""
        insert(orders, "SELECT * REPLACE (cast(null AS bigint) AS id) FROM now WHERE id = 1")
        outcome = run()

        assert (outcome.reason, outcome.exit_code) == ("KeyInvalid", 23)
        assert "'id' is null in 1 changed rows" in outcome.message
        assert read(spark, tmp_path / "t").where("id IS NULL").count() == 0

    def test_a_key_that_two_rows_share_for_a_while_ends_the_job(self, spark, orders, run):
        """The newest version shows nothing of it; only the changes do."""
        for amount in (1, 2):
            insert(orders, f"SELECT * REPLACE (2000 AS id, {amount}.0 AS amount) FROM now WHERE id = 1")
        delete(orders, "id = 2000 AND amount = 2")
        outcome = run()

        assert (outcome.reason, outcome.exit_code) == ("KeyNotUnique", 23)
        named = spark.sql("SELECT xxhash64(2000L)").first()[0]
        assert f"as where xxhash64(id) = {named}" in outcome.message

    def test_a_feature_of_an_existing_target_ends_the_job(self, spark, tmp_path, orders, run):
        """Kernel checks the table before the first write."""
        spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` (id BIGINT, a VARCHAR(3)) USING delta")
        outcome = run(transform={"select": ["id", "status AS a"]})

        assert (outcome.reason, outcome.exit_code) == ("UnsupportedTargetFeature", 25)
        assert sorted(entry.name for entry in (tmp_path / "t").iterdir()) == ["_delta_log"]
