"""The fields that a pod template may have: an allowlist, because any list of forbidden fields has gaps.

There are two kinds of refusal. For a field that an administrator can allow, the hint names the setting. A field that would
take over our process, or give the pod more permissions, cannot be allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from backfill_operator.manifests.attempt import Installation, ManifestRefusedError
from backfill_operator.manifests.rules.env_rules import check_env, check_env_from
from backfill_operator.manifests.rules.limits import OPTIONAL_POD_FIELDS, Limits, ask_for, below, image_allowed, named
from backfill_operator.manifests.rules.shapes import entries, mapping, text

OURS: Final = "backfill-"
"""Prefix of the names of the operator's volumes."""

LABEL_PREFIXES: Final = ("backfill.dev/", "spark-")
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


def check_template(template: Mapping[str, Any], path: str, container: str, installation: Installation) -> None:
    """Refuse a template with a field that is not allowed.

    Args:
        template: The user's template.
        path: Path of the spec's field.
        container: Name of our container.
        installation: The administrator's settings.

    Raises:
        ManifestRefusedError: with the path of the first refused field.
    """
    limits = installation.limits
    for name in template:
        if name not in ("metadata", "spec", "apiVersion", "kind"):
            raise ManifestRefusedError(f"{path}.{name}", "is not part of a pod template", hint="use metadata and spec")
    _check_metadata(mapping(template, "metadata", path), f"{path}.metadata", limits)
    spec, at = mapping(template, "spec", path), f"{path}.spec"
    _check_pod_fields(spec, at, limits)
    for number, entry in enumerate(entries(spec, "containers", at)):
        here = f"{at}.containers[{number}]"
        if text(entry, "name", here, hint="name the container") == container:
            _check_ours(entry, here, limits)
        else:
            check_sidecar(entry, here, installation)
    for number, sidecar in enumerate(entries(spec, "initContainers", at)):
        check_sidecar(sidecar, f"{at}.initContainers[{number}]", installation)
    for number, volume in enumerate(entries(spec, "volumes", at)):
        check_volume(volume, f"{at}.volumes[{number}]", limits)


def check_image(image: str, path: str, installation: Installation) -> None:
    """Refuse an image other than the installation's and the allowed ones: its code has all permissions of the pod."""
    if not image_allowed(image, (installation.image, *installation.limits.images)):
        hint = f"use {installation.image}, {ask_for('ALLOWED_IMAGES', 'it')}"
        raise ManifestRefusedError(path, f"names an image that is not allowed ({image[:200]})", hint=hint)


def check_account(account: str, path: str, installation: Installation) -> None:
    """Refuse a service account other than the installation's and the allowed ones."""
    if account != installation.service_account and not named(account, installation.limits.service_accounts):
        hint = f"use {installation.service_account}, {ask_for('ALLOWED_SERVICE_ACCOUNTS', account)}"
        raise ManifestRefusedError(path, f"names an account that is not allowed ({account})", hint=hint)


def check_resources(resources: Mapping[str, Any], path: str) -> None:
    """Refuse claims and devices: a backfill uses CPU, memory and disk only."""
    _only(resources, frozenset({"requests", "limits"}), path)
    for part in ("requests", "limits"):
        given = resources.get(part)
        _only(given if isinstance(given, Mapping) else {}, RESOURCES, f"{path}.{part}")


# ------------------------------------------------------------------ the parts of a template
def _check_metadata(meta: Mapping[str, Any], path: str, limits: Limits) -> None:
    _only(meta, frozenset(METADATA_FIELDS), path)
    for field in METADATA_FIELDS:
        for name in mapping(meta, field, path):
            here = f'{path}.{field}["{name}"]'
            if str(name).startswith(LABEL_PREFIXES):
                raise ManifestRefusedError(here, "is set by the operator", hint="use another prefix")
            free = isinstance(name, str) and field == "annotations" and "." not in name and "/" not in name
            if not free and not (isinstance(name, str) and named(name, limits.metadata)):
                other = "use the prefix user.backfill.dev/" if field == "labels" else "remove it"
                hint = f"{other}, {ask_for('ALLOWED_METADATA', 'its name')}"
                raise ManifestRefusedError(here, "is not allowed: controllers and selectors may act upon it", hint=hint)


def _check_pod_fields(spec: Mapping[str, Any], path: str, limits: Limits) -> None:
    for name, value in spec.items():
        if value is None or name in POD_FIELDS or name in limits.pod_fields:
            continue
        hint = ELSEWHERE.get(name, "remove it")
        if name in OPTIONAL_POD_FIELDS:
            hint = f"remove it, {ask_for('ALLOWED_POD_FIELDS', name)}"
        raise ManifestRefusedError(f"{path}.{name}", "is not for a template", hint=hint)
    if spec.get("hostUsers") not in (None, False):
        raise ManifestRefusedError(f"{path}.hostUsers", "can only be false", hint="remove it")
    priority = spec.get("priorityClassName")
    if priority not in (None, "") and not (isinstance(priority, str) and named(priority, limits.priority_classes)):
        hint = f"remove it, {ask_for('ALLOWED_PRIORITY_CLASSES', str(priority)[:100])}"
        raise ManifestRefusedError(f"{path}.priorityClassName", "names a class that is not allowed", hint=hint)
    for number, secret in enumerate(entries(spec, "imagePullSecrets", path)):
        _only(secret, frozenset({"name"}), f"{path}.imagePullSecrets[{number}]")
    _check_security(mapping(spec, "securityContext", path), POD_SECURITY, f"{path}.securityContext")


def _check_ours(container: Mapping[str, Any], path: str, limits: Limits) -> None:
    _only(container, CONTAINER_FIELDS, path)
    _check_security(mapping(container, "securityContext", path), CONTAINER_SECURITY, f"{path}.securityContext")
    check_env(entries(container, "env", path), f"{path}.env", limits)
    check_env_from(entries(container, "envFrom", path), f"{path}.envFrom", limits)
    _check_mounts(container, path, ours=True)


def check_sidecar(container: Mapping[str, Any], path: str, installation: Installation) -> None:
    """Refuse an additional container that is not allowed: it shares our network and volumes."""
    if not installation.limits.sidecars:
        hint = "remove it, or have an administrator set limits.allowSidecars of the chart (BACKFILL_OPERATOR_ALLOW_SIDECARS)"
        raise ManifestRefusedError(path, "is an additional container, which is not allowed", hint=hint)
    text(container, "name", path, hint="name the container")
    _only(container, SIDECAR_FIELDS, path)
    check_image(text(container, "image", path, hint="name its image"), f"{path}.image", installation)
    _check_security(mapping(container, "securityContext", path), CONTAINER_SECURITY, f"{path}.securityContext")
    for number, port in enumerate(entries(container, "ports", path)):
        _only(port, PORT_FIELDS, f"{path}.ports[{number}]")
    check_resources(mapping(container, "resources", path), f"{path}.resources")
    for field in ("env", "envFrom"):
        entries(container, field, path)
    _check_mounts(container, path, ours=False)


def _check_mounts(container: Mapping[str, Any], path: str, *, ours: bool) -> None:
    for number, mount in enumerate(entries(container, "volumeMounts", path)):
        here = f"{path}.volumeMounts[{number}]"
        _only(mount, MOUNT_FIELDS, here)
        if text(mount, "name", here, hint="name the volume").startswith(OURS):
            raise ManifestRefusedError(f"{here}.name", "is a volume of the operator", hint="use another volume")
        where = text(mount, "mountPath", here, hint="say where")
        parts = where.removeprefix("/").rstrip("/").split("/")
        if not where.startswith("/") or any(part in ("", ".", "..") for part in parts):
            raise ManifestRefusedError(
                f"{here}.mountPath", "is not a plain path", hint="write it as /lake or /mnt/lake"
            )
        if ours and parts[0] in SYSTEM_FOLDERS:
            message = f"would hide files of the image or of the operator in /{parts[0]}"
            raise ManifestRefusedError(
                f"{here}.mountPath", message, hint="mount it elsewhere, as at /lake or /mnt/lake"
            )


def check_volume(volume: Mapping[str, Any], path: str, limits: Limits) -> None:
    """Refuse a volume of a type that is not allowed."""
    if text(volume, "name", path, hint="name the volume").startswith(OURS):
        hint = f"use a name that does not begin with {OURS}"
        raise ManifestRefusedError(f"{path}.name", "is set by the operator", hint=hint)
    types = [field for field in volume if field != "name" and volume[field] is not None]
    for kind in types:
        source = mapping(volume, kind, path)
        if kind == "hostPath":
            _check_host_path(source, f"{path}.hostPath", limits)
        elif kind not in limits.volumes:
            hint = f"use another type, {ask_for('ALLOWED_VOLUMES', str(kind)[:100])}"
            raise ManifestRefusedError(f"{path}.{kind}", "is a type of volume that is not allowed", hint=hint)
        elif kind == "projected":
            for number, projection in enumerate(entries(source, "sources", f"{path}.projected")):
                _check_projected(projection, f"{path}.projected.sources[{number}]", limits)


def _check_projected(source: Mapping[str, Any], path: str, limits: Limits) -> None:
    for kind in source:
        if kind not in limits.volumes:
            hint = f"use another source, {ask_for('ALLOWED_VOLUMES', str(kind)[:100])}"
            raise ManifestRefusedError(f"{path}.{kind}", "is a source that is not allowed", hint=hint)


def _check_host_path(source: Mapping[str, Any], path: str, limits: Limits) -> None:
    folder = text(source, "path", path, hint="name the folder")
    if not below(folder, limits.host_paths):
        hint = f"use a claim or an object store, {ask_for('ALLOWED_HOST_PATHS', 'the folder')}"
        raise ManifestRefusedError(
            f"{path}.path", f"is a folder of the node ({folder[:200]}), which is not allowed", hint=hint
        )


def _check_security(context: Mapping[str, Any], rules: Mapping[str, tuple[Judge, str]], path: str) -> None:
    _only(context, frozenset(rules), path)
    for name, (judge, hint) in rules.items():
        if context.get(name) is not None and not judge(context[name]):
            raise ManifestRefusedError(f"{path}.{name}", "would give the pod more permissions", hint=hint)


def _only(holder: Mapping[str, Any], fields: frozenset[str], path: str) -> None:
    for name, value in holder.items():
        if value is not None and name not in fields:
            raise ManifestRefusedError(f"{path}.{name}", "is not for a template", hint=ELSEWHERE.get(name, "remove it"))
