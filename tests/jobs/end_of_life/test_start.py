"""Start of a job at a version of an earlier time, and jobs that take only the later changes; delta-rs reads all tables back."""

import os
from pathlib import Path

import pytest
from deltalake import QueryBuilder, write_deltalake
from support.endings import assert_ending
from support.tables.jobs import forget_before, job, make_orders
from support.tables.oracle import differences, opened, seals, violations
from support.tables.other_engine import delete, insert, update

from backfill_core.errors import InvalidSpecError, SnapshotExpiredError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.driver.plan import plan_job
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

FIRST_S = 1_767_225_600
"""2026-01-01; each version is committed an hour after the one before."""


def rows_of(table, query="SELECT * FROM t", version=None):
    """Return the result of a query of a table, by delta-rs."""
    return QueryBuilder().register("t", opened(table, version)).execute(query).read_all()


@pytest.fixture
def place(spark, tmp_path):
    """A source of orders with four versions, and jobs from it."""

    class Place:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)

        def job(self, **spec):
            return job(self.source, self.target, **spec)

        def run(self, observe=lambda _: None, stop=None, mode="run", **spec):
            settings = self.settings.model_copy(update={"mode": mode})
            return run_driver(self.job(**spec), settings=settings, observe=observe, spark=spark, stop=stop)

        def change(self):
            update(self.source, "id % 10 = 3", amount="amount + 1")
            delete(self.source, "id % 10 = 4")
            insert(self.source, "SELECT id + 100000 AS id, customer, amount, note, status FROM now WHERE id < 20")

        def as_of(self, version):
            """Write the target as another tool would: a copy of the source at a version."""
            write_deltalake(self.target, rows_of(self.source, "SELECT * FROM t", version))

    make_orders(spark, Place.source, 400, files=2)
    Place().change()
    for version in range(4):
        at_s = FIRST_S + 3600 * version
        os.utime(Path(Place.source, "_delta_log", f"{version:020d}.json"), (at_s, at_s))
    return Place()


class TestATime:
    """The snapshot is the table as of the time, found out once."""

    def test_a_job_starts_from_the_version_of_its_time_and_resumes_there(self, spark, place):
        """The time is resolved once: a killed or stopped job continues with its version, whatever the log's times are by then."""
        spec = {"source": {"timestamp": "2026-01-01T02:30:00+01:00"}, "after": "Follow"}
        assert plan_job(place.job(**spec), settings=place.settings, spark=spark).version == 1
        stop = StopSignal()
        stopped = place.run(lambda progress: progress.attempt and stop.ask(force=False), stop, **spec)
        assert stopped.outcome == "Stopped"
        os.utime(Path(place.source, "_delta_log", f"{1:020d}.json"), (FIRST_S + 3600 * 2 - 1,) * 2)

        stop = StopSignal()
        place.run(lambda progress: progress.caught_up and stop.ask(force=False), stop, **spec)

        last = seals(place.target)[-1]
        assert (last.state["snapshot"]["version"], last.state["snapshot"]["consumed"]) == (1, 3)
        assert violations(place.source, place.target, last) == []

    @pytest.mark.parametrize(
        ("time", "reason"),
        [("2025-12-31T23:59:59Z", "InvalidSpec"), ("2999-01-01T00:00:00Z", "InvalidSpec")],
    )
    def test_a_time_without_a_version_is_refused(self, place, time, reason):
        """Before the first version and in the future the table has no version."""
        assert place.run(source={"timestamp": time}).reason == reason
        assert not Path(place.target).exists()

    def test_a_time_whose_version_is_gone_is_refused(self, spark, place):
        """The next version would silently be another table."""
        forget_before(spark, place.source, 2)

        ended = place.run(source={"timestamp": "2026-01-01T01:30:00Z"})

        assert_ending(ended, "SnapshotExpired")
        assert isinstance(ended.error, SnapshotExpiredError)
        assert "the oldest is 2" in ended.message


class TestChangesOnly:
    """No row of the first version is read; each later change is applied exactly once."""

    def test_changes_are_merged_into_a_copy_of_another_tool(self, place):
        """The target equals the source although the job copied nothing, also after a stop between the changes."""
        place.as_of(0)
        spec = {"source": {"changesOnly": True, "version": 0}, "target": {"existingRows": "Keep"}, "after": "Follow"}
        stop = StopSignal()
        place.run(lambda progress: progress.caught_up and stop.ask(force=False), stop, **spec)
        assert differences(place.target, place.source) == []
        update(place.source, "id % 10 = 5", amount="amount + 7")

        stop = StopSignal()
        place.run(lambda progress: progress.consumed_version == 4 and stop.ask(force=False), stop, **spec)

        assert differences(place.target, place.source) == []
        state = seals(place.target)[-1].state
        assert (state["rowsDone"], state["snapshot"]["version"], state["snapshot"]["consumed"]) == (0, 0, 4)

    def test_an_empty_target_gets_only_the_changed_rows(self, place):
        """Rows that never changed stay in the source alone; removed ones are in neither."""
        assert place.run(source={"changesOnly": True, "version": 0}).reason == "Complete"

        ids = rows_of(place.target)["id"].to_pylist()
        assert len(ids) == len(set(ids))
        assert set(ids) == {number for number in range(400) if number % 10 == 3} | {
            100_000 + number for number in range(20) if number % 10 != 4
        }

    def test_a_changelog_has_each_change_once(self, place):
        """A start from the newest version has none of the earlier changes."""
        spec = {"source": {"changesOnly": True}, "target": {"writeMode": "Changelog"}}
        assert place.run(**spec).reason == "Complete"
        update(place.source, "id = 7", amount="amount + 1")

        assert place.run(mode="refresh", **spec).reason == "Complete"

        rows = rows_of(place.target)
        assert sorted(zip(rows["_op"].to_pylist(), rows["id"].to_pylist(), strict=True)) == [
            ("update_postimage", 7),
            ("update_preimage", 7),
        ]

    def test_an_append_target_gets_only_the_added_rows(self, place):
        """Version 3 adds rows and changes none, so an append-only target can take it."""
        spec = {"source": {"changesOnly": True, "timestamp": "2026-01-01T02:00:00Z"}, "target": {"writeMode": "Append"}}
        assert place.run(**spec).reason == "Complete"

        ids = rows_of(place.target)["id"].to_pylist()
        assert sorted(ids) == [100_000 + number for number in range(20) if number % 10 != 4]

    def test_a_target_with_two_rows_of_a_key_is_refused_before_a_change(self, place):
        """A merge into both rows would hide that the copy was wrong."""
        place.as_of(0)
        insert(place.target, "SELECT * FROM now WHERE id = 3")

        ended = place.run(source={"changesOnly": True, "version": 0}, target={"existingRows": "Keep"})

        assert ended.reason == "KeyNotUnique"
        assert rows_of(place.target).num_rows == 401

    def test_a_comparison_is_refused_by_name(self, spark, place):
        """It would report all rows that never changed."""
        place.run(source={"changesOnly": True, "version": 0})

        with pytest.raises(InvalidSpecError, match="changesOnly"):
            verify_offline(place.job(source={"changesOnly": True, "version": 0}), settings=place.settings, spark=spark)
