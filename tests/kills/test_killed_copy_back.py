"""A source that follows the target: the copy back and its undo are killed with SIGKILL, or ended by Ctrl-C."""

import os
import signal
import subprocess
import sys

import pytest
from support.drivers.background import Running
from support.switch_over.names import ids_in, make_name
from support.tables import other_engine
from support.tables.jobs import make_orders, write_yaml

from backfill_api.load import load_backfill
from backfill_core.source_fence.table_protocol import FENCED
from backfill_spark.delta.log import head_actions

KILLED, STOPPED = -9, 10
LIMIT_S = 300


@pytest.fixture
def backfill(tmp_path):
    """Return a function that starts a command of the command line, with a deadly point if one is given."""
    ours = {"BACKFILL_STATE_DIR": str(tmp_path / "state"), "BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g"}
    started = []

    def start(*arguments, dies_at=None):
        crash = {"BACKFILL_CRASH_AT": dies_at} if dies_at else {}
        process = subprocess.Popen(
            [sys.executable, "-m", "backfill_cli", *arguments, "-f", str(tmp_path / "job.yaml")],
            env={**os.environ, "PYTHONUNBUFFERED": "1", **ours, **crash}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(LIMIT_S)
        process.stdout.close()


def ended(process, code=0):
    """Wait for the end of a command; return its output."""
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code, output
    return output


@pytest.mark.rest
class TestAKilledCopyBack:
    """The entry in the source's log has the files and the position of the target, or does not exist."""

    def test_continues_without_a_lost_or_doubled_row_and_so_does_its_undo(self, spark, tmp_path, backfill):
        """One table for all kills, because each process takes seconds. The job asks for it after its switch-over only."""
        source, target = str(tmp_path / "orders"), str(tmp_path / "orders_v2")
        make_orders(spark, source, 100, files=1)
        name, flip = make_name(tmp_path, source)

        def spec(kept):
            switch = {"flip": flip, "keepSource": kept}
            write_yaml(
                tmp_path / "job.yaml", source, target, strategy={"type": "Replica"}, after="Follow", switch=switch,
                barrier={"intervalMs": 200},
            )  # fmt: skip

        def insert(order):
            other_engine.insert(target, f"SELECT * REPLACE (CAST({order} AS BIGINT) AS id) FROM now LIMIT 1")

        spec("Fenced")
        ended(backfill("switch"))
        spec("Following")
        insert(5000)
        ended(backfill("switch", dies_at="after_stage:1"), KILLED)
        assert ids_in(source) == list(range(100))
        ended(backfill("switch", dies_at="after_log_entry:1"), KILLED)
        assert ids_in(source) == [*range(100), 5000]
        insert(5001)
        follower = backfill("switch")
        version = head_actions(spark, target).version
        assert any(f"{source} holds version {version} of {target}" in line for line in follower.stdout)
        os.killpg(follower.pid, signal.SIGINT)
        assert "`backfill switch` continues" in ended(follower, STOPPED)
        assert ids_in(source) == ids_in(target) == [*range(100), 5000, 5001]

        insert(5002)
        ended(backfill("switch", "--undo", dies_at="after_switch_step:4"), KILLED)
        assert ids_in(source) == [*range(100), 5000, 5001, 5002]
        assert name.read_text() == target
        ended(backfill("switch", "--undo", dies_at="after_switch_step:5"), KILLED)
        assert name.read_text() == source
        assert ended(backfill("switch", "--undo")).startswith(f"undone: {source} accepts writes.")
        assert ids_in(source) == ids_in(target)
        for path in (source, target):
            assert FENCED not in (head_actions(spark, path).protocol.get("writerFeatures") or ())

        other_engine.delete(source, "id = 5001")
        with Running(spark, load_backfill((tmp_path / "job.yaml").read_text()), tmp_path / "state") as running:
            newest = head_actions(spark, source).version
            running.until(lambda progress: (progress.consumed_version or 0) >= newest)
        assert ids_in(source) == ids_in(target) == [*range(100), 5000, 5002]
