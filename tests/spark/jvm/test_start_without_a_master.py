"""Spark requests executors from the API server when it starts.

A server that does not answer is no failure of the job.
"""

import os
import socket
import subprocess
import sys

import pytest
from support.tables.jobs import write_yaml

from backfill_api.status.ending import Ending
from backfill_core.errors import AwayError


@pytest.mark.spark
def test_start_without_an_answering_api_server_counts_no_failure(tmp_path):
    """The reason was `Unexpected`, and four of those end a job."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = {
        "spark.master": f"k8s://http://127.0.0.1:{port}", "spark.submit.deployMode": "client", "spark.executor.instances": "1",
        "spark.kubernetes.namespace": "shop", "spark.kubernetes.driver.pod.name": "orders-1-driver",
    }  # fmt: skip
    (tmp_path / "spark.conf").write_text("".join(f"{name} {value}\n" for name, value in conf.items()))
    file = write_yaml(tmp_path / "job.yaml", str(tmp_path / "source"), str(tmp_path / "target"))
    log = tmp_path / "termination"

    done = subprocess.run(
        [sys.executable, "-m", "backfill_spark", "-f", str(file)], capture_output=True, text=True, check=False, timeout=400,
        env=os.environ | {
            "BACKFILL_MASTER": "cluster", "BACKFILL_STATE_DIR": str(tmp_path / "state"), "BACKFILL_TERMINATION_LOG": str(log),
            "PYSPARK_SUBMIT_ARGS": f"--properties-file {tmp_path / 'spark.conf'} pyspark-shell",
            "KUBERNETES_REQUEST_RETRY_BACKOFFLIMIT": "1",
        },
    )  # fmt: skip

    ending = Ending.read(log.read_text())
    assert done.returncode == AwayError.exit_code, done.stdout + done.stderr[-3000:]
    assert ending is not None
    assert (ending.reason, ending.outside) == ("Transient", True)
