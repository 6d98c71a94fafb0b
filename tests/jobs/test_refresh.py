"""A finished job runs again: from the position that its target holds, with only the later changes of its source."""

import time
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from support.endings import assert_ending
from support.tables.jobs import forget_before, job, make_orders
from support.tables.oracle import seals, violations
from support.tables.other_engine import delete, insert, update
from support.waiting_for_cores import waited_s

from backfill_core.errors import InvalidSpecError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

BAR_S = 10
KINDS = {
    "upsert": {},
    "changelog": {"target": {"writeMode": "Changelog"}},
    "arrangement": {"strategy": {"type": "Arrangement"}},
    "replica": {"strategy": {"type": "Replica"}},
}


@pytest.fixture
def place(spark, tmp_path):
    """A source of orders, and jobs from it that have ended."""

    class Place:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)

        def job(self, **spec):
            return job(self.source, self.target, **{"barrier": {"intervalMs": 200}, "verify": "Final", **spec})

        def run(self, observe=lambda _: None, stop=None, mode="run", **spec):
            settings = self.settings.model_copy(update={"mode": mode})
            return run_driver(self.job(**spec), settings=settings, observe=observe, spark=spark, stop=stop)

        def refresh(self, **spec):
            return self.run(mode="refresh", **spec)

        def change(self):
            update(self.source, "id % 10 = 3", amount="amount + 1")
            delete(self.source, "id % 10 = 4")
            insert(self.source, "SELECT id + 100000 AS id, customer, amount, note, status FROM now WHERE id < 20")

        @property
        def files(self):
            """All files of the target, with their times."""
            return {path: path.stat().st_mtime_ns for path in Path(self.target).rglob("*") if path.is_file()}

    make_orders(spark, Place.source, 400, files=2)
    return Place()


class TestARefresh:
    """A refresh applies what the source got since the end, and nothing else."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_refresh_brings_the_target_to_the_newest_version(self, place, kind):
        """The rows of the first run are not read again, and a run with nothing new writes nothing."""
        spec = KINDS[kind]
        assert place.run(**spec).reason == "Complete"
        place.change()

        refreshed = place.refresh(**spec)

        assert (refreshed.reason, refreshed.exit_code) == ("Complete", 0)
        assert refreshed.message.startswith("refreshed from version 0 to version 3 with ")
        assert refreshed.receipt.equal
        assert refreshed.receipt.source_version == 3
        last = seals(place.target)[-1]
        assert (last.state["finished"], last.state["refresh"]["after"], last.state["consumed"]) == (True, 0, 3)
        assert last.state["rowsDone"] == 400
        assert violations(place.source, place.target, last) == []
        before, began_s = place.files, time.monotonic() - waited_s()
        again = place.refresh(**spec)
        assert (again.reason, again.exit_code, again.receipt) == ("UpToDate", 0, refreshed.receipt)
        assert place.files == before
        assert time.monotonic() - waited_s() - began_s < BAR_S

    def test_a_refresh_of_an_append_adds_the_new_rows(self, place):
        """An append-only source only grows."""
        spec = {"target": {"writeMode": "Append"}, "transform": {"where": "status = 'new'"}}
        place.run(**spec)
        insert(place.source, "SELECT id + 100000 AS id, customer, amount, note, status FROM now WHERE id < 20")

        assert place.refresh(**spec).receipt.equal
        view = "SELECT * FROM source WHERE status = 'new'"
        assert violations(place.source, place.target, seals(place.target)[-1], view) == []

    @pytest.mark.parametrize("kind", ["upsert", "replica"])
    def test_a_refresh_follows_an_optimize_and_an_overwrite_of_the_source(self, place, kind):
        """Both are versions like any others; the overwrite removes every row and adds others."""
        place.run(**KINDS[kind])
        DeltaTable(place.source).optimize.compact()
        query = "SELECT id, customer, amount + 5 AS amount, note, status FROM now WHERE id < 50"
        rows = QueryBuilder().register("now", DeltaTable(place.source)).execute(query).read_all()
        write_deltalake(place.source, rows, mode="overwrite")

        assert place.refresh(**KINDS[kind]).receipt.equal
        assert violations(place.source, place.target, seals(place.target)[-1]) == []

    def test_a_refresh_of_a_replica_that_was_compacted_is_refused(self, spark, place):
        """Another writer rewrote its files, so they can no longer be matched with those of the source."""
        place.run(**KINDS["replica"])
        spark.sql(f"OPTIMIZE delta.`{place.target}`")
        place.change()

        assert_ending(place.refresh(**KINDS["replica"]), "TargetChanged")

    def test_a_refresh_takes_only_the_receipt_that_is_missing(self, place):
        """The spec asks for a receipt after the job has ended without one."""
        place.run(verify="None")
        rows = DeltaTable(place.target).file_uris()

        assert place.run(verify="Final").reason == "InvalidSpec"
        assert place.refresh(verify="Final").receipt.equal
        assert DeltaTable(place.target).file_uris() == rows

    def test_a_refresh_of_an_unfinished_job_resumes_it(self, place):
        """A schedule need not know whether the first run has ended."""
        stop = StopSignal()
        stopped = place.run(
            lambda progress: progress.attempt and stop.ask(force=False), stop, throttle={"rowsPerSecond": 50}
        )
        assert stopped.outcome == "Stopped"

        assert place.refresh().reason == "Complete"
        assert violations(place.source, place.target, seals(place.target)[-1]) == []


class TestARefreshThatIsRefused:
    """The error names the reason before anything is written, and the job stays finished."""

    def test_changes_that_are_gone_are_refused_by_name(self, place, spark):
        """A source that keeps its log for a day cannot be refreshed once a week."""
        place.run()
        place.change()
        forget_before(spark, place.source, 3)
        before = place.files

        outcome = place.refresh()

        assert_ending(outcome, "SnapshotExpired")
        assert outcome.message.startswith("the changes of the source after version 0 are gone: ")
        assert "another jobId and another target" in outcome.hint
        assert place.files == before
        assert place.run().reason == "AlreadyComplete"

    def test_a_source_that_was_restored_leaves_a_finished_job(self, place, spark):
        """Its changes cannot be applied, so the target keeps the rows and the end of the first run."""
        place.run()
        place.change()
        spark.sql(f"RESTORE delta.`{place.source}` TO VERSION AS OF 1")
        before = place.files

        assert place.refresh().reason == "SourceReplaced"
        assert place.files == before
        assert place.run().reason == "AlreadyComplete"

    def test_a_baseline_is_refused_by_its_name(self, place, spark):
        """It would end at once without the later rows."""
        chain = {"strategy": {"type": "RearrangedChain"}}
        place.run(**chain)
        before = place.files

        refused = place.refresh(**chain)

        assert_ending(refused, "InvalidSpec")
        assert "RearrangedChain, which does not allow a refresh" in refused.message
        assert place.files == before
        with pytest.raises(InvalidSpecError, match="does not allow spec"):
            plan_job(place.job(after="Follow", **chain), settings=place.settings, spark=spark)


class TestAJobThatFollowsAfterItsEnd:
    """`after: Follow` on a finished job continues it, as if it had followed from the beginning."""

    def test_a_finished_job_follows_from_its_last_version(self, place, spark):
        """The history is not copied again, and the job is unfinished from its first commit on."""
        place.run()
        place.change()
        planned = plan_job(place.job(after="Follow"), settings=place.settings, spark=spark)
        assert planned.resumes_attempt == 1
        stop = StopSignal()

        def once(progress):
            if progress.caught_up and progress.consumed_version == 3:
                stop.ask(force=False)

        stopped = place.run(once, stop, after="Follow")

        assert stopped.outcome == "Stopped"
        last = seals(place.target)[-1]
        assert (last.state["finished"], last.state["consumed"], last.state["rowsDone"]) == (False, 3, 400)
        assert violations(place.source, place.target, last) == []
        assert place.run().reason == "Complete"
