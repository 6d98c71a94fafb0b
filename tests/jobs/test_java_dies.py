"""The Java process of a driver is killed or hangs: the driver ends and names the cause, and the next one continues."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.endings import assert_ending
from support.tables.jobs import make_orders, write_yaml

pytestmark = pytest.mark.rest

ROWS = 4000


def children(pid):
    """Return the processes that a process started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def copying(spark, tmp_path):
    """Yield a driver that has committed rows, and its Java process."""
    make_orders(spark, str(tmp_path / "source"), ROWS, files=4)
    limit = {"throttle": {"rowsPerSecond": 100}}
    file = write_yaml(tmp_path / "job.yaml", str(tmp_path / "source"), str(tmp_path / "target"), **limit)
    settings = {"BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g", "BACKFILL_STATE_DIR": str(tmp_path / "state")}
    process = subprocess.Popen(
        [sys.executable, "-m", "backfill_spark", "-f", str(file)],
        env=os.environ | settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        for line in process.stdout:
            if json.loads(line).get("rowsDone"):
                break
        [java] = children(process.pid)
        yield process, java
    finally:
        process.kill()


def test_a_killed_java_process_is_named(spark, tmp_path):
    """Twelve seconds of retries ended as `Unexpected`, which means a bug of the product."""
    with copying(spark, tmp_path) as (process, java):
        os.kill(java, signal.SIGKILL)
        output, errors = process.communicate(timeout=60)

        last = json.loads(output.splitlines()[-1])
        assert_ending(last, "JavaDied", process.returncode)
        assert "this is a bug" not in errors


def test_a_java_process_that_hangs_is_ended_and_named(spark, tmp_path):
    """It was reported as live, without lag, forever. A stopped process answers nothing, like one in a deadlock."""
    with copying(spark, tmp_path) as (process, java):
        os.kill(java, signal.SIGSTOP)
        for line in process.stdout:
            output = line
            if "JavaSilent" in json.loads(line).get("warningCodes", ()):
                break
        assert json.loads(output)["rowsPerSecond"] == 0
        output, errors = process.communicate(timeout=300)

        last = json.loads(output.splitlines()[-1])
        assert (process.returncode, last["reason"]) == (64, "JavaDied"), errors[-2000:]
        assert "did not answer for 60 s" in last["message"]
