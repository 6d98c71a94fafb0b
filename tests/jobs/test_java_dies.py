"""The Java process under a driver is killed: the driver ends at once, says so, and the next one goes on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from support.tables.jobs import make_orders, write_yaml

ROWS = 4000


def children(pid):
    """Return the processes that a process started."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_killed_java_process_is_named(spark, tmp_path):
    """Twelve seconds of tries against it ended as `Unexpected`, which is a bug of ours."""
    make_orders(spark, str(tmp_path / "source"), ROWS, files=4)
    limit = {"throttle": {"rowsPerSecond": 100}}
    file = write_yaml(tmp_path / "job.yaml", str(tmp_path / "source"), str(tmp_path / "target"), **limit)
    settings = {"BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g", "BACKFILL_STATE_DIR": str(tmp_path / "state")}
    process = subprocess.Popen(
        [sys.executable, "-m", "backfill_spark", "-f", str(file)],
        env=os.environ | settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in process.stdout:
        if json.loads(line).get("rowsDone"):
            break
    [java] = children(process.pid)
    os.kill(java, signal.SIGKILL)
    words, errors = process.communicate(timeout=60)

    last = json.loads(words.splitlines()[-1])
    assert (process.returncode, last["reason"]) == (64, "JavaDied"), errors[-2000:]
    assert "this is a bug" not in errors
