"""A driver in a pod prints JSON lines: its own, those of Python and those of Java's logs (fault K15)."""

import json
import os
import subprocess
import sys

import pytest
from support.tables.jobs import make_orders, write_yaml
from support.unused_ports import unused_ports

from backfill_api.status.ending import Ending
from backfill_core.errors import AwayError
from backfill_spark.jvm import session

OF_THE_JVM = (
    "WARNING: Using incubator modules: ",
    "Picked up JAVA_TOOL_OPTIONS: ",
    "NOTE: Picked up JDK_JAVA_OPTIONS: ",
)
"""Java itself prints these before any code of ours runs; the page on operating names them."""


@pytest.fixture
def driver(tmp_path):
    """Runs a driver as in a pod, with a local master."""

    def run(file, more="", **environ):
        conf = tmp_path / "spark.conf"
        conf.write_text("spark.master local[2]\nspark.driver.memory 1g\nspark.driver.host 127.0.0.1\nspark.ui.enabled false\n"
            f"spark.driver.extraClassPath {os.environ['BACKFILL_JARS_DIR']}/*\n{more}\n")  # fmt: skip
        pod = {
            "BACKFILL_MASTER": "cluster", "BACKFILL_STATE_DIR": str(tmp_path / "state"),
            "PYSPARK_SUBMIT_ARGS": f"--properties-file {conf} pyspark-shell",
        }  # fmt: skip
        return subprocess.run(
            [sys.executable, "-m", "backfill_spark", "-f", str(file)],
            capture_output=True, text=True, check=False, timeout=400, env=os.environ | pod | environ,
        )  # fmt: skip

    return run


def lines_of(done):
    """Return all lines that are not the JVM's own; each must be a JSON object."""
    lines = [line for text in (done.stdout, done.stderr) for line in text.splitlines()]
    found = [json.loads(line) for line in lines if not line.startswith(OF_THE_JVM)]
    assert all(isinstance(line, dict) for line in found)
    return found


class TestADriverInAPod:
    """Who collects logs reads each line by the same rule."""

    def test_refusal_is_a_json_line(self, driver, tmp_path):
        """On standard error it was a line for people."""
        done = driver(tmp_path / "none.yaml")

        assert (done.returncode, lines_of(done)[0]["outcome"]) == (2, "Failed")
        assert json.loads(done.stderr)["level"] == "ERROR"
        assert "none.yaml" in json.loads(done.stderr)["message"]

    def test_bad_variable_is_a_json_line(self, driver, tmp_path):
        """It is found before the settings are known."""
        done = driver(tmp_path / "none.yaml", BACKFILL_CORES="many")

        assert "BACKFILL_CORES='many'" in json.loads(done.stderr)["message"]
        assert lines_of(done)

    @pytest.mark.spark
    @pytest.mark.rest
    def test_lines_of_a_whole_job_are_json(self, spark, driver, tmp_path):
        """Nothing else comes between the lines of progress."""
        make_orders(spark, str(tmp_path / "s"), 100, files=1)
        file = write_yaml(tmp_path / "job.yaml", str(tmp_path / "s"), str(tmp_path / "t"))

        done = driver(file)

        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        assert "Complete" in [line.get("outcome") for line in lines_of(done)]

    @pytest.mark.spark
    @pytest.mark.rest
    def test_lower_log_level_adds_json_lines_of_loggers_that_are_off_by_default(self, spark, driver, tmp_path):
        """`spec.spark.logLevel`: Spark reports lost tasks by a logger that is off, because a pause cancels tasks."""
        make_orders(spark, str(tmp_path / "s"), 100, files=1)
        conf = {"conf": {"spark.log.level": "INFO"}}
        file = write_yaml(tmp_path / "job.yaml", str(tmp_path / "s"), str(tmp_path / "t"), spark=conf)

        done = driver(file)

        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        loggers = {line["logger"] for line in lines_of(done) if line.get("level") == "INFO" and "logger" in line}
        assert "org.apache.spark.scheduler.TaskSetManager" in loggers

    @pytest.mark.spark
    def test_start_without_an_answering_api_server_counts_no_failure_and_is_json(self, driver, tmp_path):
        """Spark requests executors when it starts, and logs over many lines why its context does not start.

        The reason was `Unexpected`, and four of those end a job.
        """
        (port,) = unused_ports("127.0.0.1", 1)
        conf = {
            "spark.master": f"k8s://http://127.0.0.1:{port}", "spark.submit.deployMode": "client",
            "spark.executor.instances": "1", "spark.kubernetes.namespace": "shop",
            "spark.kubernetes.driver.pod.name": "orders-1-driver",
        }  # fmt: skip
        file = write_yaml(tmp_path / "job.yaml", str(tmp_path / "s"), str(tmp_path / "t"))
        log = tmp_path / "termination"

        done = driver(
            file, more="\n".join(f"{name} {value}" for name, value in conf.items()),
            BACKFILL_TERMINATION_LOG=str(log), KUBERNETES_REQUEST_RETRY_BACKOFFLIMIT="1",
        )  # fmt: skip

        ending = Ending.read(log.read_text())
        assert done.returncode == AwayError.exit_code, done.stdout + done.stderr[-3000:]
        assert ending is not None
        assert (ending.reason, ending.outside) == ("Transient", True)
        said = [line for line in lines_of(done) if line.get("logger", "").startswith("org.apache.spark")]
        assert said, done.stderr[-3000:]
        assert {"time", "level", "logger", "message", "error"} <= said[0].keys()


def test_both_files_have_the_same_loggers():
    """What is silent for people is silent in a pod."""
    people, pod = (
        [line for line in file.read_text().splitlines() if not line.startswith("appender.stderr.layout")]
        for file in (session.LOG_FILE, session.POD_LOG_FILE)
    )

    assert people == pod
