"""The real driver is killed with SIGKILL while it fills one bucket from another; no row is lost and no row is doubled.

The jobs, their deaths and the comparisons are those of `tests/crash`; source and target lie on a real S3 server. delta-rs
changes the source and reads both, and the log is read from the store.
"""

import os
from collections import Counter

import pytest
from support.crashes.deaths import ANYWHERE, lives
from support.crashes.table_job import WHOLE, Places, TableJob, points_of
from support.stores.minio import for_spark
from support.stores.objects import objects_at

from backfill_spark.jvm.object_store.s3_requests import S3Folder

KILLS = int(os.environ.get("BACKFILL_KILLS", "20"))
"""Kills of both strategies together."""

STRATEGIES = ("Snapshot", "Replica")
OF_EACH = KILLS // len(STRATEGIES)
MANY = 50
"""Number of kills of a strategy in which each kind of death occurs; fewer show the named points and some random kills."""

pytestmark = pytest.mark.timeout(1800 + 120 * KILLS)


@pytest.fixture(scope="module", params=STRATEGIES)
def strategy(request):
    return request.param


@pytest.fixture(scope="module")
def targets(strategy):
    """Return the targets of this strategy's jobs, once they were made."""
    return []


@pytest.fixture(scope="module")
def reports(environment, store, strategy, spark, tmp_path_factory, targets):
    """Let drivers of a strategy die until the requested number of deaths is reached; the first job meets each named point."""
    tmp_path_factory.getbasetemp()  # two concurrent threads would make two

    def make(seed):
        name = f"{strategy.lower()}-{seed}"
        places = Places(f"s3a://here/{name}/source", f"s3a://there/{name}/target", for_spark(store.endpoint))
        targets.append(f"s3a://there/{name}/target")
        return TableJob(spark, tmp_path_factory.mktemp(name), strategy, seed, places)

    return lives(make, OF_EACH, jobs_min=1)


class TestDeathChangesNothing:
    """Delivery stays exactly once in a bucket too, whichever process dies and whenever (R-SNAP-37, R-SNAP-38)."""

    def test_every_seal_and_every_end_matches_its_state(self, reports):
        """0 rows lost, 0 doubled."""
        assert [problem for report in reports for problem in report.problems] == []
        assert sum(report.seals_checked for report in reports) >= OF_EACH / 2

    def test_a_driver_died_at_each_named_point(self, reports, strategy):
        """A crash point that is never reached proves nothing."""
        died = sum((report.kills for report in reports), Counter())
        anywhere = ANYWHERE if OF_EACH >= MANY else set()

        assert anywhere | {point.split(":")[0] for point in points_of(strategy)} <= set(died)

    def test_whole_files_are_copied_by_the_store(self, reports, strategy, spark, targets):
        """Only an object that the store copied has a CRC-32C there: the driver's own writes send none.

        A job of all columns copies whole objects. With fewer columns the driver writes the column chunks itself.
        """
        whole = [target for target, report in zip(targets, reports, strict=True) if report.mode == WHOLE]
        keys = [(target, key) for target in whole for key in objects_at(target) if key.endswith(".parquet")]
        copied = [key for target, key in keys if S3Folder(spark, target).describe(key).digest is not None]

        assert strategy != "Replica" or keys
        assert len(copied) * 2 >= len(keys)

    def test_a_woken_driver_meets_the_fence(self, reports):
        """Here the store rejects its commit; no lock of a machine is involved."""
        assert OF_EACH < MANY or sum(report.fenced for report in reports) > 0

    def test_the_requested_number_of_drivers_died(self, reports):
        """The suite reports the deaths that happened, not those that it planned."""
        assert sum(report.kills.total() for report in reports) >= OF_EACH
