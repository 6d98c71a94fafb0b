"""Spark's list of removed executors, on real executors of a cluster in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

LOSE_ONE = """
import json, os, signal, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from backfill_spark.executors.calls import executors_removed, executors_there

conf = {"spark.ui.enabled": "false", "spark.executor.memory": "512m", "spark.testing.memory": "2147480000"}
builder = SparkSession.builder.master("local-cluster[1,1,512]")
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()

def until(ask):
    deadline = time.monotonic() + 120
    while not (answer := ask()):
        assert time.monotonic() < deadline, "no answer in time"
        spark.range(1).count()
    return answer

def executors():
    application, pids = spark.sparkContext.applicationId.encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(bytes(1))
        except OSError:
            continue
        if application in arguments and any(part.endswith(b"CoarseGrainedExecutorBackend") for part in arguments):
            pids.append(int(process.name))
    return pids

until(lambda: executors_there(spark))
before = executors_removed(spark, ())
os.kill(until(executors)[0], signal.SIGKILL)
removed = until(lambda: executors_removed(spark, ()))
again = executors_removed(spark, removed)
print("RESULT", json.dumps([before, removed, again]))
spark.stop()
"""


class TestARemovedExecutor:
    """Spark replaces a lost executor and continues, so only its list shows the loss."""

    @pytest.mark.spark
    @pytest.mark.rest  # half a minute
    @pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are found by /proc")
    def test_a_lost_executor_is_listed_with_sparks_message(self) -> None:
        """It stays listed after a replacement. A known loss is listed without a second request for its message."""
        environment = os.environ | {"SPARK_HOME": str(Path(pyspark.__file__).parent)}
        run = subprocess.run(
            [sys.executable, "-c", LOSE_ONE], capture_output=True, text=True, env=environment, timeout=300, check=False
        )
        lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
        assert lines, run.stderr[-3000:]
        before, removed, again = json.loads(lines[0].removeprefix("RESULT "))

        assert before == {}
        [(executor, message)] = removed.items()
        assert "137" in message, (
            "SIGKILL, as a cluster in one process reports it; tests/core/pacing has the messages of Kubernetes"
        )
        assert again == {executor: ""}
