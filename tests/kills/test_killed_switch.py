"""`backfill switch` is killed with SIGKILL between its steps; the next run continues from the mark in the source's log."""

import os
import subprocess
import sys

import pytest
from support.switch_over.names import ids_in, make_name
from support.tables.jobs import make_orders, write_yaml

from backfill_core.source_fence.table_protocol import FENCED, SWITCH
from backfill_spark.delta.log import head_actions

KILLED = -9
LIMIT_S = 300


@pytest.fixture
def backfill(tmp_path):
    """Return a function that runs a command of the command line in a separate process, with a deadly point if one is given."""
    ours = {"BACKFILL_STATE_DIR": str(tmp_path / "state"), "BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g"}

    def run(*arguments, dies_at=None):
        crash = {"BACKFILL_CRASH_AT": dies_at} if dies_at else {}
        done = subprocess.run(
            [sys.executable, "-m", "backfill_cli", *arguments, "-f", str(tmp_path / "job.yaml")],
            env={**os.environ, **ours, **crash}, capture_output=True, text=True, check=False, timeout=LIMIT_S, start_new_session=True,
        )  # fmt: skip
        assert done.returncode == (KILLED if dies_at else 0), done.stdout + done.stderr
        return done

    return run


@pytest.mark.rest
class TestAKilledSwitch:
    """After each kill the source's log has everything that the next run needs."""

    def test_continues_at_each_step_and_its_undo_does_too(self, spark, tmp_path, backfill):
        """One table for all kills, because each process takes seconds."""
        source, target = str(tmp_path / "orders"), str(tmp_path / "orders_v2")
        make_orders(spark, source, 100, files=1)
        before = head_actions(spark, source)
        name, flip = make_name(tmp_path, source)
        write_yaml(
            tmp_path / "job.yaml", source, target, after="Follow", switch={"flip": flip}, barrier={"intervalMs": 200}
        )

        backfill("switch", dies_at="after_switch_step:3")
        fenced = head_actions(spark, source)
        assert FENCED in fenced.protocol["writerFeatures"]
        assert SWITCH not in fenced.metadata["configuration"]
        backfill("switch", dies_at="after_switch_step:6")
        assert '"stage":"Flipping"' in head_actions(spark, source).metadata["configuration"][SWITCH]
        assert name.read_text() == source
        backfill("switch", dies_at="after_switch_step:2")
        assert name.read_text() == target
        assert backfill("switch").stdout.startswith(f"switched: use {target}; {source} is read-only.")
        assert ids_in(target) == ids_in(source)

        backfill("switch", "--undo", dies_at="after_switch_step:3")
        assert '"stage":"Undoing"' in head_actions(spark, source).metadata["configuration"][SWITCH]
        assert FENCED in head_actions(spark, target).protocol["writerFeatures"]
        backfill("switch", "--undo", dies_at="after_switch_step:4")
        assert name.read_text() == source
        assert backfill("switch", "--undo").stdout.startswith(f"undone: {source} accepts writes.")
        after = head_actions(spark, source)
        assert (after.protocol, after.metadata) == (before.protocol, before.metadata)
        assert FENCED not in (head_actions(spark, target).protocol.get("writerFeatures") or ())
