"""Spark's properties for one attempt: defaults from the resources, then the spec's conf, then required values."""

from __future__ import annotations

from collections.abc import Mapping

from backfill_api.spec.combinations import knows_bytes
from backfill_api.width import EXECUTORS_DEFAULT
from backfill_core.cluster_rules.conf_rules import conf_findings
from backfill_core.cluster_rules.container_sizes import DRIVER_DEFAULT, EXECUTOR_DEFAULT, Size, size, with_defaults
from backfill_core.cluster_rules.finding import refuse_first
from backfill_core.cluster_rules.pod_rules import EXECUTOR_CONTAINER
from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.names import (
    BLOCK_MANAGER_PORT,
    DRIVER_PORT,
    EXECUTOR_KEY,
    SPEC_DIR,
    application_id,
    executor_prefix,
    labels,
    object_name,
    service_host,
)
from backfill_operator.manifests.secret import RPC_SECRET_FILE

CORES_MAX = 512
"""Limit for the partitions of shuffles and of Delta's small jobs, one per core: more partitions only cost time."""

FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""A driver whose executors read all rows only plans and commits, so the optimizing compiler costs more than it saves
(ADR 0030). With only the first compiler, Java's default code cache is too small for Spark and is swept continuously."""

DECOMMISSION = {
    "spark.decommission.enabled": "true",
    # The signal of a pod's deletion. Spark's own way is a script in the image, which needs `ps` and sends another signal.
    "spark.executor.decommission.signal": "TERM",
    "spark.kubernetes.decommission.script": "/bin/true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    # No job caches rows.
    "spark.storage.decommission.rddBlocks.enabled": "false",
    # Spark ends the executor after two of these, and a pod is killed after 30 seconds.
    "spark.storage.decommission.replicationReattemptInterval": "2s",
}
"""An executor whose pod is deleted, as on a drained or reclaimed node, finishes its tasks and moves its shuffle files (ADR 0053)."""

EXECUTOR_MIB = 768
"""An executor's off-heap memory: network and Parquet buffers, code, threads. With 384 MiB, the kernel killed executors
that merged changes into two million rows."""

PYTHON_MIB = 640
"""Memory of the driver's Python process, in addition to its JVM."""


def driver_size(launch: Launch) -> Size:
    """Return the driver's heap and cores."""
    path = "spec.driver.resources"
    given = with_defaults(launch.spec.driver.resources, DRIVER_DEFAULT, path)
    return size(given, path, off_heap_mib=PYTHON_MIB, off_heap_per_cent=20)


def executor_size(launch: Launch) -> Size:
    """Return an executor's heap and cores."""
    path = "spec.executor.resources"
    given = with_defaults(launch.spec.executor.resources, EXECUTOR_DEFAULT, path)
    return size(given, path, off_heap_mib=EXECUTOR_MIB, off_heap_per_cent=30, heap_per_cent=40)


def cores(launch: Launch) -> int:
    """Return the number of tasks that can run at once."""
    if launch.local:
        return driver_size(launch).cores
    return min(executor_size(launch).cores * executors_max(launch), CORES_MAX)


def executors_max(launch: Launch) -> int:
    """Return the largest number of executors."""
    dynamic = launch.spec.executor.dynamic
    return dynamic.max if dynamic else _instances(launch)


def properties(launch: Launch) -> dict[str, str]:
    """Return all properties of the driver's session.

    Raises:
        ManifestRefusedError: the spec's conf has a setting that is not allowed, or its resources cannot be used.
    """
    refuse_first(conf_findings(launch.spec.spark.conf, launch.installation.limits.conf))
    return {**_defaults(launch), **launch.spec.spark.conf, **_required(launch)}


def properties_text(values: Mapping[str, str]) -> str:
    """Return the properties in the format of Java's `Properties`, sorted, so that equal properties give equal output."""
    return "".join(f"{_escaped(name, ' =:#!')}={_escaped(values[name], '')}\n" for name in sorted(values))


def _defaults(launch: Launch) -> dict[str, str]:
    driver = driver_size(launch)
    made = {"spark.driver.memory": f"{driver.heap_mib}m"}
    if launch.local:
        return made
    executor = executor_size(launch)
    if not knows_bytes(launch.spec.source):
        # Not for sources with files: the driver copies files (ADR 0014), and the first compiler has no fast AES, SHA and CRC.
        made["spark.driver.defaultJavaOptions"] = FIRST_COMPILER
    made |= {
        # By default Spark waits for most executors, but reading and checking metadata needs none.
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        "spark.executor.memory": f"{executor.heap_mib}m",
        "spark.executor.memoryOverhead": f"{executor.overhead_mib}m",
        "spark.executor.cores": str(executor.cores),
        "spark.kubernetes.executor.request.cores": executor.cpu_request,
        # Executors need no files of the driver, so Spark's ConfigMap is not created.
        "spark.kubernetes.executor.disableConfigMap": "true",
        # Otherwise Spark would delete claims and Services, and its account may access only pods.
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
    }
    if executor.cpu_limit is not None:
        made["spark.kubernetes.executor.limit.cores"] = executor.cpu_limit
    return made


def _required(launch: Launch) -> dict[str, str]:
    made = {
        "spark.app.id": application_id(launch),
        "spark.submit.deployMode": "client",
        "spark.kubernetes.namespace": launch.namespace,
        "spark.kubernetes.container.image": launch.image,
        "spark.kubernetes.driver.pod.name": object_name(launch),
    }
    if launch.installation.encrypt:
        made |= {"spark.io.encryption.enabled": "true"}
    if launch.local:
        local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        return made | local | {"spark.master": f"local[{driver_size(launch).cores}]"}
    made |= {
        "spark.master": launch.installation.master,
        "spark.driver.host": service_host(launch),
        # The service's name may not resolve yet when the driver binds.
        "spark.driver.bindAddress": "0.0.0.0",  # noqa: S104 - a pod has only its own address
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_MANAGER_PORT),
        "spark.blockManager.port": str(BLOCK_MANAGER_PORT),
        # The secret is in a file of the attempt's Secret: a variable would expose it to every reader of pods.
        "spark.authenticate": "true",
        "spark.authenticate.secret.file": RPC_SECRET_FILE,
        "spark.kubernetes.container.image.pullPolicy": launch.spec.spark.image_pull_policy,
        "spark.kubernetes.executor.podTemplateFile": f"{SPEC_DIR}/{EXECUTOR_KEY}",
        "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR_CONTAINER,
        "spark.kubernetes.executor.podNamePrefix": executor_prefix(launch),
        # The template has the same account, but Spark overrides it if the image's own settings name an account.
        "spark.kubernetes.authenticate.executor.serviceAccountName": launch.service_account,
        # The API server may answer from its cache: a thousand drivers list their pods every half minute.
        "spark.kubernetes.executor.enablePollingWithResourceVersion": "true",
        **DECOMMISSION,
    }
    made |= {
        f"spark.kubernetes.executor.label.{name}": value
        for name, value in labels(launch, "executor").items()
        if not name.startswith("spark-")  # Spark sets these itself and refuses other values
    }
    if launch.installation.encrypt:
        made |= {
            "spark.network.crypto.enabled": "true",
            "spark.network.crypto.cipher": "AES/GCM/NoPadding",
            "spark.network.crypto.saslFallback": "false",
        }
    return made | _executors(launch)


def _executors(launch: Launch) -> dict[str, str]:
    dynamic = launch.spec.executor.dynamic
    if dynamic is None:
        return {"spark.dynamicAllocation.enabled": "false", "spark.executor.instances": str(_instances(launch))}
    return {
        "spark.dynamicAllocation.enabled": "true",
        # There is no shuffle service on Kubernetes; executors that hold shuffle files are kept instead.
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(dynamic.min),
        "spark.dynamicAllocation.initialExecutors": str(min(max(dynamic.min, 1), dynamic.max)),
        "spark.dynamicAllocation.maxExecutors": str(dynamic.max),
    }


def _instances(launch: Launch) -> int:
    given = launch.width.executors or launch.spec.executor.instances
    return EXECUTORS_DEFAULT if given is None else given


def _escaped(text: str, more: str) -> str:
    out = []
    for position, character in enumerate(text):
        if character in ("\n", "\r", "\t", "\f"):
            out.append({"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}[character])
        elif character == "\\" or character in more or (character == " " and position == 0):
            out.append(f"\\{character}")
        else:
            out.append(character)
    return "".join(out)
