"""The commands of a fence are killed with SIGKILL before and after their entry; the next call reads the result from the log."""

import json
import os
import subprocess
import sys

import pytest
from support.source_fence.writers import newest
from support.tables.jobs import make_orders, write_yaml

from backfill_core.source_fence.table_protocol import FENCED
from backfill_spark.delta.log import head_actions

KILLED, HELD_BY_ANOTHER = -9, 58
LIMIT_S = 200


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
class TestAKilledFence:
    """A kill between the entry and its answer leaves no doubt: the log has the fence, or it does not."""

    def test_a_kill_before_or_after_the_entry_changes_no_result(self, spark, tmp_path, backfill):
        """One table for all steps, because each process takes seconds."""
        at, file = str(tmp_path / "orders"), tmp_path / "job.yaml"
        make_orders(spark, at, 100, files=1)
        write_yaml(file, at, str(tmp_path / "copy"), jobId="shop/orders")
        other = write_yaml(tmp_path / "other.yaml", at, str(tmp_path / "copy"), jobId="shop/other")
        before = head_actions(spark, at)

        assert backfill("fence", "-f", str(file), dies_at="before_log_entry").returncode == KILLED
        assert newest(spark, at) == 0
        assert backfill("fence", "-f", str(file), dies_at="after_log_entry").returncode == KILLED
        assert newest(spark, at) == 1

        again = backfill("fence", "-f", str(file), "-o", "json")
        shown = json.loads(again.stdout)
        assert (shown["version"], shown["job"], shown["path"], newest(spark, at)) == (1, "shop/orders", at, 1)
        refused = backfill("unfence", "-f", str(other))
        assert (refused.returncode, newest(spark, at)) == (HELD_BY_ANOTHER, 1)
        assert "error: SourceFenced: " in refused.stderr
        assert "fenced by job 'shop/orders' at version 1" in refused.stderr

        assert backfill("unfence", "-f", str(file), dies_at="after_log_entry").returncode == KILLED
        lifted = backfill("unfence", "-f", str(file))
        assert lifted.stdout == f"{at} has no fence at version 2; nothing was changed\n"
        forced = backfill("fence", "-f", str(other), "--reason", "change 4711")
        assert f"{at} is fenced at version 3 by job shop/other, " in forced.stdout
        assert (
            "appendOnly, changeDataFeed, invariants -> reader version 1, writer version 7, appendOnly, "
            in forced.stdout
        )
        ended = backfill("unfence", "-f", str(file), "--force")
        assert (
            f"{at} accepts writes since version 4; the fence was held by job 'shop/other' at version 3" in ended.stdout
        )
        after = head_actions(spark, at)
        assert (after.version, after.protocol, after.metadata) == (4, before.protocol, before.metadata)
        assert FENCED not in after.metadata["configuration"]
