"""Whole jobs of the rearranged chain on real tables: with live changes, and with a kill, after which the job starts again.

The reference is another implementation of Delta, and the model defines the rows of each commit (tests/support/tables/oracle.py).
"""

import os
import signal
import subprocess
import sys

import pytest
from deltalake import DeltaTable
from support.tables.jobs import job, make_orders, write_yaml
from support.tables.oracle import rows_in, seals, violations
from support.tables.other_engine import delete

from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.settings import DriverSettings

ROWS, FILES = 6_000, 6
CHAIN = {"strategy": {"type": "RearrangedChain"}, "barrier": {"intervalMs": 200}, "verify": "Final"}


class Place:
    """A source of some files, a target that does not exist yet, and a user's actions on both."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.source, self.target = str(folder / "s"), str(folder / "t")
        self.settings = DriverSettings(cores=2, state_dir=folder / "state")
        make_orders(spark, self.source, ROWS, files=FILES)

    def run(self, observe=lambda _: None, **spec):
        """Run an attempt in this process."""
        backfill = job(self.source, self.target, **CHAIN, **spec)
        return run_driver(backfill, settings=self.settings, observe=observe, spark=self.spark)

    def killed(self, point):
        """Run an attempt in a separate process, which is killed at a given point."""
        file = write_yaml(self.folder / "job.yaml", self.source, self.target, **CHAIN, throttle={"rowsPerSecond": 2000})
        env = dict(os.environ, BACKFILL_STATE_DIR=f"{self.folder}/state", BACKFILL_CORES="1", BACKFILL_MEMORY="1g")
        command = [sys.executable, "-m", "backfill_spark", "-f", str(file)]
        ended = subprocess.run(command, env=env | {"BACKFILL_CRASH_AT": point}, capture_output=True, timeout=150)
        return ended.returncode

    def wrong(self):
        """Return the violations at any commit of the target."""
        return [violation for seal in seals(self.target) for violation in violations(self.source, self.target, seal)]

    def phases(self):
        """Return the phases of the commits, each once, in their order."""
        return list(dict.fromkeys((seal.state["attempt"], seal.progress["phase"]) for seal in seals(self.target)))


@pytest.fixture
def place(spark, tmp_path):
    return Place(spark, tmp_path)


class TestAWholeJob:
    """A whole job, from a spec to a receipt."""

    def test_a_whole_job_has_the_changes_that_came_while_it_copied(self, place):
        """R-CHAIN-6, R-CHAIN-11: an update, a delete and moved keys. The job is caught up once the target has them."""
        changes = [
            lambda table: table.update(updates={"amount": "amount + 1"}, predicate="id % 7 = 0"),
            lambda table: table.delete("id % 11 = 0"),
            lambda table: table.update(updates={"id": "id + 1000000"}, predicate="id % 13 = 0"),
        ]

        def observe(progress):
            while changes and progress.phase == "Rearranging" and progress.rows_done:
                changes.pop()(DeltaTable(place.source))

        outcome = place.run(observe, throttle={"rowsPerSecond": 600})

        assert (outcome.outcome, outcome.receipt.equal, changes) == ("Complete", True, [])
        assert place.wrong() == []
        assert place.phases()[0] == (1, "Rearranging")
        assert place.phases()[-1] == (1, "Forwarding")
        last = seals(place.target)[-1].progress
        assert last["consumed"] == last["version"] + 3


class TestAKill:
    """The rows of the killed attempt are removed."""

    def test_the_next_attempt_after_a_kill_starts_again(self, place):
        """R-CHAIN-15: rows that left the source meanwhile are not in the target, and no row is doubled."""
        assert place.killed("before_seal:4") == -signal.SIGKILL
        there = rows_in(place.target)
        delete(place.source, "id < 500")
        assert 0 < there < ROWS
        assert place.wrong() == []

        plan = plan_job(job(place.source, place.target, **CHAIN), settings=place.settings, spark=place.spark)
        outcome = place.run()

        messages = {warning.reason: warning.message for warning in plan.warnings}
        assert {"NotResumable", "MayNotCatchUp", "StartsOver"} <= set(messages)
        assert f"removes {there:,} rows of the target" in messages["StartsOver"]
        assert (outcome.outcome, outcome.receipt.equal) == ("Complete", True)
        assert rows_in(place.target) == ROWS - 500
        assert place.wrong() == []
        first = next(seal for seal in seals(place.target) if seal.state["attempt"] == 2)
        assert (first.state["rowsDone"], first.progress["done"]) == (0, [])
