"""Start, hold and end of a job between buckets: a hold is undone although answers are lost, and a dropped target leaves no object.

delta-rs changes the source, and reads both tables.
"""

from collections import Counter
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from support.endings import assert_ending
from support.stores.fault_proxy import Fault
from support.stores.objects import objects_at, unfinished_uploads
from support.tables.jobs import job
from support.tables.oracle import columns_of, differences, seals
from support.tables.other_engine import append, delete, insert

from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.release import drop, release
from backfill_spark.jvm.object_store.s3_requests import S3Copies, S3Folder
from backfill_spark.settings import DriverSettings

pytestmark = pytest.mark.usefixtures("environment")

ORDERS = "SELECT value AS id, value % 7 AS kind, concat('\u2028 ', value) AS note FROM generate_series({first}, {last})"
LOG = "delta.logRetentionDuration"
HELD = "interval 2160 hours"


@pytest.fixture
def source(place):
    """Two versions with 100 rows each."""
    at = place("here")
    for first in (0, 100):
        append(at, ORDERS, first, 100)
    return at


@pytest.fixture
def perform(spark, tmp_path):
    """Return a function that calls a command with a job, and with the session and the settings of this test."""
    settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
    return lambda command, spec, **options: command(spec, settings=settings, spark=spark, **options)


class TestAHoldInABucket:
    """Its two log entries are PUTs with a condition."""

    def test_ends_with_the_job_and_a_drop_leaves_nothing(self, spark, source, place, perform, proxy):
        """The answers of both entries are lost. The target goes with all objects, also with uploads of a killed driver."""
        at, seen = place("there"), set()
        spec = job(source, at, source={"hold": "Extend"}, verify="Final")
        lost = Fault("lost answer", "PUT", f"{source.removeprefix('s3a:/')}/_delta_log/0", 2)
        proxy.faults.append(lost)

        outcome = perform(
            run_driver, spec, observe=lambda _: seen.add(DeltaTable(source).metadata().configuration.get(LOG))
        )

        assert (outcome.message, outcome.outcome, outcome.receipt.equal) == ("", "Complete", True)
        assert (HELD in seen, lost.met) == (True, 2)
        assert LOG not in DeltaTable(source).metadata().configuration
        assert differences(at, source) == []
        upload = S3Copies(spark, S3Folder(spark, source), S3Folder(spark, at)).upload("backfill-x/a1/s1/begun")
        upload.__enter__()  # a driver died in this block
        assert len(unfinished_uploads(f"{at}/backfill-x/a1/s1/begun")) == 1
        perform(drop, spec)
        assert [*objects_at(at)] == []
        assert unfinished_uploads(f"{at}/backfill-x/a1/s1/begun") == []

    def test_is_refused_without_write_access_before_a_target_exists(self, source, place, perform, proxy):
        """The keys may only read the source; the message names the field."""
        denied = Fault("denied", "PUT", f"{source.removeprefix('s3a:/')}/_delta_log/", 1000)
        proxy.faults.append(denied)

        outcome = perform(run_driver, job(source, place("there"), source={"hold": "Extend"}))
        proxy.faults.remove(denied)

        assert_ending(outcome, "PermissionDenied")
        assert "spec.source.delta.hold is Extend, and the log of" in outcome.message
        assert [key for key in objects_at(place("there")) if not key.endswith("/")] == []


class TestAStart:
    """The times at which the store got the commits decide."""

    def test_at_a_time_takes_the_version_of_that_time(self, source, place, perform):
        """A snapshot is that version, and the changes follow; with `changesOnly` only they arrive. A release frees the target."""
        when = datetime.now(UTC)
        delete(source, "id % 10 = 3")
        insert(source, "SELECT * REPLACE (id + 10000 AS id) FROM now LIMIT 5")
        whole, changes = place("there"), f"{place('there')}-changes"

        copied = perform(run_driver, job(source, whole, source={"timestamp": when.isoformat()}))
        spec = job(source, changes, source={"timestamp": when.isoformat(), "changesOnly": True})
        changed = perform(run_driver, spec)

        assert (copied.message, changed.message) == ("", "")
        assert seals(whole)[-1].state["snapshot"]["version"] == 1
        assert differences(whole, source) == []
        assert all(number >= 10_000 for (number,) in columns_of(changes, "id"))
        assert len(columns_of(changes, "id")) == 5
        perform(release, spec)
        insert(changes, "SELECT * REPLACE (CAST(7000 AS BIGINT) AS id) FROM now LIMIT 1")


class TestAPart:
    """One commit replaces the rows of a scope."""

    def test_of_a_table_is_replaced_after_its_receipt(self, place, perform):
        """All other rows stay, and after a release the table accepts any writer."""
        at, source, scope = place("there"), place("here"), "part = 1"
        rows = "SELECT value AS id, value % 3 AS part, '{}' AS name FROM range(90)"
        write_deltalake(at, QueryBuilder().execute(rows.format("old")).read_all(), partition_by=["part"])
        write_deltalake(source, QueryBuilder().execute(rows.format("new")).read_all())
        target = {"writeMode": "Append", "publish": "WhenVerified", "scope": scope}
        spec = job(source, at, source={"key": []}, target=target, transform={"where": scope}, verify="Final")

        outcome = perform(run_driver, spec)

        assert (outcome.message, outcome.receipt.equal) == ("", True)
        assert Counter(columns_of(at, "part", "name")) == {(0, "old"): 30, (1, "new"): 30, (2, "old"): 30}
        perform(release, spec)
        insert(at, "SELECT * REPLACE (CAST(7000 AS BIGINT) AS id) FROM now LIMIT 1")
