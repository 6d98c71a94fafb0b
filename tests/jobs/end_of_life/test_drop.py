"""A drop removes the whole target of a job, and only a target that the job created and no other writer changed."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.endings import assert_ending
from support.tables.jobs import job, make_orders, make_target
from support.tables.oracle import differences
from support.tables.other_engine import update

from backfill_core.command_errors import NotDroppableError
from backfill_core.errors import NotFinishedError, StateMismatchError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.fence import fence_source
from backfill_spark.driver.release import drop, plan_drop
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

LOG = "delta.logRetentionDuration"


@pytest.fixture
def place(spark, tmp_path):
    """A source of orders, and jobs from it."""

    class Place:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)

        def job(self, **spec):
            return job(self.source, self.target, **spec)

        def run(self, observe=lambda _: None, stop=None, **spec):
            return run_driver(self.job(**spec), settings=self.settings, observe=observe, spark=spark, stop=stop)

        def drop(self, *, force=False, **spec):
            return drop(self.job(**spec), settings=self.settings, force=force, spark=spark)

        def refused(self, **spec):
            """Return the error of a drop that leaves every file of the target as it was."""
            before = self.files
            with pytest.raises(NotDroppableError) as refused:
                self.drop(**spec)
            assert self.files == before
            return refused.value

        @property
        def files(self):
            return {path: path.stat().st_mtime_ns for path in Path(self.target).rglob("*") if path.is_file()}

    make_orders(spark, Place.source, 400, files=2)
    return Place()


class TestADrop:
    """The target is gone, and the job can run again."""

    def test_an_unfinished_job_is_removed_only_by_force(self, place):
        """Its hold of the source ends with it."""
        spec = {"after": "Follow", "source": {"hold": "Extend"}}
        stop = StopSignal()
        place.run(lambda progress: progress.attempt and stop.ask(force=False), stop, **spec)
        assert LOG in DeltaTable(place.source).metadata().configuration
        with pytest.raises(NotFinishedError):
            place.drop(**spec)

        place.drop(**spec, force=True)

        assert not Path(place.target).exists()
        assert LOG not in DeltaTable(place.source).metadata().configuration
        with pytest.raises(StateMismatchError):
            place.drop(**spec, force=True)

    @pytest.mark.parametrize("partition_by", [[], ["status"]])
    def test_a_finished_job_and_its_target_are_removed(self, spark, place, partition_by):
        """MERGEs, partitions and an OPTIMIZE of another engine leave nothing behind."""
        spec = {"target": {"partitionBy": partition_by}}
        assert place.run(**spec, after="Exit").reason == "Complete"
        update(place.source, "id % 10 = 3", amount="amount + 1")
        settings = place.settings.model_copy(update={"mode": "refresh"})
        assert run_driver(place.job(**spec), settings=settings, spark=spark).reason == "Complete"
        spark.sql(f"OPTIMIZE delta.`{place.target}`")
        before = place.files
        planned = plan_drop(place.job(**spec), settings=place.settings, spark=spark)
        assert place.files == before
        assert planned.bytes == sum(path.stat().st_size for path in before if not path.name.startswith("."))

        assert place.drop(**spec) == planned

        assert not Path(place.target).exists()
        assert place.run(**spec).reason == "Complete"
        assert differences(place.target, place.source) == []

    def test_a_drop_that_was_killed_between_files_and_log_is_repeated(self, place):
        """The log goes last, so the state and the evidence are still there."""
        place.run()
        for entry in Path(place.target).iterdir():
            if entry.name != "_delta_log":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

        place.drop()

        assert not Path(place.target).exists()


class TestARefusal:
    """Every doubt keeps the target, with the reason; nothing is removed."""

    def test_rows_of_another_writer_keep_the_target(self, spark, place):
        """They exist nowhere else."""
        place.run()
        rows = spark.read.format("delta").load(place.target).limit(1)
        rows.write.format("delta").mode("append").save(place.target)

        refused = place.refused()

        assert_ending(refused, "NotDroppable")
        assert "other writers wrote to it: version" in str(refused)

    def test_a_table_that_existed_before_keeps_the_target(self, spark, place):
        """It belongs to its creator, although it was empty."""
        schema = spark.read.format("delta").load(place.source).schema
        make_target(spark, place.target, schema)
        place.run()

        assert "does not record that the job created the table" in str(place.refused())

    def test_a_target_that_may_be_in_use_is_kept(self, spark, place):
        """A fenced source is a part of a switch-over by hand; without a source the target is the only copy."""
        place.run()
        fence_source(place.job(), settings=place.settings, reason="switch", spark=spark)
        assert "fenced by this job" in str(place.refused())
        shutil.rmtree(place.source)

        assert "the only copy" in str(place.refused())

    def test_foreign_files_keep_the_target(self, place):
        """A folder may be used for other things too."""
        place.run()
        Path(place.target, "notes.txt").write_text("keep")

        assert "notes.txt" in str(place.refused())
