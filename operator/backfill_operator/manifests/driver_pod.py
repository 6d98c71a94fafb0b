"""The driver pod, and the template from which Spark makes executor pods.

Five layers, later ones take precedence: defaults, the administrator's template, the spec's template within the limits of
`pod_rules`, the placement of a queue, required values.
All pods meet the restricted Pod Security standard with any template: not root, no privileges, no capabilities, the
runtime's seccomp profile, a read-only root file system with scratch volumes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from backfill_api import environment as env
from backfill_api.names import LAUNCHED_FIELDS_ANNOTATION
from backfill_core.cluster_rules.container_sizes import DRIVER_DEFAULT, EXECUTOR_DEFAULT, with_defaults
from backfill_core.cluster_rules.finding import each, refuse_first
from backfill_core.cluster_rules.pod_rules import (
    DRIVER_CONTAINER,
    EXECUTOR_CONTAINER,
    account_findings,
    image_findings,
    resource_findings,
    template_findings,
)
from backfill_core.cluster_rules.query_urls import query_findings
from backfill_core.cluster_rules.scratch_rules import scratch_findings
from backfill_core.cluster_rules.table_paths import SCRATCH_DIR, TEMPORARY_DIR, fleeting_paths, relative_paths
from backfill_core.lifecycle.inputs.launched_of import launched_fields
from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.names import (
    BLOCK_MANAGER_PORT,
    CONF_KEY,
    CONTROL_DIR,
    CONTROL_PORT,
    DRIVER_PORT,
    SOURCE_SECRET_DIR,
    SPEC_DIR,
    SPEC_FILE,
    TERMINATION_LOG,
    UI_PORT,
    labels,
    metadata,
    object_name,
)
from backfill_operator.manifests.scratch import (
    LOCAL_DIR,
    SCRATCH_VOLUME,
    executor_mounts,
    executor_volumes,
    scratch_env,
    scratch_mount,
    scratch_volume,
)
from backfill_operator.manifests.secret import RPC_SECRET_KEY, TOKEN_KEY
from backfill_operator.manifests.spark_conf import cores
from backfill_operator.manifests.spark_pages import has_ui
from backfill_operator.manifests.template import merge

IDS: Final = ("runAsUser", "runAsGroup", "fsGroup")
"""Fields that a template may set; null leaves the choice to the cluster."""

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
"""Names the container for `kubectl logs`, even if a webhook has inserted another container before it."""

PROBE_PERIOD_S: Final = 2
STARTUP_PROBE_S: Final = 60
STARTUP_TRY_S: Final = 50
LISTENS: Final = f"SECONDS=0; until (: </dev/tcp/${env.CONTROL_BIND}/{CONTROL_PORT}) 2>/dev/null; do [ $SECONDS -lt {STARTUP_TRY_S} ] || exit 1; sleep 0.5; done"
"""Waits until the driver listens. A probe that only looks would fail until then, and a kubelet makes a Warning event of that."""

SIDECAR: Final = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
POD_ADDRESS: Final = {"name": env.CONTROL_BIND, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
"""The control server listens only on the pod's address; on an IPv6 cluster, this is an IPv6 address."""

MOUNTS: Final = {
    "backfill-spec": SPEC_DIR,
    "backfill-control": CONTROL_DIR,
    "backfill-tmp": TEMPORARY_DIR,
}
"""Mount path of each driver volume, except that of temporary files."""

EXECUTOR_MOUNTS: Final = {SCRATCH_VOLUME: SCRATCH_DIR, "backfill-tmp": TEMPORARY_DIR}


def driver_pod(launch: Launch) -> dict[str, Any]:
    """Return the driver's pod.

    Raises:
        ManifestRefusedError: the spec's template or resources cannot be used.
    """
    return _pod(launch, "spec.driver.template", launch.spec.driver.template, DRIVER_CONTAINER, _driver_required)


def executor_template(launch: Launch) -> dict[str, Any]:
    """Return the pod template for executors; Spark sets name, image, owner and address of each.

    Raises:
        ManifestRefusedError: the spec's template or resources cannot be used.
    """
    return _pod(launch, "spec.executor.template", launch.spec.executor.template, EXECUTOR_CONTAINER, _executor_required)


def _pod(
    launch: Launch, path: str, template: dict[str, Any], container: str, required: Callable[[Launch], dict[str, Any]]
) -> dict[str, Any]:
    """Check the template, merge it over the defaults, and set the required values."""
    policy = launch.installation.policy
    whole = merge(policy.defaults.get(container, {}), {name: template.get(name) for name in ("metadata", "spec")})
    refuse_first(
        each(
            template_findings(template, path, container, policy),
            image_findings(launch.image, "spec.spark.image", policy),
            relative_paths(launch.spec),
            fleeting_paths(launch.spec, whole, path, container),
        )
    )
    placed = launch.driver_placement if container == DRIVER_CONTAINER else launch.executor_placement
    requested = merge(merge(_defaults(container, launch.installation.user), whole), placed.template)
    pod: dict[str, Any] = merge(requested, required(launch))
    context = (template.get("spec") or {}).get("securityContext") or {}
    for name in IDS:
        if name in context and context[name] is None:
            pod["spec"]["securityContext"].pop(name, None)
    return _restricted({"apiVersion": "v1", "kind": "Pod"} | pod)


def _restricted(pod: dict[str, Any]) -> dict[str, Any]:
    """Set the values that the restricted standard requires in a template's additional containers."""
    spec = pod["spec"]
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [
                {**container, "securityContext": merge(container.get("securityContext"), SIDECAR)}
                for container in spec[kind]
            ]
    return pod


# ------------------------------------------------------------------ defaults
def _defaults(container: str, user: int | None) -> dict[str, Any]:
    """Return the values that a template may change."""
    return {
        "metadata": {"labels": {}, "annotations": {DEFAULT_CONTAINER: container}},
        "spec": {
            "securityContext": {} if user is None else dict.fromkeys(IDS, user),
            "containers": [{"name": container}],
        },
    }


# ------------------------------------------------------------------ required values
def _driver_required(launch: Launch) -> dict[str, Any]:
    account, policy = launch.service_account, launch.installation.policy
    refuse_first(account_findings(account, "spec.driver.serviceAccountName", policy))
    refuse_first(query_findings(launch.spec, policy))
    refuse_first(scratch_findings(launch.spec.scratch, policy.limits))
    return {
        "metadata": metadata(launch, "driver")
        | {"annotations": {LAUNCHED_FIELDS_ANNOTATION: launched_fields(launch.spec)}},
        "spec": {
            **_pod_required(launch),
            # A driver without executors never calls the API server.
            "automountServiceAccountToken": not launch.local,
            # After a SIGTERM, the driver may need this time to stop at a barrier.
            "terminationGracePeriodSeconds": launch.spec.drain_timeout_seconds,
            "containers": [_driver_container(launch)],
            "volumes": [
                {"name": "backfill-spec", "configMap": {"name": object_name(launch)}},
                {"name": "backfill-control", "secret": {"secretName": object_name(launch), "defaultMode": 0o440}},
                scratch_volume(launch, SCRATCH_VOLUME),
                {"name": "backfill-tmp", "emptyDir": {}},
                *_source_secret(launch),
            ],
        },
    }


def _pod_required(launch: Launch) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        # Clouds grant access to stores by the account's name, and Kubernetes takes the pull secrets from the account.
        "serviceAccountName": launch.service_account,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }


def _container_required(launch: Launch) -> dict[str, Any]:
    return {
        "image": launch.image,
        "imagePullPolicy": launch.spec.spark.image_pull_policy,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _driver_container(launch: Launch) -> dict[str, Any]:
    refuse_first(resource_findings(launch.spec.driver.resources, "spec.driver.resources"))
    resources = with_defaults(launch.spec.driver.resources, DRIVER_DEFAULT, "spec.driver.resources")
    made = {
        "name": DRIVER_CONTAINER,
        **_container_required(launch),
        # Arguments, not a command: the image's entry point reaps Spark's children.
        "args": ["python", "-m", "backfill_spark", "-f", SPEC_FILE],
        "env": [
            POD_ADDRESS,
            *scratch_env(launch),
            *({"name": name, "value": value} for name, value in _environment(launch).items()),
        ],
        "resources": resources,
        "ports": [
            {"name": "driver", "containerPort": DRIVER_PORT, "protocol": "TCP"},
            {"name": "blockmanager", "containerPort": BLOCK_MANAGER_PORT, "protocol": "TCP"},
            {"name": "control", "containerPort": CONTROL_PORT, "protocol": "TCP"},
            *([{"name": "spark-ui", "containerPort": UI_PORT, "protocol": "TCP"}] if has_ui(launch) else ()),
        ],
        "terminationMessagePath": TERMINATION_LOG,
        # Without a termination message, the end of the log explains the failure.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": name, "mountPath": path, "readOnly": name in ("backfill-spec", "backfill-control")}
            for name, path in MOUNTS.items()
        ]
        + [scratch_mount(launch, SCRATCH_VOLUME, SCRATCH_DIR), *_source_secret_mount(launch)],
    }
    return made | (_probes(launch) if launch.kind == "Run" else {})


def _environment(launch: Launch) -> dict[str, str]:
    made = {
        env.MASTER: "cluster",
        env.CORES: str(cores(launch)),
        env.OPERATOR_ATTEMPT: str(launch.attempt),
        env.CONTROL_PORT: str(CONTROL_PORT),
        env.CONTROL_TLS_DIR: CONTROL_DIR,
        env.CONTROL_TOKEN_FILE: f"{CONTROL_DIR}/{TOKEN_KEY}",
        env.TERMINATION_LOG: TERMINATION_LOG,
        env.STATE_DIR: f"{SCRATCH_DIR}/state",
        # Not SPARK_CONF_DIR: a folder with files on the class path keeps Java from using the image's class archive.
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {SPEC_DIR}/{CONF_KEY} pyspark-shell",
        "SPARK_LOCAL_DIRS": LOCAL_DIR,
        # The home of a user without an entry in the image is the root folder, which is read-only.
        "HOME": SCRATCH_DIR,
        # A volume in Python's start folder must not be imported as a package.
        "PYTHONSAFEPATH": "1",
    }
    if launch.spec.source.params.secret is not None:
        made[env.SOURCE_SECRET_DIR] = SOURCE_SECRET_DIR
    if launch.kind == "Plan":
        return made | {env.MODE: "plan"}
    if launch.procedure is not None:
        return made | {env.MODE: env.PROCEDURE_MODES[launch.procedure]}
    return made | ({env.MODE: "refresh"} if launch.refresh else {})


def _source_secret(launch: Launch) -> list[dict[str, Any]]:
    """Return the volume of the source's Secret; each client of the source reads its files."""
    name = launch.spec.source.params.secret
    volume = {"name": "backfill-source", "secret": {"secretName": name, "defaultMode": 0o440}}
    return [] if name is None else [volume]


def _source_secret_mount(launch: Launch) -> list[dict[str, Any]]:
    volumes = _source_secret(launch)
    return [{"name": volume["name"], "mountPath": SOURCE_SECRET_DIR, "readOnly": True} for volume in volumes]


def _probes(launch: Launch) -> dict[str, Any]:
    """Return probes that are slower than the operator, because only the operator can determine why a driver is late."""

    def get(path: str) -> dict[str, Any]:
        return {"httpGet": {"path": path, "port": "control", "scheme": "HTTPS"}, "timeoutSeconds": 5}

    starts = 2 * launch.spec.startup_timeout_seconds // STARTUP_TRY_S + 1
    return {
        "startupProbe": {
            "exec": {"command": ["bash", "-c", LISTENS]},
            "timeoutSeconds": STARTUP_PROBE_S,
            "periodSeconds": PROBE_PERIOD_S,
            "failureThreshold": starts,
        },
        "readinessProbe": {**get("/readyz"), "periodSeconds": PROBE_PERIOD_S, "failureThreshold": 3},
        "livenessProbe": {**get("/healthz"), "periodSeconds": 10, "failureThreshold": 6},
    }


def _executor_required(launch: Launch) -> dict[str, Any]:
    refuse_first(resource_findings(launch.spec.executor.resources, "spec.executor.resources"))
    resources = with_defaults(launch.spec.executor.resources, EXECUTOR_DEFAULT, "spec.executor.resources")
    container = {
        "name": EXECUTOR_CONTAINER,
        **_container_required(launch),
        "resources": resources,
        "env": [
            {"name": "HOME", "value": SCRATCH_DIR},
            # Spark reads the secret's file only with a Kubernetes master, and executors receive the master too late.
            {"name": "JAVA_TOOL_OPTIONS", "value": f"-Dspark.master={launch.installation.master}"},
            *scratch_env(launch),
        ],
        "volumeMounts": [
            {"name": "backfill-control", "mountPath": CONTROL_DIR, "readOnly": True},
            *({"name": name, "mountPath": path} for name, path in EXECUTOR_MOUNTS.items()),
            *executor_mounts(launch),
            *_source_secret_mount(launch),
        ],
    }
    # Executors get no other key of the attempt's Secret, because they send no commands.
    items = [{"key": RPC_SECRET_KEY, "path": RPC_SECRET_KEY}]
    rpc_secret = {
        "name": "backfill-control",
        "secret": {"secretName": object_name(launch), "items": items, "defaultMode": 0o440},
    }
    return {
        "metadata": {"labels": labels(launch, "executor")},
        "spec": {
            **_pod_required(launch),
            # Executors connect to their driver, never to the API server, so they do not get the account's token.
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [
                rpc_secret,
                *({"name": name, "emptyDir": {}} for name in EXECUTOR_MOUNTS),
                *executor_volumes(launch),
                *_source_secret(launch),
            ],
        },
    }
