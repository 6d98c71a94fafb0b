"""The last driver of a deleted job, on real tables; delta-rs reads them."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.tables.jobs import job, make_orders
from support.tables.oracle import differences
from support.tables.other_engine import update

from backfill_api.status.ending import Ending
from backfill_core.source_fence.table_protocol import FENCED
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.fence import fence_source
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.procedures.perform import perform
from backfill_spark.settings import DriverSettings


class DiedError(BaseException):
    """The process of the attempt ends here."""


LOG = "delta.logRetentionDuration"


@pytest.fixture
def place(spark, tmp_path):
    """A source that a stopped job holds, and the last driver of that job."""

    class Place:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)

        def job(self, policy):
            return job(self.source, self.target, source={"hold": "Extend"}, after="Follow", deletionPolicy=policy)

        def stopped(self):
            stop = StopSignal()
            observe = lambda progress: progress.rows_done == 400 and stop.ask(force=False)  # noqa: E731
            run_driver(self.job("Retain"), settings=self.settings, observe=observe, spark=spark, stop=stop)
            assert LOG in DeltaTable(self.source).metadata().configuration

        def close(self, policy):
            settings = self.settings.model_copy(update={"mode": "close"})
            done = perform(self.job(policy), settings=settings, stop=StopSignal(), spark=spark)
            assert Ending.read(done.ending.text()) == done.ending
            return done

        def end(self, policy):
            done = self.close(policy)
            assert done.exit_code == 0
            assert LOG not in DeltaTable(self.source).metadata().configuration
            return done.ending.procedure.end, done.ending.message

    make_orders(spark, Place.source, 400, files=2)
    made = Place()
    made.stopped()
    return made


class TestTheLastDriver:
    """The source has its own retention again, whatever becomes of the target; a repeated end changes nothing."""

    def test_keeps_then_releases_then_has_nothing_to_drop(self, spark, place):
        """With Retain another job may go on from the state; after Release any writer may use the table."""
        before = place.close("Retain").ending
        version = DeltaTable(place.target).version()
        assert (before.procedure.end, before.message) == (
            "Kept",
            "the source has its own retention again; the target and the job's state in it are unchanged",
        )
        assert place.end("Retain")[0] == "Kept"
        assert DeltaTable(place.target).version() == version

        fence_source(place.job("Release"), settings=place.settings, reason="switch by hand", spark=spark)
        assert place.end("Release") == ("Released", "the job's state left the target; the source accepts writes again")

        assert differences(place.target, place.source) == []
        update(place.target, "id = 3", amount="amount + 1")
        assert FENCED not in str(DeltaTable(place.source).protocol())
        assert place.end("Release")[0] == "Released"
        assert place.end("Drop") == ("Dropped", "the target has no state of the job, so nothing was removed")
        assert Path(place.target).exists()

    def test_drops_the_target_that_only_the_job_wrote(self, place):
        """A killed driver is followed by one that finds nothing left."""
        ended, message = place.end("Drop")

        assert (ended, message) == ("Dropped", f"the source has its own retention again; {place.target} is removed")
        assert not Path(place.target).exists()
        assert place.end("Drop")[0] == "Dropped"

    def test_keeps_a_target_that_others_wrote(self, spark, place):
        """The reason is in the termination message, and the state stays for a user who decides."""
        rows = spark.read.format("delta").load(place.target).limit(1)
        rows.write.format("delta").mode("append").save(place.target)

        ended, message = place.end("Drop")

        assert ended == "Refused"
        assert "other writers wrote to it" in message
        assert spark.read.format("delta").load(place.target).count() == 401
        assert place.end("Release")[0] == "Released"

    def test_keeps_the_target_of_a_fenced_source(self, spark, place):
        """Readers and writers may use it already."""
        fence_source(place.job("Drop"), settings=place.settings, reason="switch by hand", spark=spark)

        ended, message = place.end("Drop")

        assert (ended, Path(place.target).exists()) == ("Refused", True)
        assert "may use the target already" in message

    def test_finishes_a_flip_that_was_decided(self, place, spark):
        """Its driver died after the decision: without an object, nothing else would let writers use a table."""
        died = place.settings.model_copy(update={"mode": "switch"})

        def dies(step):
            if step == "Flipping":
                raise DiedError

        with pytest.raises(DiedError):
            perform(place.job("Retain"), settings=died, stop=StopSignal(), starting=dies, spark=spark)

        ended, message = place.end("Release")

        assert (ended, message) == (
            "Released",
            "the source has its own retention again; the target has no state of the job; the source accepts writes again",
        )
        assert FENCED not in str(DeltaTable(place.source).protocol())
        update(place.target, "id = 3", amount="amount + 1")
        assert differences(place.target, place.source) != []
