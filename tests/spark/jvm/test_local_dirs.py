"""The executor pod that Spark makes from our template keeps temporary files on the volume of `spec.scratch`."""

import json
import os
import subprocess
import sys

import pytest
import yaml
from support.operators.observations import spec

from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.names import EXECUTOR_KEY

BUILD = """
import json, sys
from pyspark import SparkConf
from backfill_spark.jvm.gateway import start_java

java = start_java(SparkConf().set("spark.driver.memory", "256m"))
k8s, scala = java.org.apache.spark.deploy.k8s, java.scala
conf = java.org.apache.spark.SparkConf().set("spark.kubernetes.container.image", "spark:1")
client = java.io.fabric8.kubernetes.client.KubernetesClientBuilder().build()
pod = k8s.KubernetesUtils.loadPodFromTemplate(client, sys.argv[1], scala.Option.apply("executor"), conf)
executor = k8s.KubernetesConf.createExecutorConf(conf, "1", "app", scala.Option.empty(), 0)
made = k8s.features.LocalDirsFeatureStep(executor, "/var/data").configurePod(pod)
dirs = [item.getValue() for item in made.container().getEnv() if item.getName() == "SPARK_LOCAL_DIRS"]
mounts = {item.getMountPath(): item.getName() for item in made.container().getVolumeMounts()}
print(json.dumps([dirs, mounts, [item.getName() for item in made.pod().getSpec().getVolumes()]]))
"""


@pytest.mark.spark
class TestAnExecutorOfSpark:
    @pytest.mark.parametrize("scratch", [{"claimName": "scratch"}, {}], ids=["claim", "none"])
    def test_temporary_files_are_on_the_requested_volume(self, tmp_path, scratch):
        """Spark adds a folder of the node without a limit only if the spec requests no volume."""
        launch = Launch("shop", "orders", "uid", 1, "Run", spec(scratch=scratch), Installation("spark:1"))
        template = tmp_path / "executor.yaml"
        template.write_text(config_map(launch)["data"][EXECUTOR_KEY])
        given = {volume["name"] for volume in yaml.safe_load(template.read_text())["spec"]["volumes"]}

        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(template)], capture_output=True, text=True, check=False, timeout=200,
            env=os.environ | {"SPARK_LOCAL_DIRS": "/var/lib/backfill/spark", "KUBECONFIG": os.devnull},
        )  # fmt: skip

        assert done.returncode == 0, done.stderr[-3000:]
        dirs, mounts, volumes = json.loads(done.stdout.splitlines()[-1])
        assert dirs == ["/var/lib/backfill/spark"]
        assert mounts["/var/lib/backfill/spark"] == "spark-local-dir-1"
        assert set(volumes) - given == (set() if scratch else {"spark-local-dir-1"})
