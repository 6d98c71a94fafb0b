"""Executors that a width adds and removes, on real executors of a cluster in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

SCALE = """
import json, threading, time
from pyspark.sql import SparkSession
from backfill_spark.executors.calls import executors_removed, executors_there
from backfill_spark.executors.watch import ExecutorWatch

conf = {"spark.ui.enabled": "false", "spark.executor.memory": "512m", "spark.testing.memory": "2147480000"}
builder = SparkSession.builder.master("local-cluster[3,1,512]")
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
setting = {"spark.master": "k8s://as-if", "spark.executor.instances": "3"}
watch = ExecutorWatch(spark, lambda name, default: setting.get(name, default))

def until(number, wanted):
    deadline = time.monotonic() + 120
    while executors_there(spark) != number:
        assert time.monotonic() < deadline, f"{executors_there(spark)} executors instead of {number}"
        watch.look(wanted, time.monotonic())
        spark.range(1).count()
    return number

def slow(rows):
    time.sleep(0.2)
    return rows

def work(found):
    found.append(spark.sparkContext.parallelize(range(600), 60).mapPartitions(slow).sum())

counts, sums = [until(3, 3)], []
running = threading.Thread(target=work, args=(sums,))
running.start()
counts.append(until(1, 1))
counts.append(until(3, 3))
running.join()
removed = executors_removed(spark, ())
watch.look(3, time.monotonic() + 60)
print("RESULT", json.dumps([counts, sums, removed, dict(watch.lost), [warning.code for warning in watch.warnings]]))
spark.stop()
"""


class TestTheNumberOfExecutors:
    """More executors start, and fewer stay, while a Spark job runs."""

    @pytest.mark.spark
    @pytest.mark.rest  # a minute
    def test_executors_come_and_go_while_a_job_runs_and_none_counts_as_lost(self) -> None:
        """Tasks of a removed executor run again elsewhere, so the job has each row once."""
        environment = os.environ | {"SPARK_HOME": str(Path(pyspark.__file__).parent)}
        run = subprocess.run(
            [sys.executable, "-c", SCALE], capture_output=True, text=True, env=environment, timeout=300, check=False
        )
        lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
        assert lines, run.stderr[-3000:]
        counts, sums, removed, lost, warnings = json.loads(lines[0].removeprefix("RESULT "))

        assert counts == [3, 1, 3]
        assert sums == [sum(range(600))]
        assert len(removed) == 2
        assert (lost, warnings) == ({}, [])
