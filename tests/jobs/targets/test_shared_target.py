"""Two jobs with one target: one fills it and the other is refused, or both declare that they add to it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from support.drivers.opened_job import looked_at
from support.endings import assert_ending
from support.tables.jobs import job, make_orders
from support.tables.oracle import rows_in

from backfill_core.errors import TargetTakenError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.settings import DriverSettings
from backfill_spark.sinks.delta.sink import DeltaSink

ROWS = 300


@pytest.fixture
def place(spark, tmp_path):
    """A source, an empty target, and jobs between them."""

    class Place:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")

        def __init__(self):
            make_orders(spark, self.source, ROWS, files=2)
            sink = DeltaSink(spark, self.target, write_mode=APPEND, key=(), job_id="x")
            sink.prepare(spark.read.format("delta").load(self.source).schema)

        def job(self, name, rate=None, **target):
            limit = {} if rate is None else {"throttle": {"rowsPerSecond": rate}}
            return job(self.source, self.target, name=name, target={"writeMode": "Append", **target}, **limit)

        def run(self, name, observe=lambda _: None, stop=None, **target):
            settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
            backfill = self.job(name, **target)
            return run_driver(backfill, settings=settings, observe=observe, spark=spark, stop=stop or StopSignal())

    return Place()


class TestTwoJobsAndOneTarget:
    """Before, each copied all rows, and both were Complete."""

    def test_of_two_concurrent_jobs_one_fills_the_target_and_the_other_is_refused(self, spark, place):
        """A race at the start must have one winner."""
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(place.run, ["a", "b"]))

        reasons = sorted(outcome.reason for outcome in outcomes)
        assert reasons[0] == "Complete"
        # A job that comes when the other has sealed, or is finished, finds its rows.
        assert reasons[1] in ("TargetTaken", "TargetNotEmpty")
        assert rows_in(place.target) == ROWS

    def test_an_unfinished_job_keeps_the_target(self, place):
        """It may have committed no row yet. Its state shows that the table is taken."""
        stop = StopSignal()
        halted = place.run("a", lambda _: stop.ask(force=False), stop, rate=0)

        assert halted.outcome == "Stopped"
        assert_ending(place.run("b"), "TargetTaken")

    def test_jobs_that_add_on_purpose_both_complete(self, spark, place):
        """Several sources may feed one table."""
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(lambda name: place.run(name, existingRows="Keep"), ["a", "b"]))

        assert [outcome.reason for outcome in outcomes] == ["Complete", "Complete"]
        assert rows_in(place.target) == 2 * ROWS

    def test_an_unfinished_job_is_named_before_anything_is_read(self, spark, place):
        """The user learns at once which job to finish or release."""
        context = looked_at(spark, place.job("a"))
        context.committer.fence(1 << 32 | 1, '{"jobId":"default/a"}', opened=context.stored, claim=context.claim)

        with pytest.raises(TargetTakenError, match="default/a"):
            looked_at(spark, place.job("b"))
