"""The executor pod that Spark makes from our template keeps temporary files on the volume of `spec.scratch`."""

import json
import os
import subprocess
import sys

import pytest
import yaml
from support.java.executor_pod import local_dirs
from support.operators.observations import spec
from support.repository import ROOT, SOURCE_ROOTS

from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.names import EXECUTOR_KEY
from backfill_spark.jvm.gateway import java

FOLDER = "/var/lib/backfill/spark"
MOUNTED = {"SPARK_LOCAL_DIRS": FOLDER, "KUBECONFIG": os.devnull}
"""Variables of a driver's pod."""


@pytest.fixture
def template(tmp_path):
    """Return a function that writes the template of a launch; it returns the file and the names of its volumes."""

    def write(scratch):
        launch = Launch("shop", "orders", "uid", 1, "Run", spec(scratch=scratch), Installation("spark:1"))
        file = tmp_path / "executor.yaml"
        file.write_text(config_map(launch)["data"][EXECUTOR_KEY])
        return file, {volume["name"] for volume in yaml.safe_load(file.read_text())["spec"]["volumes"]}

    return write


class TestAnExecutorOfSpark:
    """Its temporary files are on the requested volume, or else on a folder of the node."""

    def test_temporary_files_are_on_the_requested_volume(self, spark, template):
        """Spark recognizes the volume by its name, and adds none."""
        file, given = template({"claimName": "scratch"})

        dirs, mounts, volumes = local_dirs(java(spark), file)

        assert (dirs, mounts[FOLDER], set(volumes)) == ([FOLDER], "spark-local-dir-1", given)

    @pytest.mark.spark
    def test_spark_adds_a_folder_of_the_node_if_the_spec_requests_no_volume(self, template):
        """It has no limit. A variable of the driver names its path, so the driver has a Java of its own."""
        file, given = template({})
        path = os.pathsep.join(str(ROOT / root) for root in (*SOURCE_ROOTS, "tests"))

        done = subprocess.run(
            [sys.executable, "-m", "support.java.executor_pod", str(file)],
            capture_output=True, text=True, check=False, timeout=200, env=os.environ | MOUNTED | {"PYTHONPATH": path},
        )  # fmt: skip

        assert done.returncode == 0, done.stderr[-3000:]
        dirs, mounts, volumes = json.loads(done.stdout.splitlines()[-1])
        assert (dirs, mounts[FOLDER], set(volumes) - given) == ([FOLDER], "spark-local-dir-1", {"spark-local-dir-1"})
