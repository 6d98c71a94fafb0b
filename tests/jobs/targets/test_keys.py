"""The key of an Upsert: a job with two rows of one key is never Complete, for any size of the source."""

import pytest
from support.tables.jobs import job, make_orders
from support.tables.oracle import rows_in, seals
from support.tables.other_engine import insert

from backfill_spark.driver import attempt as driver
from backfill_spark.driver import plan
from backfill_spark.settings import DriverSettings

ROWS = 1000


class Place:
    """A source in which one key may occur twice, and jobs from it."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.source, self.target = str(folder / "source"), str(folder / "target")
        make_orders(spark, self.source, ROWS, files=4)

    def double(self):
        insert(self.source, "SELECT * FROM now WHERE id = 77")

    def settings(self, **more):
        return DriverSettings(state_dir=self.folder / "state", cores=2, **more)

    def run(self, check_unique=None, **spec):
        settings = self.settings(check_unique=check_unique)
        return driver.run_driver(job(self.source, self.target, **spec), settings=settings, spark=self.spark)

    def named(self, key):
        return self.spark.sql(f"SELECT xxhash64({key}L)").first()[0]

    def rows(self):
        return rows_in(self.target)


@pytest.fixture
def place(spark, tmp_path):
    """A source of orders without doubled keys."""
    return Place(spark, tmp_path)


@pytest.fixture
def large(monkeypatch):
    """Treat every table as large."""
    monkeypatch.setattr(driver, "CHECK_UNIQUE_ROWS_MAX", 10)
    monkeypatch.setattr(plan, "CHECK_UNIQUE_ROWS_MAX", 10)


class TestADoubledKey:
    """A doubled key ends the job (ADR 0011)."""

    def test_a_doubled_key_of_a_large_source_is_found_before_the_end(self, place, large):
        """A copy with doubled keys must never be called complete."""
        place.double()
        outcome = place.run(verify="Final")

        assert (outcome.exit_code, outcome.reason) == (23, "KeyNotUnique")
        assert f"2 rows of the target have xxhash64(id) = {place.named(77)}" in outcome.message
        assert " 77" not in outcome.message
        assert not seals(place.target)[-1].state["finished"]

    def test_a_doubled_key_is_found_again_by_the_next_attempt(self, place, large):
        """An unproven key stays unproven."""
        place.double()

        assert [place.run().reason, place.run().reason] == ["KeyNotUnique"] * 2
        assert not seals(place.target)[-1].state["finished"]

    def test_a_doubled_key_of_a_small_source_is_found_before_the_first_write(self, place):
        """A cheap check comes first and leaves no target behind."""
        place.double()

        assert place.run().reason == "KeyNotUnique"
        assert seals(place.target) == []

    def test_a_doubled_key_that_the_transform_makes_is_found(self, place):
        """The source's own key is unique here."""
        outcome = place.run(transform={"select": ["id % 500 AS id", "amount"]})

        assert outcome.reason == "KeyNotUnique"

    def test_a_doubled_key_is_ignored_when_the_check_is_off(self, place):
        """A user who switched the check off gets all rows of the source."""
        place.double()

        assert place.run(check_unique=False).reason == "Complete"
        assert place.rows() == ROWS + 1


class TestAKeyThatIsUnique:
    """The proof is one of the steps before the end."""

    def test_the_proof_is_in_the_state(self, place, large):
        """A restart must not pay for the check twice."""
        outcome = place.run(verify="Final")

        assert (outcome.reason, outcome.receipt.equal) == ("Complete", True)
        proven = [seal.state["snapshot"]["keyProven"] for seal in seals(place.target)]
        assert (proven[0], proven[-1]) == (False, True)

    def test_the_key_is_proven_once_if_columns_are_chosen(self, place):
        """A third of such a run was a second proof, although the key passes unchanged."""
        outcome = place.run(transform={"select": ["id", "amount * 2 AS twice"]})

        assert outcome.reason == "Complete"
        assert {seal.state["snapshot"]["keyProven"] for seal in seals(place.target)} == {True}


class TestAPlan:
    """A plan warns if a doubled key would be found late or never."""

    def warnings(self, place, **settings):
        made = plan.plan_job(job(place.source, place.target), settings=place.settings(**settings), spark=place.spark)
        return [warning.reason for warning in made.warnings]

    def test_a_plan_of_a_large_source_warns(self, place, large):
        """The user learns that a doubled key would be found after hours."""
        assert "KeyUnproven" in self.warnings(place)

    def test_a_plan_without_the_check_warns(self, place):
        """Without the check a doubled key is never found."""
        assert "KeyUnproven" in self.warnings(place, check_unique=False)
        assert "KeyUnproven" not in self.warnings(place)
