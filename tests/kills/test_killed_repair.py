"""A repair is killed with SIGKILL before and after its commit; the next repair completes it, or finds nothing to do."""

import json
import os
import subprocess
import sys

import pytest
from support.drivers.opened_job import looked_at
from support.tables.jobs import job, make_orders, write_yaml
from support.tables.oracle import differences

from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings

KILLED, LIMIT_S = -9, 200


@pytest.mark.rest
class TestAKilledRepair:
    """The target is repaired in one commit, so a kill leaves it damaged or repaired, and nothing between."""

    def test_a_kill_before_or_after_the_commit_loses_nothing(self, spark, tmp_path):
        """One target for all steps, because each process takes seconds."""
        source, target, file = str(tmp_path / "s"), str(tmp_path / "t"), tmp_path / "job.yaml"
        make_orders(spark, source, 300, files=3)
        write_yaml(file, source, target, jobId="shop/orders", verify="Final")
        backfill, state = job(source, target, jobId="shop/orders", verify="Final"), tmp_path / "state"
        run_driver(backfill, settings=DriverSettings(state_dir=state, cores=2), spark=spark)
        spark.sql(f"UPDATE delta.`{target}` SET amount = -1 WHERE id IN (5, 250)")
        damage = differences(target, source)

        assert repaired(file, state, dies_at="before_repair").returncode == KILLED
        assert differences(target, source) == damage != []
        assert repaired(file, state, dies_at="after_repair").returncode == KILLED
        assert differences(target, source) == []
        assert not looked_at(spark, backfill).state.receipt.equal

        done = repaired(file, state)
        shown = json.loads(done.stdout)

        assert (done.returncode, shown["version"], shown["rowsUpdated"], shown["receipt"]["mismatches"]) == (
            0,
            None,
            0,
            [],
        )
        assert looked_at(spark, backfill).state.receipt.equal
        assert differences(target, source) == []


def repaired(file, state, *, dies_at=None):
    """Run the command line in a separate process, with a deadly point if one is given."""
    crash = {"BACKFILL_CRASH_AT": dies_at} if dies_at else {}
    ours = {"BACKFILL_STATE_DIR": str(state), "BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g"}
    return subprocess.run(
        [sys.executable, "-m", "backfill_cli", "repair", "-f", str(file), "-o", "json"],
        env={**os.environ, **ours, **crash}, capture_output=True, text=True, check=False, timeout=LIMIT_S, start_new_session=True,
    )  # fmt: skip
