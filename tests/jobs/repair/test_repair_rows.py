"""A repair replaces exactly the rows that differ. Spark plants the damage, and delta-rs compares both sides."""

import pytest
from support.drivers.opened_job import looked_at
from support.endings import assert_ending
from support.tables.jobs import job, make_orders, vacuum
from support.tables.oracle import differences, opened
from support.tables.other_engine import update

from backfill_core.errors import (
    AlreadyRunningError,
    FencedError,
    NotRepairableError,
    SnapshotExpiredError,
    TargetChangedError,
)
from backfill_core.protocol.epochs import txn_version
from backfill_spark.control.local_registry import LocalRegistry
from backfill_spark.driver.attempt import run_driver
from backfill_spark.repair import repair
from backfill_spark.repair.repair import repair_target
from backfill_spark.settings import DriverSettings

ROWS = 400
KEYLESS = {
    "source": {"key": []},
    "target": {"writeMode": "Append", "properties": {"delta.enableDeletionVectors": "true"}},
}


class Place:
    """A finished job, and its two tables."""

    def __init__(self, spark, folder, **spec):
        self.spark, self.source, self.target = spark, str(folder / "s"), str(folder / "t")
        self.settings = DriverSettings(state_dir=folder / "state", cores=2)
        make_orders(spark, self.source, ROWS, files=4)
        self.job = job(self.source, self.target, **({"verify": "Final"} | spec))
        assert run_driver(self.job, settings=self.settings, spark=spark).outcome == "Complete"

    def repair(self, **options):
        """Repair the target."""
        return repair_target(self.job, settings=self.settings, spark=self.spark, **options)

    def damage(self, *statements):
        """Change rows of the target, which is `{t}` in the statements."""
        for statement in statements:
            self.spark.sql(statement.format(t=f"delta.`{self.target}`"))

    @property
    def version(self):
        """Newest version of the target."""
        return opened(self.target).version()

    @property
    def state(self):
        """State of the job in the target."""
        return looked_at(self.spark, self.job).state


LOST_CHANGED_DOUBLED = (
    "DELETE FROM {t} WHERE id IN (3, 170)",
    "UPDATE {t} SET amount = -1, note = NULL WHERE id IN (7, 201, 399)",
    "INSERT INTO {t} SELECT * FROM {t} WHERE id = 11",
    "INSERT INTO {t} SELECT id + 100000, customer, amount, note, status FROM {t} WHERE id = 12",
)
FEED = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{state}')"


class TestARepairOfRows:
    """Each kind of damage is repaired in one commit, and the result is verified."""

    @pytest.mark.parametrize(("spec", "rows"), [({}, (2, 3, 2)), (KEYLESS, (5, 0, 5))], ids=["by key", "without a key"])
    def test_lost_changed_and_doubled_rows_are_repaired_in_one_commit(self, spark, tmp_path, spec, rows):
        """A MERGE cannot remove one of two equal rows; without a key there is none."""
        place = Place(spark, tmp_path, **spec)
        place.damage(*LOST_CHANGED_DOUBLED)
        damaged, frozen = place.version, looked_at(spark, place.job)
        before = frozen.state

        counted = place.repair(dry_run=True)

        assert (place.version, counted.version, counted.receipt.equal) == (damaged, None, False)
        assert (counted.rows.inserted, counted.rows.updated, counted.rows.deleted) == rows
        assert differences(place.target, place.source) != []

        done = place.repair()

        assert differences(place.target, place.source) == []
        assert (done.rows, done.receipt.equal, done.receipt.rows) == (counted.rows, True, ROWS)
        assert (done.version, place.version) == (damaged + 2, damaged + 3)
        after = place.state
        assert (after.attempt, after.finished, after.consumed) == (before.attempt + 1, True, before.consumed)
        assert (after.receipt.equal, after.receipt.target_version) == (True, done.version)
        again = place.repair()
        assert (again.version, again.before.equal, place.version) == (None, True, damaged + 3)
        # Delta itself refuses a driver that froze before the repair and wakes up now.
        with pytest.raises(FencedError):
            frozen.committer.seal(txn_version(before.attempt, before.epoch + 9), (), before.encode())
        assert run_driver(place.job, settings=place.settings, spark=spark).reason == "AlreadyComplete"


class TestARepairThatIsRefused:
    """A repair that cannot succeed names the reason, and changes nothing."""

    def test_each_reason_has_a_name(self, spark, tmp_path):
        """One target for all reasons, because a job takes seconds."""
        place = Place(spark, tmp_path, verify="None", **KEYLESS)
        place.damage("DELETE FROM {t} WHERE id = 3", "UPDATE {t} SET amount = -1 WHERE id = 5")
        damaged = place.version

        with pytest.raises(NotRepairableError, match=r"no receipt: spec.verify is None") as refused:
            place.repair()
        assert_ending(refused.value, "NotRepairable")
        assert "backfill run --refresh" in refused.value.hint
        with LocalRegistry(place.settings.state_dir, place.job.job_id), pytest.raises(AlreadyRunningError):
            place.repair()

        assert place.version == damaged
        place.job = job(place.source, place.target, verify="Final", **KEYLESS)
        refreshing = place.settings.model_copy(update={"mode": "refresh"})
        outcome = run_driver(place.job, settings=refreshing, spark=spark)
        assert (outcome.reason, "backfill repair" in outcome.hint) == ("VerificationFailed", True)
        place.damage("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
        damaged = place.version
        with pytest.raises(NotRepairableError, match=r"delta.appendOnly = true, which .* must remove 1 of"):
            place.repair()
        assert place.version == damaged
        place.damage("ALTER TABLE {t} UNSET TBLPROPERTIES ('delta.appendOnly')")
        place.damage(FEED.format(state="true", t="{t}"))
        damaged = place.version
        with pytest.raises(NotRepairableError, match=r"delta.enableChangeDataFeed = true, for which") as refused:
            place.repair()
        assert (place.version, "'delta.enableChangeDataFeed' = 'false'" in refused.value.hint) == (damaged, True)
        place.damage(FEED.format(state="false", t="{t}"))
        assert place.repair().receipt.equal
        assert differences(place.target, place.source) == []
        # Kernel allows a commit that only removes files, so rows that another writer added are no reason.
        extra = "INSERT INTO {t} SELECT id + 100000, customer, amount, note, status FROM {t} WHERE id = 12"
        place.damage(FEED.format(state="true", t="{t}"), extra)
        assert place.repair().receipt.equal
        assert differences(place.target, place.source) == []

    def test_a_source_version_that_is_gone_is_named_with_a_way_out(self, spark, tmp_path):
        """The rows of the compared version were rewritten and vacuumed."""
        place = Place(spark, tmp_path)
        place.damage("DELETE FROM {t} WHERE id = 3")
        update(place.source, "id >= 0", amount="1.0")
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        vacuum(spark, place.source)
        damaged = place.version

        with pytest.raises(SnapshotExpiredError, match="a repair reads the source at version 0, which is gone") as gone:
            place.repair()

        assert (place.version, "backfill run --refresh" in gone.value.hint) == (damaged, True)

    def test_a_commit_of_another_writer_during_the_repair_ends_it(self, spark, tmp_path, monkeypatch):
        """Even an OPTIMIZE: the files that the repair replaces are gone then, and their rows would be doubled."""
        place = Place(spark, tmp_path)
        place.damage("UPDATE {t} SET amount = -1 WHERE id = 7")

        def reaches(name):
            if name == "before_repair":
                place.damage("OPTIMIZE {t}")

        monkeypatch.setattr(repair, "crash_point", reaches)
        with pytest.raises(TargetChangedError, match="during the repair") as changed:
            place.repair()
        monkeypatch.undo()

        assert "Run the repair again" in changed.value.hint
        assert place.repair().receipt.equal
        assert differences(place.target, place.source) == []
