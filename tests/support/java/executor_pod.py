"""An executor pod, built by Spark's own steps from a template: in the Java of the tests, or in one with variables of a driver.

python -m support.java.executor_pod FILE    print what `local_dirs` returns, with the environment of the process
"""

import json
import sys
from pathlib import Path

from pyspark import SparkConf

from backfill_spark.jvm.gateway import start_java


def local_dirs(java, template: Path) -> list:
    """Return the folders of temporary files, the volume of each mounted path, and the names of all volumes."""
    k8s, scala = java.org.apache.spark.deploy.k8s, java.scala
    conf = java.org.apache.spark.SparkConf().set("spark.kubernetes.container.image", "spark:1")
    config = java.io.fabric8.kubernetes.client.Config.empty()
    client = java.io.fabric8.kubernetes.client.KubernetesClientBuilder().withConfig(config).build()
    pod = k8s.KubernetesUtils.loadPodFromTemplate(client, str(template), scala.Option.apply("executor"), conf)
    client.close()
    executor = k8s.KubernetesConf.createExecutorConf(conf, "1", "app", scala.Option.empty(), 0)
    made = k8s.features.LocalDirsFeatureStep(executor, "/var/data").configurePod(pod)
    dirs = [item.getValue() for item in made.container().getEnv() if item.getName() == "SPARK_LOCAL_DIRS"]
    mounts = {item.getMountPath(): item.getName() for item in made.container().getVolumeMounts()}
    return [dirs, mounts, [item.getName() for item in made.pod().getSpec().getVolumes()]]


if __name__ == "__main__":
    print(json.dumps(local_dirs(start_java(SparkConf().set("spark.driver.memory", "256m")), Path(sys.argv[1]))))
