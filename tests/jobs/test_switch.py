"""A switch-over moves a live writer from the source to the target, and back; nothing that it was told to be written is lost."""

import pytest
from support.drivers.background import Running
from support.endings import assert_ending
from support.switch_over.names import Writer, ids_in, make_name
from support.tables import other_engine
from support.tables.jobs import document, make_orders

from backfill import Backfill, Settings
from backfill.errors import SwitchBlockedError, VerificationFailedError
from backfill_api.load import load_backfill
from backfill_core.source_fence.table_protocol import FENCED, SWITCH, SWITCHED_FROM
from backfill_spark.delta.log import head_actions

ADDED = {"writeMode": "Append", "existingRows": "Keep"}


@pytest.fixture
def moved(spark, tmp_path):
    """Return a function that makes orders, a name for them, and a job that follows them."""

    def make(**spec):
        source, target = str(tmp_path / "orders"), str(tmp_path / "orders_v2")
        make_orders(spark, source, 100, files=2)
        name, flip = make_name(tmp_path, source)
        settings = Settings(state_dir=tmp_path / "state", cores=2)
        switch = {"flip": flip} | spec.pop("switch", {})
        written = document(source, target, after="Follow", switch=switch, barrier={"intervalMs": 200}, **spec)
        return Backfill.of(written, settings=settings), name, source, target

    return make


def driven(spark, job, folder):
    """Return a driver of a job, which runs while it is entered."""
    return Running(spark, load_backfill(job.document), folder / "state")


class TestALiveWriter:
    """It writes to the table to which the name points, and tries again when it is refused."""

    def test_loses_nothing_over_a_switch_and_its_end(self, spark, moved):
        """The command starts the driver itself, which makes the copy first."""
        job, name, source, target = moved()

        with Writer(name) as writer:
            writer.until(2)
            done = job.switch(spark)
            assert (done.end, name.read_text(), done.receipt.equal) == ("Switched", target, True)
            writer.until(2)
            with pytest.raises(SwitchBlockedError, match="other writers changed the target since the switch-over"):
                job.undo_switch(spark)
            assert job.switch(spark).end == "Switched"
            writer.until(1)

        expected = sorted([*ids_in(source)[:100], *writer.ids])
        assert ids_in(target) == expected
        assert writer.refused
        assert FENCED in head_actions(spark, source).protocol["writerFeatures"]
        assert job.complete_switch(spark).end == "Completed"
        with pytest.raises(SwitchBlockedError, match="there is no switch-over to undo"):
            job.undo_switch(spark)
        properties = head_actions(spark, source).metadata["configuration"]
        assert not {FENCED, SWITCH} & properties.keys()

    @pytest.mark.parametrize("strategy", ["Replica", "Snapshot"])
    def test_goes_back_with_an_undo_and_the_job_follows_again(self, spark, tmp_path, moved, strategy):
        """A driver that runs already is used, and ends; the state of the job returns to the target."""
        job, name, source, target = moved(strategy={"type": strategy})
        with driven(spark, job, tmp_path) as running:
            running.until(lambda progress: progress.caught_up)
            assert job.plan_switch(spark).obstacles == ()
            done = job.switch(spark)
            assert (done.end, list(done.seconds)[:3]) == ("Switched", ["Checking", "Comparing", "Fencing"])
            assert running.outcome().outcome == "Stopped"
        assert done.compared[0].endswith("of the source: there is no receipt")
        assert all(line.startswith("compared the changes up to version") for line in done.compared[1:])
        assert (name.read_text(), ids_in(target)) == (target, ids_in(source))

        assert job.undo_switch(spark).end == "Undone"

        assert name.read_text() == source
        assert SWITCH not in head_actions(spark, source).metadata["configuration"]
        with Writer(name) as writer, driven(spark, job, tmp_path) as running:
            writer.until(2)
            newest = head_actions(spark, source).version
            running.until(lambda progress: (progress.consumed_version or 0) >= newest)
        assert set(writer.ids[:2]) <= set(ids_in(target))


class TestARunAfterASwitchOver:
    """The target has other writers, and no state of the job: a copy would begin again and add the source's rows to theirs."""

    @pytest.mark.parametrize(
        "spec",
        [
            {"name": "other", "target": ADDED},
            {"strategy": {"type": "Replica"}},
        ],
        ids=["another job that keeps rows", "the same job and an empty target"],
    )
    def test_is_refused_by_name_and_changes_nothing(self, spark, moved, spec):
        """Existing rows of the target do not refuse it: they may stay, or writers deleted them. After the end a user may allow it."""
        job, _, source, target = moved()
        assert job.switch(spark).end == "Switched"
        where = "id = 5" if "target" in spec else "true"
        spark.sql(f"DELETE FROM delta.`{target}` WHERE {where}")
        before = head_actions(spark, target)
        settings = Settings(state_dir=source + "-state", cores=2)
        again = Backfill.of(document(source, target, **spec), settings=settings)
        allowed = Backfill.of(document(source, target, name="allowed", target=ADDED), settings=settings)

        with pytest.raises(SwitchBlockedError) as refused:
            again.run(spark)
        with pytest.raises(SwitchBlockedError):
            again.plan(spark)

        assert_ending(refused.value, "SwitchBlocked")
        assert "spec.target.delta: " in refused.value.message
        assert head_actions(spark, target) == before
        assert job.complete_switch(spark).end == "Completed"
        with pytest.raises(SwitchBlockedError, match="a completed switch-over has replaced"):
            allowed.plan(spark)
        assert head_actions(spark, target) == before
        spark.sql(f"ALTER TABLE delta.`{target}` UNSET TBLPROPERTIES ('{SWITCHED_FROM}')")
        kept = len(ids_in(target))
        allowed.run(spark)
        assert len(ids_in(target)) == kept + 100


class TestGivenUp:
    """A switch-over that fails before its flip leaves the job as it found it."""

    def test_comparison_that_finds_a_difference_leaves_the_driver_and_the_fence_as_they_were(
        self, spark, tmp_path, moved
    ):
        """Another writer changes the target between both comparisons; then the source has a fence of a user."""
        job, name, source, target = moved()

        def damage(step):
            if step == "Fencing":
                spark.sql(f"UPDATE delta.`{target}` SET note = 'x' WHERE id = 5")

        with driven(spark, job, tmp_path) as running:
            running.until(lambda progress: progress.caught_up)
            with pytest.raises(VerificationFailedError) as failed:
                job.switch(spark, on_step=damage)
            assert FENCED not in str(head_actions(spark, source).protocol)
            other_engine.insert(source, "SELECT * REPLACE (CAST(5000 AS BIGINT) AS id) FROM now LIMIT 1")
            newest = head_actions(spark, source).version
            running.until(lambda progress: (progress.consumed_version or 0) >= newest)

            job.fence(spark)
            with pytest.raises(VerificationFailedError):
                job.switch(spark)
            assert FENCED in str(head_actions(spark, source).protocol)
            running.until(lambda progress: progress.caught_up)

        assert_ending(failed.value, "VerificationFailed")
        assert name.read_text() == source
        with pytest.raises(SwitchBlockedError) as none:
            job.complete_switch(spark)
        assert_ending(none.value, "SwitchBlocked")


class DiedError(BaseException):
    """The process of the command ends here."""


class TestAnotherCommand:
    """It comes while one stands still between two steps, or after one that was killed."""

    def test_leaves_one_table_in_use_and_ends_what_was_unfinished(self, spark, moved):
        """The slow command changes neither the name nor the target any more; an undo that went forward again goes forward once more."""
        job, name, source, target = moved()

        def undoes(step):
            if step == "Flipping":
                assert job.undo_switch(spark).end == "Undone"

        with pytest.raises(SwitchBlockedError, match="another command changed the switch-over"):
            job.switch(spark, on_step=undoes)
        assert name.read_text() == source
        assert FENCED not in str(head_actions(spark, source).protocol)
        assert job.switch(spark).end == "Switched"

        def dies(step):
            if step == "Reversing":
                other_engine.insert(target, "SELECT * REPLACE (CAST(5000 AS BIGINT) AS id) FROM now LIMIT 1")
            if step == "Releasing":
                raise DiedError

        with pytest.raises(DiedError):
            job.undo_switch(spark, on_step=dies)
        assert FENCED in str(head_actions(spark, target).protocol)
        with pytest.raises(SwitchBlockedError, match="other writers changed the target since the switch-over"):
            job.undo_switch(spark)
        assert name.read_text() == target
        assert FENCED not in str(head_actions(spark, target).protocol)
        assert job.switch(spark).end == "Switched"
