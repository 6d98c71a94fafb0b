"""A strategy cannot resume from its stored state: rows of the unfinished job leave the target before the new job begins."""

from dataclasses import replace

import pytest
from support.drivers.opened_job import looked_at
from support.tables.jobs import job, make_orders
from support.tables.oracle import rows_in, seals, violations
from support.tables.other_engine import delete

from backfill_core.errors import FencedError, NotFinishedError, StateMovedError, TargetChangedError
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.strategy import PinVersion, StartOver
from backfill_core.strategies.snapshot import STRATEGY
from backfill_spark.driver import job_context
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.driver.plan import plan_job
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

ROWS, GONE = 60, 10

FORGETFUL = replace(STRATEGY, open_request=lambda stored: PinVersion() if stored is None else StartOver(drop_rows=True))
"""Snapshot, but the next attempt cannot use its stored state."""


class Place:
    """A job that was stopped after it had caught up; then rows were deleted from its source."""

    def __init__(self, spark, folder):
        self.spark, self.source, self.target = spark, str(folder / "s"), str(folder / "t")
        self.settings = DriverSettings(cores=2, state_dir=folder / "state")
        make_orders(spark, self.source, ROWS, files=2)

    def backfill(self, **spec):
        return job(self.source, self.target, barrier={"intervalMs": 200}, **spec)

    def run(self, stop_when=lambda _: False, **spec):
        stop = StopSignal()

        def observe(progress):
            if stop_when(progress):
                stop.ask(force=False)

        return run_driver(self.backfill(**spec), settings=self.settings, observe=observe, spark=self.spark, stop=stop)

    def opened(self):
        with looked_at(self.spark, self.backfill()).open_job() as job:
            return job


@pytest.fixture
def place(spark, tmp_path, monkeypatch):
    """The job's strategy starts again with each attempt from now on."""
    made = Place(spark, tmp_path)
    assert made.run(lambda progress: progress.caught_up, after="Follow").outcome == "Stopped"
    delete(made.source, f"id < {GONE}")
    monkeypatch.setattr(job_context.strategies, "discover", lambda: {STRATEGY.name: FORGETFUL})
    return made


class TestAJobThatBeginsAnew:
    """The new job behaves as if the unfinished one had never run."""

    def test_the_new_job_has_none_of_the_rows_of_the_unfinished_one(self, place):
        """Rows that were deleted from the source meanwhile would stay forever, because the new job never reads them."""
        outcome = place.run(verify="Final")

        assert (outcome.outcome, outcome.receipt.equal) == ("Complete", True)
        assert rows_in(place.target) == ROWS - GONE
        newest = seals(place.target)[-1]
        assert violations(place.source, place.target, newest) == []
        assert (newest.state["attempt"], newest.state["rowsDone"]) == (2, ROWS - GONE)

    def test_the_plan_announces_the_removal(self, place):
        """No offline verification is possible, because no row will be kept."""
        plan = plan_job(place.backfill(), settings=place.settings, spark=place.spark)

        [message] = [warning.message for warning in plan.warnings if warning.reason == "StartsOver"]
        assert f"removes {ROWS} rows of the target" in message
        assert plan.resumes_attempt is None
        with pytest.raises(NotFinishedError, match="starts again"):
            verify_offline(place.backfill(), settings=place.settings, spark=place.spark)
        assert rows_in(place.target) == ROWS


class TestTheRowsThatGo:
    def test_rows_are_removed_once_and_older_attempts_commit_nothing_more(self, place):
        """After a kill just behind the removal, the next attempt finds it done.

        The removal also fences an older driver.
        """
        old, again = place.opened(), place.opened()

        emptied = old.emptied()
        with pytest.raises(StateMovedError):
            replace(again, stored=replace(again.stored, text="another")).emptied()

        assert rows_in(place.target) == 0
        assert emptied.stored.text == old.stored.text
        assert emptied.stored.txn_version == again.emptied().stored.txn_version == txn_version(2, 0)
        with pytest.raises(FencedError):
            old.committer.seal(txn_version(1, 999), (), "late")

    def test_removed_rows_stay_removed_for_any_state(self, place, monkeypatch):
        """An older driver may commit that it has caught up just before its rows are removed. That state has no row."""
        place.opened().emptied()
        monkeypatch.setattr(job_context.strategies, "discover", lambda: {STRATEGY.name: STRATEGY})

        assert place.opened().start_over == StartOver(drop_rows=True)

    def test_a_target_without_rows_is_started_over(self, place):
        """An attempt that ended before its first row left none.

        Delta makes no commit for the removal of no row, and the next attempt continues.
        """
        ended = place.run(lambda progress: progress.attempt == 2, desiredState="Paused")
        assert (ended.outcome, rows_in(place.target)) == ("Stopped", 0)

        outcome = place.run(verify="Final")

        assert (outcome.outcome, outcome.receipt.equal) == ("Complete", True)
        assert rows_in(place.target) == ROWS - GONE

    def test_rows_are_kept_when_other_writers_wrote_too(self, place):
        """Foreign rows would be removed with them, and no source has those."""
        place.spark.sql(f"INSERT INTO delta.`{place.target}` VALUES (999, 1, 1.0, 'theirs', 'new')")
        with pytest.raises(TargetChangedError, match=r"other writers wrote to .*WRITE"):
            place.opened().emptied()

        assert rows_in(place.target) == ROWS + 1
