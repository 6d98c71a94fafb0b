"""The Workload of Kueue: the pods of an attempt as pod sets, for which a queue reserves quota together."""

from __future__ import annotations

from typing import Any, Final

from backfill_api.names import API_VERSION, BACKFILL_LABEL, FIELD_MANAGER, KIND, UID_LABEL, WORKLOAD_LABEL
from backfill_api.resources import WORKLOADS
from backfill_core.lifecycle.naming import base_name
from backfill_core.lifecycle.queue.workload import made_of
from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.driver_pod import driver_pod, executor_template
from backfill_operator.manifests.names import NO_BACKUP
from backfill_operator.manifests.spark_conf import executors_max

DRIVER_SET: Final = "driver"
EXECUTOR_SET: Final = "executors"

JOB_UID_LABEL: Final = "kueue.x-k8s.io/job-uid"
"""Kueue's label for the UID of a Workload's job: its messages about a preemption name it."""

PLACED_BY: Final = (
    "affinity", "nodeSelector", "overhead", "priorityClassName", "runtimeClassName", "schedulerName", "tolerations",
    "topologySpreadConstraints",
)  # fmt: skip
"""Fields that decide where a pod runs and what it uses. Kueue reads no other ones, and the Workload of a job shows no others."""


def workload(launch: Launch) -> dict[str, Any]:
    """Return the Workload of an attempt.

    Raises:
        ManifestRefusedError: the spec's template or resources cannot be used.
    """
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": launch.name, "uid": launch.uid}
    sets = [_pod_set(DRIVER_SET, driver_pod(launch), 1)]
    if not launch.local and (count := executors_max(launch)):
        sets.append(_pod_set(EXECUTOR_SET, executor_template(launch), count))
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": base_name(launch.name),
            "namespace": launch.namespace,
            "labels": {
                **launch.installation.labels,
                "app.kubernetes.io/name": "backfill",
                "app.kubernetes.io/instance": base_name(launch.name),
                "app.kubernetes.io/managed-by": FIELD_MANAGER,
                **NO_BACKUP,
                BACKFILL_LABEL: base_name(launch.name),
                UID_LABEL: launch.uid,
                WORKLOAD_LABEL: made_of(launch.spec, launch.kind),
                JOB_UID_LABEL: launch.uid,
            },
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"queueName": launch.spec.queue, "priority": launch.spec.priority, "active": True, "podSets": sets},
    }


def _pod_set(name: str, pod: dict[str, Any], count: int) -> dict[str, Any]:
    spec = pod["spec"]
    kept = {field: spec[field] for field in PLACED_BY if spec.get(field)}
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            kept[kind] = [_container(container) for container in spec[kind]]
    return {"name": name, "count": count, "template": {"spec": kept | {"restartPolicy": "Never"}}}


def _container(container: dict[str, Any]) -> dict[str, Any]:
    return {field: container[field] for field in ("name", "image", "resources", "restartPolicy") if field in container}
