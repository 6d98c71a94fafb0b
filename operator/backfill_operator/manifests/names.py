"""The names of an attempt's objects, and the labels that select them."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

from backfill_api.names import (
    API_VERSION,
    ATTEMPT_LABEL,
    BACKFILL_LABEL,
    EXECUTORS_LABEL,
    FIELD_MANAGER,
    KIND,
    KIND_LABEL,
    LAUNCHED_LABEL,
    ROLE_LABEL,
    UID_LABEL,
)
from backfill_core.lifecycle.inputs.launched_of import executors_of, launched_of
from backfill_core.lifecycle.naming import base_name, driver_name
from backfill_operator.manifests.attempt import Launch

CONTROL_PORT: Final = 8443
DRIVER_PORT: Final = 7078
BLOCK_MANAGER_PORT: Final = 7079
UI_PORT: Final = 4040

SPEC_DIR: Final = "/etc/backfill"
SPEC_FILE: Final = f"{SPEC_DIR}/backfill.yaml"
CONTROL_DIR: Final = "/etc/backfill-control"
SOURCE_SECRET_DIR: Final = "/etc/backfill-source"  # noqa: S105 - the path of a folder
TERMINATION_LOG: Final = "/dev/termination-log"

SPEC_KEY: Final = "backfill.yaml"
CONF_KEY: Final = "spark-defaults.conf"
EXECUTOR_KEY: Final = "executor.yaml"

NO_BACKUP: Final = {"velero.io/exclude-from-backup": "true"}
"""An attempt is restored from its target. A driver restored from a backup would write concurrently with the next one."""

Role = Literal["driver", "executor"]


def object_name(launch: Launch) -> str:
    """Return the name of the attempt's pod, Service, ConfigMap and Secret."""
    return driver_name(launch.name, launch.attempt)


def service_host(launch: Launch) -> str:
    """Return the DNS name under which executors reach the driver."""
    return f"{object_name(launch)}.{launch.namespace}.svc"


def executor_prefix(launch: Launch) -> str:
    """Return the prefix of executor pods' names."""
    return f"{base_name(launch.name)}-{launch.attempt}"


def application_id(launch: Launch) -> str:
    """Return Spark's id of the attempt; a valid label value, and different for a recreated Backfill of the same name."""
    digest = hashlib.sha256(launch.uid.encode(errors="replace")).hexdigest()[:12]
    return f"backfill-{digest}-{launch.attempt}"


def identity(launch: Launch) -> dict[str, str]:
    """Return the labels that select the objects of this attempt only."""
    return {BACKFILL_LABEL: base_name(launch.name), UID_LABEL: launch.uid, ATTEMPT_LABEL: str(launch.attempt)}


def labels(launch: Launch, role: Role | None = None) -> dict[str, str]:
    """Return the labels of an object; a pod's labels include its role."""
    made = {
        **launch.installation.labels,
        "app.kubernetes.io/name": "backfill",
        "app.kubernetes.io/instance": base_name(launch.name),
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
        **NO_BACKUP,
        **identity(launch),
    }
    if role is not None:
        made |= {
            "app.kubernetes.io/component": role,
            ROLE_LABEL: role,
            "spark-role": role,
            "spark-app-selector": application_id(launch),
            KIND_LABEL: launch.kind,
        }
    if role == "driver":
        made[LAUNCHED_LABEL] = launched_of(launch.spec, launch.kind)
        made[EXECUTORS_LABEL] = executors_of(launch.spec)
    return made


def metadata(launch: Launch, role: Role | None = None) -> dict[str, Any]:
    """Return the metadata of an object that is deleted with its Backfill; of a detached attempt, the operator deletes it."""
    made = {"name": object_name(launch), "namespace": launch.namespace, "labels": labels(launch, role)}
    if launch.detached:
        return made
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": launch.name, "uid": launch.uid}
    return made | {"ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}]}
