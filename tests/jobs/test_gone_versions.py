"""Versions that a job no longer needs may be gone: the log of the version that it once pinned, or the whole source."""

import shutil

import pytest
from support.endings import assert_ending
from support.tables.jobs import forget_before, job, make_orders
from support.tables.oracle import seals, violations
from support.tables.other_engine import update

from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings


@pytest.fixture
def place(spark, tmp_path):
    """A source of orders, and jobs from it."""

    class Place:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")

        def run(self, observe=lambda _: None, stop=None, **spec):
            settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
            backfill = job(self.source, self.target, **{"barrier": {"intervalMs": 200}, **spec})
            return run_driver(backfill, settings=settings, observe=observe, spark=spark, stop=stop)

        def change(self):
            update(self.source, "id % 10 = 3", amount="amount + 1")

    make_orders(spark, Place.source, 400, files=2)
    return Place()


class TestAFinishedJob:
    """A finished job completes at once: a GitOps tool may create it again long after."""

    def test_a_finished_job_completes_without_its_source(self, place):
        """A finished job reads nothing, so it needs no source."""
        assert place.run().reason == "Complete"
        shutil.rmtree(place.source)

        assert place.run().reason == "AlreadyComplete"


class TestAJobThatFollows:
    """Once history is copied, the version of the copy is not needed."""

    def follow_until_caught_up(self, place, upto):
        stop = StopSignal()

        def once(progress):
            if progress.caught_up and progress.consumed_version == upto:
                stop.ask(force=False)

        return place.run(once, stop, after="Follow")

    def test_a_following_job_continues_from_its_last_version(self, spark, place):
        """Logs are cleaned every day while a job follows."""
        assert self.follow_until_caught_up(place, 0).outcome == "Stopped"
        for _ in range(2):
            place.change()
        assert self.follow_until_caught_up(place, 2).outcome == "Stopped"
        forget_before(spark, place.source, 2)
        place.change()
        outcome = self.follow_until_caught_up(place, 3)

        assert (outcome.outcome, outcome.message) == ("Stopped", "stopped at a barrier; run it again to resume")
        last = seals(place.target)[-1]
        assert last.state["snapshot"]["version"] == 0
        assert violations(place.source, place.target, last) == []

    def test_a_following_job_notices_another_table(self, place, spark):
        """Changes of another table would be merged into the copy of the first."""
        self.follow_until_caught_up(place, 0)
        place.change()
        self.follow_until_caught_up(place, 1)
        shutil.rmtree(place.source)
        make_orders(spark, place.source, 400, files=2)
        for _ in range(3):
            place.change()
        forget_before(spark, place.source, 1)

        assert place.run(after="Follow").reason == "SourceReplaced"


class TestACopyThatWasStopped:
    """A job belongs to the table that it pinned, not to a path."""

    def test_a_stopped_copy_notices_another_table_with_the_same_files(self, spark, place):
        """Versions and files have the same names, so only the id of the table differs."""
        stop = StopSignal()
        stopped = place.run(
            lambda progress: progress.rows_done and stop.ask(force=False), stop, throttle={"rowsPerSecond": 2}
        )
        shutil.rmtree(place.source)
        make_orders(spark, place.source, 400, files=2)

        outcome = place.run()

        assert stopped.outcome == "Stopped"
        assert 0 < seals(place.target)[-1].state["rowsDone"] < 400
        assert_ending(outcome, "SourceReplaced")
