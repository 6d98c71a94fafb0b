"""The fields that a pod template may have: an allowlist, because any list of forbidden fields has gaps.

There are two kinds of refusal. For a field that an administrator can allow, the hint names the setting. A field that would
take over our process, or give the pod more permissions, cannot be allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from backfill_api.crd.explain import shown
from backfill_core.cluster_rules.env_rules import env_findings, env_from_findings
from backfill_core.cluster_rules.finding import Finding, each
from backfill_core.cluster_rules.limits import (
    OPTIONAL_POD_FIELDS,
    SETTING,
    Limits,
    Policy,
    below,
    image_allowed,
    named,
    permission,
)
from backfill_core.cluster_rules.pod_defaults import LABEL_PREFIXES, OURS, held_findings
from backfill_core.cluster_rules.shapes import entries, mapping, text

DRIVER_CONTAINER: Final = "driver"
EXECUTOR_CONTAINER: Final = "executor"

METADATA_FIELDS: Final = ("labels", "annotations")
POD_FIELDS: Final = frozenset({
    "affinity", "containers", "hostUsers", "imagePullSecrets", "initContainers", "nodeSelector", "priorityClassName",
    "securityContext", "tolerations", "topologySpreadConstraints", "volumes",
})  # fmt: skip
CONTAINER_FIELDS: Final = frozenset({"name", "env", "envFrom", "securityContext", "volumeMounts"})
SIDECAR_FIELDS: Final = CONTAINER_FIELDS | {
    "image", "imagePullPolicy", "command", "args", "workingDir", "ports", "resources", "restartPolicy",
}  # fmt: skip
MOUNT_FIELDS: Final = frozenset({"name", "mountPath", "subPath", "readOnly", "recursiveReadOnly"})
PORT_FIELDS: Final = frozenset({"name", "containerPort", "protocol"})
RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})

ELSEWHERE: Final = {
    "restartPolicy": "attempts are spec.backoffLimit",
    "activeDeadlineSeconds": "use spec.activeDeadlineSeconds",
    "terminationGracePeriodSeconds": "use spec.drainTimeoutSeconds",
    "serviceAccountName": "use spec.driver.serviceAccountName",
    "serviceAccount": "use spec.driver.serviceAccountName",
    "ephemeralContainers": "use kubectl debug",
    "image": "use spec.spark.image",
    "imagePullPolicy": "use spec.spark.imagePullPolicy",
    "resources": "use spec.driver.resources or spec.executor.resources",
}
"""Replacement for each field that a template may not have."""

SYSTEM_FOLDERS: Final = frozenset({
    "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "opt", "proc", "root", "run", "sbin", "sys",
    "tmp", "usr", "var",
})  # fmt: skip
"""Folders of the image and of the operator, in which a mount would hide files."""

PROFILE: Final = {"type": "RuntimeDefault"}
Judge = Callable[[Any], bool]


def _id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _ids(value: Any) -> bool:
    return isinstance(value, list) and all(_id(item) for item in value)


_OF_BOTH: Final[Mapping[str, tuple[Judge, str]]] = {
    "runAsUser": (_id, "use a user other than root, as a number"),
    "runAsGroup": (_id, "use a group other than root's, as a number"),
    "runAsNonRoot": (lambda value: value is True, "remove it"),
    "seccompProfile": (lambda value: value == PROFILE, "remove it: it is RuntimeDefault"),
}
POD_SECURITY: Final[Mapping[str, tuple[Judge, str]]] = {
    **_OF_BOTH,
    "fsGroup": (_id, "use a group other than root's, as a number"),
    "fsGroupChangePolicy": (lambda value: value in ("OnRootMismatch", "Always"), "use OnRootMismatch or Always"),
    "supplementalGroups": (_ids, "use groups other than root's, as numbers"),
}
CONTAINER_SECURITY: Final[Mapping[str, tuple[Judge, str]]] = {
    **_OF_BOTH,
    "allowPrivilegeEscalation": (lambda value: value is False, "remove it"),
    "privileged": (lambda value: value is False, "remove it"),
    "readOnlyRootFilesystem": (lambda value: value is True, "remove it"),
    "capabilities": (lambda value: value == {"drop": ["ALL"]}, "remove it: all are dropped"),
}
"""Allowed security settings: values equal to the operator's own, and users and groups other than root."""


def template_findings(template: Mapping[str, Any], path: str, container: str, policy: Policy) -> Iterator[Finding]:
    """Yield each field of a template that is not allowed.

    Args:
        template: The user's template.
        path: Path of the spec's field.
        container: Name of our container.
        policy: The requests that the installation allows.
    """
    limits = policy.limits
    for name in template:
        if name not in ("metadata", "spec", "apiVersion", "kind"):
            yield Finding(f"{path}.{name}", "is not part of a pod template", "use metadata and spec")
    yield from each(
        _metadata(template, path, limits),
        _pod_fields(template, path, limits),
        _containers(template, path, container, policy),
        _sidecars(template, path, policy),
        _volumes(template, path, limits),
        held_findings(template, path, container, policy.defaults.get(container, {})),
    )


def image_findings(image: str, path: str, policy: Policy) -> Iterator[Finding]:
    """Yield an image other than the installation's and the allowed ones: its code has all permissions of the pod."""
    if not image_allowed(image, (policy.image, *policy.limits.images)):
        remedy = f"use {policy.image}" if policy.image else "leave it out"
        setting = permission("ALLOWED_IMAGES", "it")
        yield Finding(path, "names an image that is not allowed", remedy, shown(image), setting)


def account_findings(account: str, path: str, policy: Policy) -> Iterator[Finding]:
    """Yield a service account other than the installation's and the allowed ones."""
    if account != policy.service_account and not named(account, policy.limits.service_accounts):
        remedy = f"use {policy.service_account}" if policy.service_account else "leave it out"
        setting = permission("ALLOWED_SERVICE_ACCOUNTS", account)
        yield Finding(path, "names an account that is not allowed", remedy, shown(account), setting)


def resource_findings(resources: Mapping[str, Any], path: str) -> Iterator[Finding]:
    """Yield claims and devices: a backfill uses CPU, memory and disk only."""
    yield from _only(resources, frozenset({"requests", "limits"}), path)
    for part in ("requests", "limits"):
        given = resources.get(part)
        yield from _only(given if isinstance(given, Mapping) else {}, RESOURCES, f"{path}.{part}")


# ------------------------------------------------------------------ the parts of a template
def _metadata(template: Mapping[str, Any], path: str, limits: Limits) -> Iterator[Finding]:
    meta, path = mapping(template, "metadata", path), f"{path}.metadata"
    yield from _only(meta, frozenset(METADATA_FIELDS), path)
    for field in METADATA_FIELDS:
        for name in mapping(meta, field, path):
            here = f'{path}.{field}["{name}"]'
            if str(name).startswith(LABEL_PREFIXES):
                yield Finding(here, "is set by the operator", "use another prefix")
                continue
            free = isinstance(name, str) and field == "annotations" and "." not in name and "/" not in name
            if not free and not (isinstance(name, str) and named(name, limits.metadata)):
                remedy = "use the prefix user.backfill.dev/" if field == "labels" else "remove it"
                message = "is not allowed: controllers and selectors may act upon it"
                yield Finding(here, message, remedy, permission=permission("ALLOWED_METADATA", "its name"))


def _pod_fields(template: Mapping[str, Any], path: str, limits: Limits) -> Iterator[Finding]:
    spec, path = mapping(template, "spec", path), f"{path}.spec"
    for name, value in spec.items():
        if value is None or name in POD_FIELDS or name in limits.pod_fields:
            continue
        remedy = ELSEWHERE.get(name, "remove it")
        setting = permission("ALLOWED_POD_FIELDS", name) if name in OPTIONAL_POD_FIELDS else ""
        yield Finding(f"{path}.{name}", "is not for a template", remedy, permission=setting)
    if spec.get("hostUsers") not in (None, False):
        yield Finding(f"{path}.hostUsers", "can only be false", "remove it", shown(spec["hostUsers"]))
    priority = spec.get("priorityClassName")
    if priority not in (None, "") and not (isinstance(priority, str) and named(priority, limits.priority_classes)):
        setting = permission("ALLOWED_PRIORITY_CLASSES", str(priority)[:100])
        message = "names a class that is not allowed"
        yield Finding(f"{path}.priorityClassName", message, "remove it", shown(priority), setting)
    for number, secret in enumerate(entries(spec, "imagePullSecrets", path)):
        yield from _only(secret, frozenset({"name"}), f"{path}.imagePullSecrets[{number}]")
    yield from _security(spec, path, POD_SECURITY)


def _containers(template: Mapping[str, Any], path: str, container: str, policy: Policy) -> Iterator[Finding]:
    spec, path = mapping(template, "spec", path), f"{path}.spec"
    for number, entry in enumerate(entries(spec, "containers", path)):
        yield from each(_container(entry, f"{path}.containers[{number}]", container, policy))


def _container(entry: Mapping[str, Any], path: str, container: str, policy: Policy) -> Iterator[Finding]:
    ours = text(entry, "name", path, hint="name the container") == container
    yield from _ours(entry, path, policy.limits) if ours else _sidecar(entry, path, policy)


def _ours(container: Mapping[str, Any], path: str, limits: Limits) -> Iterator[Finding]:
    yield from _only(container, CONTAINER_FIELDS, path)
    yield from _security(container, path, CONTAINER_SECURITY)
    yield from env_findings(entries(container, "env", path), f"{path}.env", limits)
    yield from env_from_findings(entries(container, "envFrom", path), f"{path}.envFrom", limits)
    yield from _volume_mounts(container, path, ours=True)


def _sidecars(template: Mapping[str, Any], path: str, policy: Policy) -> Iterator[Finding]:
    spec, path = mapping(template, "spec", path), f"{path}.spec"
    for number, sidecar in enumerate(entries(spec, "initContainers", path)):
        yield from each(_sidecar(sidecar, f"{path}.initContainers[{number}]", policy))


def _sidecar(container: Mapping[str, Any], path: str, policy: Policy) -> Iterator[Finding]:
    """Yield an additional container that is not allowed: it shares our network and volumes."""
    if not policy.limits.sidecars:
        setting = f"set limits.allowSidecars of the chart ({SETTING}ALLOW_SIDECARS)"
        message = "is an additional container, which is not allowed"
        yield Finding(path, message, "remove it", permission=setting)
        return
    text(container, "name", path, hint="name the container")
    yield from _only(container, SIDECAR_FIELDS, path)
    yield from image_findings(text(container, "image", path, hint="name its image"), f"{path}.image", policy)
    yield from _security(container, path, CONTAINER_SECURITY)
    for number, port in enumerate(entries(container, "ports", path)):
        yield from _only(port, PORT_FIELDS, f"{path}.ports[{number}]")
    yield from resource_findings(mapping(container, "resources", path), f"{path}.resources")
    for field in ("env", "envFrom"):
        entries(container, field, path)
    yield from _volume_mounts(container, path, ours=False)


def _volume_mounts(container: Mapping[str, Any], path: str, *, ours: bool) -> Iterator[Finding]:
    for number, mount in enumerate(entries(container, "volumeMounts", path)):
        yield from each(_volume_mount(mount, f"{path}.volumeMounts[{number}]", ours=ours))


def _volume_mount(mount: Mapping[str, Any], here: str, *, ours: bool) -> Iterator[Finding]:
    yield from _only(mount, MOUNT_FIELDS, here)
    if text(mount, "name", here, hint="name the volume").startswith(OURS):
        yield Finding(f"{here}.name", "is a volume of the operator", "use another volume", shown(mount["name"]))
    where = text(mount, "mountPath", here, hint="say where")
    parts = where.removeprefix("/").rstrip("/").split("/")
    if not where.startswith("/") or any(part in ("", ".", "..") for part in parts):
        yield Finding(f"{here}.mountPath", "is not a plain path", "write it as /lake or /mnt/lake", shown(where))
    elif ours and parts[0] in SYSTEM_FOLDERS:
        message = f"would hide files of the image or of the operator in /{parts[0]}"
        yield Finding(f"{here}.mountPath", message, "mount it elsewhere, as at /lake or /mnt/lake", shown(where))


def _volumes(template: Mapping[str, Any], path: str, limits: Limits) -> Iterator[Finding]:
    spec, path = mapping(template, "spec", path), f"{path}.spec"
    for number, volume in enumerate(entries(spec, "volumes", path)):
        yield from each(_volume(volume, f"{path}.volumes[{number}]", limits))


def _volume(volume: Mapping[str, Any], path: str, limits: Limits) -> Iterator[Finding]:
    """Yield a volume of a type that is not allowed."""
    name = text(volume, "name", path, hint="name the volume")
    if name.startswith(OURS):
        remedy = f"use a name that does not begin with {OURS}"
        yield Finding(f"{path}.name", "is set by the operator", remedy, shown(name))
    types = [field for field in volume if field != "name" and volume[field] is not None]
    for kind in types:
        source = mapping(volume, kind, path)
        if kind == "hostPath":
            yield from _host_path(source, f"{path}.hostPath", limits)
        elif kind not in limits.volumes:
            setting = permission("ALLOWED_VOLUMES", str(kind)[:100])
            message = "is a type of volume that is not allowed"
            yield Finding(f"{path}.{kind}", message, "use another type", permission=setting)
        elif kind == "projected":
            for number, projection in enumerate(entries(source, "sources", f"{path}.projected")):
                yield from _projected(projection, f"{path}.projected.sources[{number}]", limits)


def _projected(source: Mapping[str, Any], path: str, limits: Limits) -> Iterator[Finding]:
    for kind in source:
        if kind not in limits.volumes:
            setting = permission("ALLOWED_VOLUMES", str(kind)[:100])
            yield Finding(f"{path}.{kind}", "is a source that is not allowed", "use another source", permission=setting)


def _host_path(source: Mapping[str, Any], path: str, limits: Limits) -> Iterator[Finding]:
    folder = text(source, "path", path, hint="name the folder")
    if not below(folder, limits.host_paths):
        remedy, setting = "use a claim or an object store", permission("ALLOWED_HOST_PATHS", "the folder")
        yield Finding(f"{path}.path", "is a folder of the node that is not allowed", remedy, shown(folder), setting)


def _security(holder: Mapping[str, Any], path: str, rules: Mapping[str, tuple[Judge, str]]) -> Iterator[Finding]:
    context, path = mapping(holder, "securityContext", path), f"{path}.securityContext"
    yield from _only(context, frozenset(rules), path)
    for name, (judge, remedy) in rules.items():
        if context.get(name) is not None and not judge(context[name]):
            yield Finding(f"{path}.{name}", "would give the pod more permissions", remedy, shown(context[name]))


def _only(holder: Mapping[str, Any], fields: frozenset[str], path: str) -> Iterator[Finding]:
    for name, value in holder.items():
        if value is not None and name not in fields:
            yield Finding(f"{path}.{name}", "is not for a template", ELSEWHERE.get(name, "remove it"))
