"""The volume of a pod for Spark's temporary files, as `spec.scratch` requests it."""

from __future__ import annotations

from typing import Any, Final

from backfill_api.spec.pods import ScratchSpec
from backfill_core.cluster_rules.table_paths import SCRATCH_DIR
from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.names import labels

SCRATCH_VOLUME: Final = "backfill-scratch"
LOCAL_DIR: Final = f"{SCRATCH_DIR}/spark"
"""Folder of Spark's temporary files in driver and executors."""

LOCAL_VOLUME: Final = "spark-local-dir-1"
"""Spark uses mounts with this prefix for its temporary files. Without one, it adds an `emptyDir` without a limit."""

POD_NAME: Final = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
NO_SCRATCH: Final = ScratchSpec()


def scratch_volume(launch: Launch, name: str) -> dict[str, Any]:
    """Return the volume: an existing claim, a new claim of a class, or a folder of the node with a limit, if any."""
    scratch = launch.spec.scratch
    if scratch.claim_name is not None:
        return {"name": name, "persistentVolumeClaim": {"claimName": scratch.claim_name}}
    if scratch.storage_class_name is not None:
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": scratch.storage_class_name,
            "resources": {"requests": {"storage": scratch.size}},
        }
        template = {"metadata": {"labels": labels(launch)}, "spec": claim}
        return {"name": name, "ephemeral": {"volumeClaimTemplate": template}}
    return {"name": name, "emptyDir": {} if scratch.size is None else {"sizeLimit": scratch.size}}


def scratch_mount(launch: Launch, name: str, path: str) -> dict[str, Any]:
    """Return its mount; in a claim that pods share, each has a folder with its name."""
    mount = {"name": name, "mountPath": path}
    return mount if launch.spec.scratch.claim_name is None else mount | {"subPathExpr": f"$({POD_NAME['name']})"}


def scratch_env(launch: Launch) -> list[dict[str, Any]]:
    """Return the variable that the mount refers to; empty if it refers to none."""
    return [] if launch.spec.scratch.claim_name is None else [POD_NAME]


def executor_volumes(launch: Launch) -> list[dict[str, Any]]:
    """Return the volume for Spark's temporary files in executors; empty if Spark adds its own."""
    return [] if launch.spec.scratch == NO_SCRATCH else [scratch_volume(launch, LOCAL_VOLUME)]


def executor_mounts(launch: Launch) -> list[dict[str, Any]]:
    """Return the mount of `executor_volumes`."""
    return [] if launch.spec.scratch == NO_SCRATCH else [scratch_mount(launch, LOCAL_VOLUME, LOCAL_DIR)]
