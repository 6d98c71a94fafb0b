"""A run is killed with SIGKILL at both ends of its hold of the source: the next run restores the earlier retention."""

import json
import os
import subprocess
import sys

import pytest
from deltalake import DeltaTable
from support.tables.jobs import make_orders, write_yaml

KILLED = -9
LIMIT_S = 200
LOG, FILES, HOLD = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration", "backfill.hold"


@pytest.fixture
def backfill(tmp_path):
    """Return a function that runs a command of the command line in a separate process, with a deadly point if one is given."""
    ours = {"BACKFILL_STATE_DIR": str(tmp_path / "state"), "BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g"}

    def run(*arguments, dies_at=None):
        crash = {"BACKFILL_CRASH_AT": dies_at} if dies_at else {}
        return subprocess.run(
            [sys.executable, "-m", "backfill_cli", *arguments],
            env={**os.environ, **ours, **crash}, capture_output=True, text=True, check=False, timeout=LIMIT_S, start_new_session=True,
        )  # fmt: skip

    return run


@pytest.mark.rest
class TestAKilledHold:
    """The log entry of the hold has the earlier values, so no kill loses them."""

    def test_a_killed_job_restores_its_source_at_its_end_and_can_be_dropped(self, spark, tmp_path, backfill):
        """One table for all steps, because each process takes seconds."""
        at, copy = str(tmp_path / "orders"), tmp_path / "copy"
        make_orders(spark, at, 100, files=1, **{LOG: "interval 9 days"})
        file = str(write_yaml(tmp_path / "job.yaml", at, str(copy), source={"hold": "Extend"}))

        def kept():
            properties = DeltaTable(at).metadata().configuration
            return properties.get(LOG), properties.get(FILES), HOLD in properties

        assert backfill("run", "-f", file, dies_at="after_log_entry").returncode == KILLED
        assert (kept(), copy.exists()) == (("interval 2160 hours", "interval 2160 hours", True), False)
        assert backfill("run", "-f", file, dies_at="after_finish").returncode == KILLED
        assert kept() == ("interval 2160 hours", "interval 2160 hours", True)
        assert backfill("run", "-f", file).returncode == 0
        assert kept() == ("interval 9 days", None, False)

        shown = backfill("drop", "-f", file)
        assert shown.returncode == 0, shown.stderr
        assert "Nothing was removed. Run the command with --yes to remove it." in shown.stdout
        assert copy.exists()
        dropped = backfill("drop", "-f", file, "--yes", "-o", "json")
        assert json.loads(dropped.stdout)["removed"] is True
        assert not copy.exists()
