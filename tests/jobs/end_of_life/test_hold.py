"""A job keeps the old versions of its source for longer while it runs; delta-rs reads the properties of the source."""

import ctypes
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.tables.jobs import job, make_orders, write_yaml
from support.tables.oracle import seals, violations
from support.tables.other_engine import update

from backfill_core.errors import PermissionDeniedError
from backfill_core.switch_over.steps import End, Goal
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.driver.release import release
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings
from backfill_spark.switch_over.command import switch_over
from backfill_spark.switch_over.plan import SwitchOptions

LOG, FILES, HOLD = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration", "backfill.hold"
HELD = "interval 2160 hours"
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")


@pytest.fixture
def place(spark, tmp_path):
    """A source of orders that keeps its log for nine days, and jobs that hold it."""

    class Place:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)

        def job(self, **spec):
            source = {"hold": "Extend", **spec.pop("source", {})}
            return job(self.source, self.target, source=source, **spec)

        def run(self, observe=lambda _: None, stop=None, **spec):
            return run_driver(self.job(**spec), settings=self.settings, observe=observe, spark=spark, stop=stop)

        def stopped(self):
            stop = StopSignal()
            return self.run(lambda progress: progress.attempt and stop.ask(force=False), stop, after="Follow")

        @property
        def kept(self):
            """The retention that readers of the source see, and whether a hold is recorded."""
            properties = DeltaTable(self.source).metadata().configuration
            return properties.get(LOG), properties.get(FILES), HOLD in properties

        def set(self, **properties):
            DeltaTable(self.source).alter.set_table_properties(
                {f"delta.{name}": value for name, value in properties.items()}
            )

    make_orders(spark, Place.source, 400, files=2, **{LOG: "interval 9 days"})
    return Place()


class TestAHold:
    """The plan states it, the run does it, and its end undoes it."""

    @pytest.mark.parametrize("strategy", ["Replica", "Snapshot"])
    def test_a_source_is_held_while_a_job_runs_and_restored_at_its_end(self, spark, place, strategy):
        """No property and no row of the source differs afterwards, and the job applies changes across its own commit."""
        spec = {"strategy": {"type": strategy}, "verify": "Final"}
        plan = plan_job(place.job(**spec), settings=place.settings, spark=spark)
        [warning] = [warning for warning in plan.warnings if warning.reason == "RetentionExtended"]
        assert f"{LOG} and {FILES}" in warning.message
        assert place.kept == ("interval 9 days", None, False)
        seen = set()

        def observe(_):
            if not seen:
                update(place.source, "id % 10 = 3", amount="amount + 1")
            seen.add(place.kept)

        ended = place.run(observe, **spec)

        assert (ended.reason, ended.receipt.equal) == ("Complete", True)
        assert (HELD, HELD, True) in seen
        assert place.kept == ("interval 9 days", None, False)
        last = seals(place.target)[-1]
        assert violations(place.source, place.target, last) == []
        assert HOLD not in DeltaTable(place.target).metadata().configuration

    def test_a_stopped_job_keeps_its_hold_and_a_release_ends_it(self, spark, place):
        """A stopped job resumes, and needs the old versions then; an edit of a user is not overwritten."""
        assert place.stopped().outcome == "Stopped"
        assert place.kept == (HELD, HELD, True)
        place.set(deletedFileRetentionDuration="interval 20 days")

        release(place.job(after="Follow"), settings=place.settings, force=True, spark=spark)

        assert place.kept == ("interval 9 days", "interval 20 days", False)

    @pytest.mark.parametrize("kept", ["Fenced", "Released"])
    def test_the_end_of_a_switch_over_ends_the_hold(self, spark, place, kept):
        """No attempt of the job follows, so nothing else would restore the retention; an undo before it still finds the hold."""
        assert place.stopped().outcome == "Stopped"
        backfill = place.job(after="Follow", verify="Final", switch={"keepSource": kept})
        move = partial(
            switch_over,
            backfill,
            settings=place.settings,
            options=SwitchOptions(),
            stop_other=lambda: None,
            spark=spark,
        )

        assert move(goal=Goal.SWITCH).end == End.SWITCHED
        if kept == "Fenced":
            assert place.kept == (HELD, HELD, True)
            assert move(goal=Goal.COMPLETE).end == End.COMPLETED

        assert place.kept == ("interval 9 days", None, False)

    def test_a_failed_job_ends_its_hold(self, place):
        """Nothing retries it, so no attempt would end the hold later."""
        assert place.stopped().outcome == "Stopped"
        place.set(enableChangeDataFeed="false")
        update(place.source, "id = 2", amount="amount + 1")

        ended = place.run(after="Follow")

        assert (ended.outcome, ended.reason) == ("Failed", "ChangeFeedMissing")
        assert place.kept == ("interval 9 days", None, False)

    def test_a_source_that_keeps_its_versions_is_not_written(self, place):
        """The job then needs no right to write there."""
        place.set(logRetentionDuration="interval 100 days", deletedFileRetentionDuration="interval 100 days")
        version = DeltaTable(place.source).version()

        assert place.run().reason == "Complete"
        assert DeltaTable(place.source).version() == version


@linux
class TestNoWriteAccess:
    """The job ends before it creates its target, and the message names the field."""

    @pytest.mark.spark
    def test_a_source_without_write_access_is_refused_by_name(self, spark, tmp_path):
        """Another user may own the source."""
        make_orders(spark, str(tmp_path / "s"), 10, files=1)
        spec = write_yaml(tmp_path / "job.yaml", str(tmp_path / "s"), str(tmp_path / "t"), source={"hold": "Extend"})
        Path(tmp_path, "s", "_delta_log").chmod(0o555)

        done = subprocess.run(
            [sys.executable, "-m", "backfill_spark", "-f", str(spec)],
            env=dict(os.environ, BACKFILL_STATE_DIR=str(tmp_path / "state"), BACKFILL_MEMORY="1g"),
            preexec_fn=self.lose_override, capture_output=True, text=True, check=False,
        )  # fmt: skip
        Path(tmp_path, "s", "_delta_log").chmod(0o755)

        assert done.returncode == PermissionDeniedError.exit_code, done.stdout + done.stderr
        assert "spec.source.delta.hold is Extend, and the log of" in done.stdout + done.stderr
        assert not (tmp_path / "t").exists()

    @staticmethod
    def lose_override():
        """Drop the right that lets root override modes."""
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)
